"""The command line: `sara compare | train | evaluate | report | simulate | replay | plan | sync | pretrain | ui`.

Owns options, printing and the one-line errors. Prefect, MLflow and torch are imported by the command
that needs them, so that `--help` and a mistake in a configuration answer at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.plan import plan
from flows.commands.replay import replay
from flows.commands.simulate import simulate
from flows.commands.sync import sync
from flows.environment import set_up_environment

app = typer.Typer(
    help="Spend rollouts well in RL post-training of language models.",
    pretty_exceptions_enable=False,
    add_completion=False,
)

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/demo.toml")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Settings that win over the file, such as allocation.tau_low=0.4")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Prefect's log")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")]

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
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train with every strategy and set them side by side."""
    from sara.config import CompareConfig
    from sara.config_file import load_config

    settings = load_config(CompareConfig, config, [*(QUICK if quick else ()), *(overrides or ())])
    set_up_environment(verbose)
    from flows.compare import compare as compare_flow

    result = compare_flow(settings)
    if result.report is None:  # MLflow was not reached, and a warning has said how to go on
        return
    _print_comparison(settings.tracking.uri, settings.tracking.experiment, result.mlflow_run_id, as_json)
    _say(f"report   {result.report}", f"records  {settings.tracking.uri} (look at them with `make ui`)")


@app.command()
def train(overrides: Overrides = None, config: ConfigOption = None, verbose: Verbose = False) -> None:
    """Train with one strategy and seed: strategy=sara seed=0."""
    from sara.config import RunConfig
    from sara.config_file import load_config

    settings = load_config(RunConfig, config, overrides or ())
    set_up_environment(verbose)
    from flows.train import train_and_evaluate

    trained = train_and_evaluate(settings)
    _say(f"model    {trained.model_path}", f"records  {settings.tracking.uri}, run {trained.mlflow_run_id}")


@app.command()
def evaluate(
    overrides: Overrides = None,
    config: ConfigOption = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score a model on held-out problems: model.path=outputs/run/training/model."""
    from sara.config import RunConfig
    from sara.config_file import load_config

    settings = load_config(RunConfig, config, ["name=evaluation", *(overrides or ())])
    set_up_environment(verbose)
    from flows.evaluate import evaluate as evaluate_flow

    scores = evaluate_flow(settings)
    if as_json:
        print(json.dumps(scores, indent=2))
        return
    k = settings.evaluation.k
    for name, title in (("accuracy", f"avg@{k}"), ("pass_at_k", f"pass@{k}")):
        value, low, high = (scores[f"eval/{name}{end}"] for end in ("", "_low", "_high"))
        print(f"{title:<8} {value:.1%}   95% interval {low:.1%} to {high:.1%}")


@app.command()
def report(
    overrides: Overrides = None,
    config: ConfigOption = None,
    run: Annotated[
        str | None, typer.Option("--run", help="MLflow run id of a comparison; the newest if left out")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to")] = Path("outputs/report"),
    as_json: AsJson = False,
) -> None:
    """Write the report of a comparison from its MLflow records."""
    from sara.config import CompareConfig
    from sara.config_file import load_config

    tracking = load_config(CompareConfig, config, overrides or ()).tracking
    set_up_environment()
    from tasks.report import write_comparison_report

    comparison, page = write_comparison_report(tracking.uri, tracking.experiment, out, run)
    _print_comparison(tracking.uri, tracking.experiment, comparison.run_id, as_json)
    _say(f"report   {page}")


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
    _say(f"model    {folder}", f"card     {folder / 'README.md'}")


@app.command()
def ui(
    overrides: Overrides = None,
    config: ConfigOption = None,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    prefect_port: Annotated[int, typer.Option(min=1, max=65535)] = 4200,
) -> None:
    """Open MLflow and Prefect on the records, on 127.0.0.1, until Ctrl-C."""
    from sara.config import CompareConfig
    from sara.config_file import load_config

    tracking = load_config(CompareConfig, config, overrides or ()).tracking
    set_up_environment()
    from flows.ui import serve

    serve(tracking.uri, tracking.experiment, mlflow_port, prefect_port)


app.command()(plan)


app.command()(replay)


app.command()(simulate)


app.command()(sync)


def _print_comparison(uri: str, experiment: str, run_id: str, as_json: bool) -> None:
    from sara.reporting import findings, render_text, rows_as_json, summary_table
    from tasks.tracking import load_comparison

    comparison = load_comparison(uri, experiment, run_id)
    rows = summary_table(comparison)
    if as_json:
        print(json.dumps(rows_as_json(rows), indent=2))
        return
    print(render_text(rows, is_terminal=sys.stdout.isatty()))
    print("\n".join(findings(comparison)))


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def main() -> None:
    """Entry point: a user's mistake is one line on stderr and exit code 2; Ctrl-C is 130."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (ValueError, typer.TyperException) as error:
        line = error.format_message() if isinstance(error, typer.TyperException) else error
        print(f"sara: {line}", file=sys.stderr)
        sys.exit(2)
    if status == _INTERRUPTED:
        print("sara: stopped", file=sys.stderr)
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
