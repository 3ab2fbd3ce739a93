"""`sara evaluate`: score a model on a set of problems."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.environment import set_up_environment

if TYPE_CHECKING:
    from sara.config import RunConfig


def evaluate(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that win over the file, such as engine.max_sequences=64")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/demo.toml")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="'builtin', a model's folder, or a name on the hub")
    ] = None,
    dataset: Annotated[str | None, typer.Option("--set", help="Data set, such as aime24; `sara data list`")] = None,
    path: Annotated[Path | None, typer.Option("--path", help="JSONL or Parquet file of the data set")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Rollouts for each problem")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Sampling temperature")] = None,
    max_new_tokens: Annotated[int | None, typer.Option("--max-new-tokens", help="Longest completion")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's log")] = False,
) -> None:
    """Score a model: avg@k, pass@k and maj@k with intervals, whole, by subject and by level."""
    options = {
        "model.path": model,
        "data.heldout": dataset,
        "data.heldout_path": path,
        "evaluation.k": k,
        "evaluation.temperature": temperature,
        "evaluation.max_new_tokens": max_new_tokens,
    }
    settings = read_settings(config, overrides or [], options)
    set_up_environment(verbose)
    from flows.evaluate import evaluate as evaluate_flow

    result = evaluate_flow(settings)
    if as_json:
        print(json.dumps(result.scores, indent=2))
    else:
        print("\n".join(_lines(settings, result.scores)))
    print(f"records    {settings.tracking.uri}, run {result.mlflow_run_id}", file=sys.stderr)
    print(f"responses  {result.responses}", file=sys.stderr)


def read_settings(config: Path | None, overrides: list[str], options: dict[str, object]) -> RunConfig:
    """Settings of one run out of a file for a run or a comparison, overrides and options; options win.

    A set that is named without a path is read from where it usually comes from, not from the file's path.
    """
    from sara.sweeps import load_run_config

    chosen = [f"{key}={_toml(value)}" for key, value in options.items() if value is not None]
    settings = load_run_config(config, ["name=evaluation", *overrides, *chosen])
    is_path_named = any(text.partition("=")[0].strip() == "data.heldout_path" for text in [*overrides, *chosen])
    if options.get("data.heldout") is None or is_path_named:
        return settings
    usual = {"heldout_path": None, "heldout_columns": {}, "heldout_revision": None}
    return settings.model_copy(update={"data": settings.data.model_copy(update=usual)})


def _toml(value: object) -> str:
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value))


def _lines(settings: RunConfig, scores: dict[str, float]) -> list[str]:
    k, temperature = settings.evaluation.k, settings.evaluation.temperature
    temperature = settings.engine.temperature if temperature is None else temperature
    named = {f"avg@{k}": "accuracy", f"pass@{k}": "pass_at_k", f"maj@{k}": "maj_at_k"}
    named |= {f"pass@{n}": f"pass_at_{n}" for n in settings.evaluation.further_n}
    for part in ("subject", "level"):
        names = [key.removeprefix("eval/") for key in scores if key.startswith(f"eval/{part}/")]
        named |= {name.replace("/", " "): name for name in names if not name.endswith(("_low", "_high"))}
    width = max(map(len, named))
    lines = [f"{settings.data.heldout}: {k} rollouts for each problem at temperature {temperature:g}"]
    for title, name in named.items():
        value, low, high = (scores[f"eval/{name}{end}"] for end in ("", "_low", "_high"))
        lines.append(f"{title:<{width}}  {value:6.1%}   95% interval {low:.1%} to {high:.1%}")
    means = [
        f"{scores[f'eval/tokens_mean{end}']:,.0f}{' when' * bool(end)}{end.replace('_', ' ')}"
        for end in ("", "_right", "_wrong")
        if f"eval/tokens_mean{end}" in scores
    ]
    lines.append(f"tokens: mean {', '.join(means)}; 95% have at most {scores['eval/tokens_p95']:,.0f}")
    lines.append(f"cut off {scores['eval/truncated']:.1%}, without an answer {scores['eval/no_answer']:.1%}")
    if scores["eval/missing"]:
        lines.append(f"{scores['eval/missing']:,.0f} rollouts could not be scored and count as nothing")
    return lines
