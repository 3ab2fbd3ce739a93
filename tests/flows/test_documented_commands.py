"""Every `sara` command in the docs that takes settings has settings that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from flows.commands.plan import as_overrides
from sara.config_file import load_config
from sara.experiments import ReproduceConfig
from sara.planning.config import PlanConfig
from sara.planning.reading import read_pool
from sara.simulation.config import SimulateConfig
from sara.sweeps import SweepConfig, load_run_config

ROOT = Path(__file__).resolve().parents[2]


def documented(command: str) -> list[list[str]]:
    """Arguments of each command line in the docs that is written to be run."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    lines = [line.strip() for page in pages for line in page.read_text().splitlines() if line.startswith("    sara ")]
    found = [
        shlex.split(line)[2:] for line in lines if line.startswith(f"sara {command} ") and "[" not in line.split()[2]
    ]
    return [arguments for arguments in found if arguments]


@pytest.mark.parametrize("arguments", documented("simulate"), ids=" ".join)
def test_simulate_commands_in_the_docs_are_valid(arguments):
    config = ROOT / arguments[1] if arguments[0] == "--config" else None
    settings = load_config(SimulateConfig, config, arguments[2:] if config else arguments)
    assert settings.settings()


@pytest.mark.parametrize("arguments", documented("plan"), ids=" ".join)
def test_plan_commands_in_the_docs_are_valid(arguments):
    settings = load_config(PlanConfig, None, as_overrides(arguments))
    assert read_pool(settings.source).prompts is None


def settings_in(arguments: list[str]) -> list[str]:
    """The overrides among a command's arguments, without those that a table stands for."""
    options_with_values = {"--config", "--data", "--from", "--run", "--sweep", "--tag", "--out", "--slots", "--on"}
    kept, is_value = [], False
    for argument in arguments:
        if not is_value and not argument.startswith("--") and "=" in argument:
            kept.append(argument)
        is_value = argument in options_with_values
    return kept


def config_in(arguments: list[str]) -> Path | None:
    return ROOT / arguments[arguments.index("--config") + 1] if "--config" in arguments else None


@pytest.mark.parametrize("arguments", documented("sweep"), ids=" ".join)
def test_sweeps_in_the_docs_are_valid(arguments):
    assert load_config(SweepConfig, config_in(arguments), settings_in(arguments)).cells()


@pytest.mark.parametrize("arguments", documented("reproduce"), ids=" ".join)
def test_reproductions_in_the_docs_are_valid(arguments):
    assert load_config(ReproduceConfig, None, settings_in(arguments)).sweeps()


_OF_ONE_RUN = ("task", "train", "evaluate", "report", "data")


@pytest.mark.parametrize("arguments", [one for name in _OF_ONE_RUN for one in documented(name)], ids=" ".join)
def test_settings_of_single_runs_and_reports_in_the_docs_are_valid(arguments):
    load_run_config(config_in(arguments), settings_in(arguments))


def test_the_docs_show_commands_at_all():
    assert len(documented("sweep")) >= 1 and len(documented("reproduce")) >= 3 and len(documented("task")) >= 4
    assert len(documented("simulate")) >= 3 and len(documented("plan")) >= 1
