from __future__ import annotations

from pathlib import Path

import pytest

from sara.config_file import ConfigError, load_config
from sara.simulation.config import SimulateConfig

EXPERIMENT = Path(__file__).resolve().parents[3] / "configs" / "simulate.toml"


def read(*overrides: str) -> SimulateConfig:
    return load_config(SimulateConfig, None, overrides)


def test_the_experiment_that_ships_is_valid_and_crosses_its_grid():
    config = load_config(SimulateConfig, EXPERIMENT)
    assert len(config.settings()) > 1
    assert {setting.k for setting in config.settings()} == {8, 16, 32, 64}


def test_the_grid_is_a_product_with_k_slowest_and_shares_of_k():
    config = read("grid.k=8,16", "grid.tau_low=0.3,0.5", "grid.probe=0.25,4", "grid.increment=2")
    found = [(s.k, s.tau_low, s.probe, s.increment) for s in config.settings()]
    assert found[:4] == [(8, 0.3, 2, 2), (8, 0.3, 4, 2), (8, 0.5, 2, 2), (8, 0.5, 4, 2)]
    # At k = 16 a quarter of the group is 4 too, so both probes are one setting.
    assert found[4:] == [(16, 0.3, 4, 2), (16, 0.5, 4, 2)]
    assert config.grid.varied() == ["k", "tau_low", "probe"]


def test_a_probe_larger_than_k_is_left_out_and_counted():
    config = read("allocation.k=4", "grid.k=4,8", "grid.probe=2,6", "grid.tau_low=0.4,0.5")
    assert [(s.k, s.probe) for s in config.settings()] == [(4, 2), (4, 2), (8, 2), (8, 6), (8, 2), (8, 6)]
    assert config.num_left_out() == 2


def test_what_is_not_in_the_grid_keeps_its_value():
    config = read("allocation.on_commit=stop", "allocation.groups_per_step=7", "grid.k=8,16")
    assert all(s.on_commit == "stop" and s.groups_per_step == 7 for s in config.settings())
    assert read().settings() == [read().allocation]


def test_priors_are_pairs():
    priors = [(s.alpha0, s.beta0) for s in read("grid.prior=[[1,1],[0.1,0.3]]").settings()]
    assert priors == [(1, 1), (0.1, 0.3)]


def test_components_win_over_the_name():
    config = read("population.components=[{weight=0.65,rate=0},{weight=0.35,alpha=1,beta=2}]")
    assert float(config.population.mixture().mean) == pytest.approx(0.35 / 3)
    assert config.population.is_static and not read("population.gain=0.1").population.is_static


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grid.tau_low=2", r"grid\.tau_low\.0 = 2; expected a number in \(0, 1\), or 'auto'"),
        ("grid.probe=0.5,1.5", r"grid\.probe\.1 = 1\.5; expected a whole number from 1 up, a share of k"),
        ("grid.k=1", r"grid\.k\.0 = 1"),
        ("grid.prior=[1,1]", r"grid\.prior\.0 = 1"),
        ("grid.probe=40", r"every probe is larger than every k"),
        ("population.name=foo", r"population\.name = 'foo'; expected one of saturated, hard, easy, uniform"),
        ("population.components=[{rate=0.5,alpha=1}]", r"expected weight with alpha and beta, or with rate"),
        ("population.components=[]", r"population\.components = \[\]; expected at least 1"),
        ("population.components=[{rate=1.5}]", r"population\.components\.0\.rate = 1\.5"),
        ("population.drift=fast", r"population\.drift = 'fast'; expected a number"),
        ("population.drift=inf", r"population\.drift = inf"),
        ("strategies=orakel", r"strategies\.0 = 'orakel'; expected one of .* did you mean 'oracle'\?"),
        ("tokens.wrong=0", r"tokens\.wrong = 0; expected a number in \[1, inf\)"),
        ("steps=0", r"steps = 0"),
        ("stepz=3", r"unknown key stepz; did you mean steps\?"),
        ("allocation.k=2", r"allocation\.probe = 4; expected at most k = 2"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(override, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read(override)
    assert "\n" not in str(caught.value)
