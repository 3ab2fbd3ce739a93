"""Sweeps: what a grid and a list stand for, what makes a cell another cell, and one line for every mistake."""

from __future__ import annotations

import pytest

from sara.config import CompareConfig
from sara.config_file import ConfigError, load_config
from sara.sweeps import SweepConfig, base_key, cell_key, data_key, load_run_config

HASHES = {"train": "a", "heldout": "b"}


def sweep(*overrides: str) -> SweepConfig:
    return load_config(SweepConfig, None, ["strategies=ds,sara", *overrides])


def test_a_grid_is_every_combination_and_a_list_is_as_written():
    # 2 strategies x 2 seeds x 2 points x (2 x 3 combinations) = 48 cells.
    cells = sweep(
        "seeds=0,1",
        "grid.allocation.k=4,8",
        "grid.learner.learning_rate=1e-4,2e-4,3e-4",
        "points=[{allocation.probe=2, allocation.increment=2}, {allocation.probe=4, allocation.increment=1}]",
    ).cells()
    assert len(cells) == 48
    seen = {(c.config.strategy, c.config.seed, c.config.allocation.k, c.config.allocation.probe) for c in cells}
    assert len(seen) == 16
    assert {(c.config.allocation.probe, c.config.allocation.increment) for c in cells} == {(2, 2), (4, 1)}
    assert len({cell.label for cell in cells}) == 48
    assert cells[0].point == {
        "allocation.probe": 2,
        "allocation.increment": 2,
        "allocation.k": 4,
        "learner.learning_rate": 1e-4,
    }


def test_one_run_is_read_from_a_comparison_s_or_a_sweep_s_file(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        'strategies = ["ds"]\nseeds = [1]\nexecutor = "ray"\n[grid]\nallocation.k = [4]\n[model]\npath = "m"\n'
    )
    settings = load_run_config(file, ["strategy=dps", "seed=3"])
    assert (settings.strategy, settings.seed, settings.model.path) == ("dps", 3, "m")
    with pytest.raises(ConfigError, match="command line: unknown key strategies; did you mean strategy"):
        load_run_config(file, ["strategies=dps"])
    with pytest.raises(ConfigError, match="unknown key strategy; did you mean strategies"):
        load_config(CompareConfig, None, ["strategy=ds"])


def test_without_a_grid_a_sweep_is_its_strategies_and_seeds():
    assert [cell.label for cell in sweep("seeds=0,1").cells()] == ["ds-seed0", "sara-seed0", "ds-seed1", "sara-seed1"]


def test_nested_and_dotted_grids_are_the_same(tmp_path):
    nested, dotted = tmp_path / "nested.toml", tmp_path / "dotted.toml"
    nested.write_text("[grid.allocation]\nk = [4, 8]\n[grid.data]\nsizes = [{2 = 1.0}, {3 = 1.0}]\n")
    dotted.write_text('[grid]\n"allocation.k" = [4, 8]\n"data.sizes" = [{2 = 1.0}, {3 = 1.0}]\n')
    one, other = (load_config(SweepConfig, path) for path in (nested, dotted))
    assert one == other
    assert len(one.settings_of_points()) == 4


def test_a_value_that_is_a_word_or_a_table_can_be_swept():
    cells = sweep("grid.allocation.tau_low=0.5,auto", "grid.data.sizes=[{2=1},{3=1}]", "strategies=sara").cells()
    assert [cell.config.allocation.tau_low for cell in cells] == [0.5, 0.5, "auto", "auto"]
    assert [cell.config.data.sizes for cell in cells] == [{2: 1.0}, {3: 1.0}] * 2


def test_a_key_changes_with_settings_data_and_code_and_with_nothing_else(monkeypatch):
    config = sweep().cells()[0].config
    key = cell_key(config, HASHES)
    elsewhere = config.model_copy(
        update={
            "name": "another",
            "output_dir": config.output_dir / "deeper",
            "tracking": config.tracking.model_copy(update={"uri": "http://elsewhere:5000"}),
            "training": config.training.model_copy(update={"threads": 7}),
        }
    )
    assert cell_key(elsewhere, HASHES) == key
    longer = config.model_copy(update={"training": config.training.model_copy(update={"steps": 41})})
    assert len({key, cell_key(longer, HASHES), cell_key(config, HASHES | {"heldout": "c"})}) == 3
    monkeypatch.setattr("sara.sweeps.code_version", lambda: "another")
    assert cell_key(config, HASHES) != key


def test_cells_share_the_base_model_s_score_unless_it_would_differ():
    cells = sweep("grid.allocation.k=4,8", "grid.engine.temperature=1.0,0.6").cells()
    keys = {(c.config.engine.temperature, base_key(c.config, "b")) for c in cells}
    assert len(keys) == 2
    assert len({data_key(c.config) for c in cells}) == 1


def test_prompts_decide_the_base_model_s_score_and_with_a_limit_the_data_too():
    styles = sweep("grid.prompt.style=plain,base").cells()
    assert len({base_key(c.config, "b") for c in styles}) == 2
    assert len({data_key(c.config) for c in styles}) == 1
    limited = sweep("grid.prompt.style=plain,base", "prompt.max_tokens=64").cells()
    assert len({data_key(c.config) for c in limited}) == 2


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("grid.allocation.kk=4", "unknown key allocation.kk; did you mean allocation.k?"),
        ("grid.allocation.tau=0.5", "unknown key allocation.tau; did you mean allocation.tau_low?"),
        ("grid.allocation.k=[]", "grid.allocation.k = []; expected at least one value"),
        ("grid.seed=1,2", "did you mean seeds = [...]"),
        ("grid.tracking.uri=x", "tracking.uri cannot be swept"),
        ("grid.allocation.k=1,8", "allocation.k = 1; expected a number in [2, 1024]"),
        ("grid.allocation.k=4,4", "two cells are 'ds-seed0-k-4'"),
        ("points=[{allocation.k=4, allocation.prob=2}]", "unknown key allocation.prob; did you mean allocation.probe?"),
        ("points=3", "points = 3; expected a list"),
        ("grid=4", "grid = 4; expected a table"),
        ("executor=cloud", "executor = 'cloud'; expected 'local', 'workpool' or 'ray'"),
        ("execution.work=x", "unknown key execution.work; did you mean execution.work_pool?"),
    ],
)
def test_a_mistake_is_one_line(override, line):
    with pytest.raises(ValueError) as caught:
        sweep(override).cells()
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_both_in_the_grid_and_in_a_point_is_refused():
    with pytest.raises(ValueError, match="expected a setting that points does not set"):
        sweep("grid.allocation.k=4,8", "points=[{allocation.k=8}]")
