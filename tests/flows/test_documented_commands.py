"""Every `sara simulate` and `sara plan` in the docs is a command with settings that exist."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from flows.commands.plan import as_overrides
from sara.config_file import load_config
from sara.planning.config import PlanConfig
from sara.planning.reading import read_pool
from sara.simulation.config import SimulateConfig

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


def test_the_docs_show_commands_at_all():
    assert len(documented("simulate")) >= 3 and len(documented("plan")) >= 1
