"""Single tasks by hand: no flow, no server; on a configuration, or on what an earlier run left.

`sara task train ...` and `python -m tasks.train ...` are the same thing. A task called so does what it does in a
flow, with the same result: the functions below call the task's own function.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sara.config import RunConfig
    from tasks.prepare import PreparedData

app = typer.Typer(
    help="Run one task by itself: no flow, no Prefect server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/demo.toml")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Settings that win, such as allocation.tau_low=0.4")]
FromRun = Annotated[
    Path | None, typer.Option("--from", help="Folder of an earlier training run: its settings and its data")
]
DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder that `prepare` wrote; made anew if left out")]


@app.command()
def prepare(overrides: Overrides = None, config: ConfigOption = None, earlier: FromRun = None) -> None:
    """Make or read the problems; writes train.jsonl and heldout.jsonl to OUTPUT_DIR/NAME/data."""
    settings = _settings(config, overrides, earlier)
    _print(_prepare(settings, settings.output_dir / settings.name / "data"))


@app.command()
def train(
    overrides: Overrides = None, config: ConfigOption = None, earlier: FromRun = None, data: DataFolder = None
) -> None:
    """Train with one strategy and seed into OUTPUT_DIR/NAME."""
    settings = _settings(config, overrides, earlier)
    from tasks.train import train as task

    _print(task.fn(settings, _data(settings, earlier, data)))


@app.command()
def evaluate(
    overrides: Overrides = None, config: ConfigOption = None, earlier: FromRun = None, data: DataFolder = None
) -> None:
    """Score a model on the held-out problems: that of --from, or model.path=FOLDER."""
    settings = _settings(config, overrides, earlier)
    if earlier is not None and not any(text.startswith("model.path=") for text in overrides or ()):
        settings = settings.with_model(_existing(earlier / "model", "it holds no trained model"))
    from tasks.evaluate import evaluate_model
    from tasks.mlflow_runs import evaluation_run
    from tasks.run_folder import claim_folder

    with claim_folder(settings.output_dir / f"{settings.name}-evaluation") as folder:
        problems = _data(settings, earlier, data)
        with evaluation_run(settings, problems, folder):
            _print(evaluate_model.fn(settings, problems, folder, 0, folder))


@app.command()
def report(
    overrides: Overrides = None,
    config: ConfigOption = None,
    run: Annotated[str | None, typer.Option("--run", help="MLflow run of a comparison; else the newest")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to")] = Path("outputs/report"),
) -> None:
    """Write the report of a comparison or sweep from its MLflow records."""
    tracking = _settings(config, overrides, None).tracking
    from tasks.report import write_comparison_report

    _, page = write_comparison_report(tracking.uri, tracking.experiment, out, run)
    _print(page)


def run_task(name: str) -> None:
    """`python -m tasks.NAME`: a user's mistake is one line on stderr and exit code 2."""
    try:
        status = app([name, *sys.argv[1:]], standalone_mode=False)
    except (ValueError, typer.TyperException) as error:
        line = error.format_message() if isinstance(error, typer.TyperException) else error
        print(f"tasks.{name}: {line}", file=sys.stderr)
        sys.exit(2)
    sys.exit(status or 0)


def _settings(config: Path | None, overrides: Sequence[str] | None, earlier: Path | None) -> RunConfig:
    """Of the file and the command line; on top of an earlier run's, which keeps its place among its siblings."""
    from sara.sweeps import load_run_config
    from tasks.environment import set_up_environment

    set_up_environment()
    if earlier is None:
        return load_run_config(config, overrides or ())
    if config is not None:
        raise ValueError("--config and --from given together; expected one of them (overrides go with both)")
    kept = json.loads(_existing(earlier / "config.json", "it is no run's folder").read_text(encoding="utf-8"))
    again = [f"name={kept['name']}-again", f"output_dir={earlier.parent}"]
    return load_run_config(None, [*again, *(overrides or ())], base=kept)


def _data(settings: RunConfig, earlier: Path | None, folder: Path | None) -> PreparedData:
    """What a folder holds, what the earlier run saw, or made now."""
    if folder is None and earlier is not None:
        folder = next((place for place in (earlier / "data", earlier.parent / "data") if place.is_dir()), None)
        if folder is None:
            raise ValueError(f"{earlier}: there are no data beside it; give their folder with --data")
    if folder is None:
        return _prepare(settings, settings.output_dir / f"{settings.name}-data")
    from tasks.prepare import read_prepared

    return read_prepared(settings, folder)


def _prepare(settings: RunConfig, folder: Path) -> PreparedData:
    from tasks.prepare import prepare_data

    return prepare_data.fn(settings, folder)


def _existing(path: Path, otherwise: str) -> Path:
    if not path.exists():
        raise ValueError(f"{path.parent}: {otherwise} ({path.name} is not there)")
    return path


def _print(value: object) -> None:
    """What the task gave, as JSON."""
    is_model = hasattr(value, "model_dump_json")
    print(value.model_dump_json(indent=2) if is_model else json.dumps(value, indent=2, default=str))
