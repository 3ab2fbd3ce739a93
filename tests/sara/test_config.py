"""The configuration: what is accepted, what is refused, and what the one line says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sara.config import CompareConfig, RunConfig
from sara.config_file import ConfigError, load_config
from sara.simulation.config import SimulateConfig

CONFIGS = [
    path for path in sorted((Path(__file__).parents[2] / "configs").glob("*.toml")) if path.stem != "simulate"
]  # that one is of another kind and has a test of its own


def test_a_later_override_wins_over_an_earlier_one_and_both_over_the_file(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("[allocation]\ntau_low = 0.3\nk = 16\n")
    config = load_config(RunConfig, file, ["allocation.tau_low=0.4", "allocation.tau_low=0.6"])
    assert (config.allocation.tau_low, config.allocation.k) == (0.6, 16)


@pytest.mark.parametrize(
    ("text", "strategies"),
    [('strategies=["ds","sara+dps"]', ("ds", "sara+dps")), ("strategies=ds,sara+dps", ("ds", "sara+dps"))],
)
def test_an_override_takes_a_list_in_toml_or_with_bare_commas(text, strategies):
    assert load_config(CompareConfig, None, [text]).strategies == strategies


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("allocation.tau_low=1.4", "command line: allocation.tau_low = 1.4; expected a number in (0, 1), or 'auto'"),
        ("allocation.tau_low=automatic", "allocation.tau_low = 'automatic'; expected a number in (0, 1), or 'auto'"),
        ("allocation.probe=0", "allocation.probe = 0; expected an integer of at least 1, or 'auto'"),
        ("allocation.audit_rate=1.5", "command line: allocation.audit_rate = 1.5; expected a number in [0, 1]"),
        ("allocation.max_false_abandon=-1", "allocation.max_false_abandon = -1; expected a number in [0, 1]"),
        ("allocation.value=pairs", "command line: allocation.value = 'pairs'; expected 'groups' or 'signal'"),
        ("allocation.tau_low=0.0", "command line: allocation.tau_low = 0.0; expected a number in (0, 1)"),
        ("allocation.k=1", "command line: allocation.k = 1; expected a number in [2, 1024]"),
        ("allocation.tau_lo=0.4", "command line: unknown key allocation.tau_lo; did you mean allocation.tau_low?"),
        ("tau_low=0.4", "command line: unknown key tau_low; did you mean allocation.tau_low?"),
        ("alocation.k=4", "command line: unknown key alocation; did you mean allocation?"),
        ("allocation.k=eight", "command line: allocation.k = 'eight'; expected an integer in [2, 1024]"),
        ("allocation.on_commit=refill", "command line: allocation.on_commit = 'refill'; expected 'fill' or 'stop'"),
        ("allocation.budget=7", "command line: allocation.budget = 7; expected at least k = 8, what a group costs"),
        ("allocation.probe=9", "command line: allocation.probe = 9; expected at most k = 8"),
        (
            "allocation.groups_per_step=513",
            "command line: allocation.groups_per_step = 513; expected at most data.train_size = 512",
        ),
        ("strategy=sarah", "command line: strategy 'sarah' is unknown; did you mean 'sara'?"),
        ("seed=-1", "command line: seed = -1; expected a number in [0, "),
        ("seed=99999999999999999999", "command line: seed = 99999999999999999999; expected a number in [0, "),
        ("engine.temperature=inf", "command line: engine.temperature = inf; expected a number in (0, inf)"),
        ("learner.learning_rate=nan", "command line: learner.learning_rate = nan; expected a number in (0, inf)"),
        ("data.sizes={}", "command line: data.sizes = {}; expected at least 1 of them"),
        ("data.sizes=3", "command line: data.sizes = 3; expected a table, such as { key = value }"),
        ("data.sizes={9=1}", "command line: data.sizes has the key 9; expected at most 8"),
        ("data.number_range=[3]", "command line: data.number_range.1 = [3]; expected one value more"),
        ("data.train_path=3", "command line: data.train_path = 3; expected a path"),
        ("name=", "command line: name = ''; expected a text that is not empty"),
        ("allocation=3", "command line: allocation = 3; expected a table of settings"),
        ("data.number_range=[9,3]", "command line: data.number_range = [9, 3]; expected [smallest, largest]"),
        ("allocation", "command line: 'allocation'; expected section.key=value"),
        ("seed.x=1", "command line: seed = {'x': 1}; expected an integer"),
    ],
)
def test_a_mistake_is_one_line_that_says_where_what_and_what_is_allowed(override, line):
    with pytest.raises(ConfigError) as caught:
        load_config(RunConfig, None, ["data.train_size=512", override])
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "more"),
    [
        (["strategies=sarra"], ""),  # pydantic finds the item, and then a list that is too short
        (["strategies=sarra,sara"], ""),
        (["strategies=sarra,dss"], " (and 1 more)"),
        (["strategies=sarra", "steps=0"], " (and 1 more)"),
        (["steps=0", "stepz=0", "allocation.k=1", "allocation.tau_low=2"], " (and 3 more)"),
    ],
)
def test_a_line_counts_the_further_mistakes_and_not_what_is_said_of_the_same_one_twice(overrides, more):
    with pytest.raises(ConfigError) as caught:
        load_config(SimulateConfig, None, overrides)
    message = str(caught.value)
    assert message.endswith(more) if more else "more)" not in message


@pytest.mark.parametrize("override", ["seeds=1,1", "strategies=ds,sara,ds"])
def test_a_strategy_or_seed_named_twice_is_refused(override):
    with pytest.raises(ConfigError, match="expected each at most once"):
        load_config(CompareConfig, None, [override])


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "no such configuration file"),
        (b"k = = 3", "not valid TOML"),
        (b"\xff\xfe", "cannot be read"),
        (b"[allocation]\nprobes = 3\n", "unknown key allocation.probes; did you mean allocation.probe?"),
    ],
)
def test_a_faulty_file_is_named(tmp_path, content, line):
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(RunConfig, file)
    assert str(caught.value).startswith(str(file))
    assert line in str(caught.value)


def test_a_comparison_has_a_run_for_each_seed_and_strategy_with_everything_else_equal():
    config = CompareConfig(strategies=("ds", "sara+dps"), seeds=(3, 4), name="c")
    runs = config.runs()
    assert [(run.name, run.strategy, run.seed) for run in runs] == [
        ("ds-seed3", "ds", 3),
        ("sara-dps-seed3", "sara+dps", 3),
        ("ds-seed4", "ds", 4),
        ("sara-dps-seed4", "sara+dps", 4),
    ]
    assert all(run.allocation == config.allocation and run.data == config.data for run in runs)


@pytest.mark.parametrize("allocation", [{"budget": 64}, {"tau_low": "auto", "probe": "auto", "increment": 2}])
def test_a_configuration_survives_json(allocation):
    config = CompareConfig(data={"sizes": {2: 0.5, 5: 1.5}}, allocation=allocation)
    assert CompareConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_configuration_is_valid(path):
    assert load_config(CompareConfig, path).name == path.stem


def test_there_are_shipped_configurations():
    assert "demo.toml" in [path.name for path in CONFIGS]
