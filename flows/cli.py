"""The command line: `sara compare | train | evaluate | report | data | simulate | replay | plan | sync | ...`.

Owns options, printing and the one-line errors. Prefect, MLflow and torch are imported by the command
that needs them, so that `--help` and a mistake in a configuration answer at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.comparison_table import print_comparison, say
from flows.commands.data import data
from flows.commands.dry_run import show_outlines
from flows.commands.evaluate import evaluate
from flows.commands.interruption import says_how_to_go_on
from flows.commands.options import Allow, AsJson, ConfigOption, DryRun, GpuMemory, Overrides, Resume, Verbose
from flows.commands.plan import plan
from flows.commands.replay import replay
from flows.commands.report import report
from flows.commands.reproduce import reproduce
from flows.commands.services import deploy, recover, ui, up
from flows.commands.simulate import simulate
from flows.commands.sweep import sweep
from flows.commands.sync import sync
from flows.environment import set_up_environment
from sara.failures import RunFailure
from tasks.alone import app as alone
from tasks.stopping import Stopped

app = typer.Typer(
    help="Spend rollouts well in RL post-training of language models.",
    pretty_exceptions_enable=False,
    add_completion=False,
)

_INTERRUPTED = 130  # what typer makes of Ctrl-C

QUICK = (
    "training.steps=3",
    "training.evaluate_every=0",
    "data.train_size=128",
    "data.heldout_size=64",
    "evaluation.k=4",
)


@app.command()
def compare(
    overrides: Overrides = None,
    config: ConfigOption = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"A small version: {' '.join(QUICK)}")] = False,
    dry_run: DryRun = False,
    gpu_memory: GpuMemory = None,
    resume: Resume = False,
    allow: Allow = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train with every strategy and set them side by side."""
    from sara.config import CompareConfig
    from sara.config_file import load_config

    settings = load_config(CompareConfig, config, [*(QUICK if quick else ()), *(overrides or ())])
    set_up_environment(verbose)
    if dry_run:
        show_outlines(settings.runs(), as_json, gpu_memory)
        return
    from flows.compare import compare as compare_flow
    from tasks.resuming import settings_to_resume

    allowed = _names(allow)
    settings = settings_to_resume(settings, allowed) if resume else settings
    with says_how_to_go_on("compare"):
        result = compare_flow(settings, resume, allowed)
    if result.report is None:  # MLflow was not reached, and a warning has said how to go on
        return
    from tasks.tracking import load_comparison

    comparison = load_comparison(settings.tracking.uri, settings.tracking.experiment, result.mlflow_run_id)
    print_comparison(comparison, as_json)
    say(f"report   {result.report}", f"records  {settings.tracking.uri} (look at them with `make ui`)")


@app.command()
def train(
    overrides: Overrides = None,
    config: ConfigOption = None,
    dry_run: DryRun = False,
    gpu_memory: GpuMemory = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON instead of text")] = False,
    resume: Resume = False,
    allow: Allow = None,
    verbose: Verbose = False,
) -> None:
    """Train with one strategy and seed: strategy=sara seed=0."""
    from sara.sweeps import load_run_config

    settings = load_run_config(config, overrides or ())
    set_up_environment(verbose)
    if dry_run:
        show_outlines([settings], as_json, gpu_memory)
        return
    from flows.train import train_and_evaluate
    from tasks.resuming import settings_to_resume

    allowed = _names(allow)
    settings = settings_to_resume(settings, allowed) if resume else settings
    with says_how_to_go_on("train"):
        trained = train_and_evaluate(settings, resume, allowed)
    if trained.resumed_at == trained.steps:
        say(f"{trained.folder}: had finished already, after {trained.steps} steps")
    say(f"model    {trained.model_path}", f"records  {settings.tracking.uri}, run {trained.mlflow_run_id}")


@app.command()
def pretrain(
    out: Annotated[Path, typer.Option("--out", help="New folder for the model")],
    batches: Annotated[int, typer.Option(min=1, help="Optimizer updates")] = 1200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and traces")] = 0,
) -> None:
    """Make the built-in model: train a small decoder on Countdown search traces."""
    set_up_environment()
    from sara.builtin.pretraining import PretrainingRecipe
    from tasks.pretrain import make_builtin_model

    folder = make_builtin_model(out, PretrainingRecipe(batches=batches, seed=seed))
    say(f"model    {folder}", f"card     {folder / 'README.md'}")


app.add_typer(alone, name="task")


app.command()(up)


app.command()(deploy)


app.command()(recover)


app.command()(ui)


app.command()(sweep)


app.command()(reproduce)


app.command()(report)


app.command()(evaluate)


app.add_typer(data, name="data")


app.command()(plan)


app.command()(replay)


app.command()(simulate)


app.command()(sync)


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip()) if listed else ()


def main() -> None:
    """Entry point: a user's mistake is one line on stderr and exit code 2; Ctrl-C is 130."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (ValueError, typer.TyperException) as error:
        line = error.format_message() if isinstance(error, typer.TyperException) else error
        print(f"sara: {line}", file=sys.stderr)
        sys.exit(2)
    except RunFailure as failure:
        print(f"sara: {failure}", file=sys.stderr)
        sys.exit(1)
    except Stopped as stop:
        print(f"sara: {stop}", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    if status == _INTERRUPTED:
        print("sara: stopped", file=sys.stderr)
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
