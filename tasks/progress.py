"""Live progress of training: a bar on a terminal, and one on the page of a Prefect run. Silent everywhere else."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tasks.artifacts import ProgressArtifact, artifact_key


class TrainingProgress:
    """A bar for one training run; a context manager. Written to stderr, and only if that is a terminal."""

    def __init__(self, label: str, steps: int, done: int = 0):
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[spent]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task(label, total=steps, completed=done, spent="")
        self._artifact = ProgressArtifact(artifact_key("training", label), f"Training steps of {label}")

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def show(self, metrics: dict[str, float]) -> None:
        """Advance by one step and show its totals."""
        spent = (
            f"{metrics['cumulative/rollouts']:,.0f} rollouts  "
            f"{metrics['effective_share']:.0%} effective  reward {metrics['reward/mean']:.2f}"
        )
        self._progress.update(self._bar, advance=1, spent=spent)
        task = self._progress.tasks[0]
        done, steps = int(task.completed), int(task.total)
        self._artifact.show(done, steps, f"step {done} of {steps}: {spent}")
