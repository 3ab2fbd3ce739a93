"""The report: the same figures for people, for machines and in the picture."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sara.replay import Driven, Grid, Replay, as_json, as_text, read_log, replay_log
from sara.replay.example_log import write_example_log
from sara.replay.figure import draw_costs
from sara.replay.recommend import AUTO, about_auto


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Replay:
    path = tmp_path_factory.mktemp("example") / "example.jsonl"
    write_example_log(path, prompts=300, steps=24, groups=25)
    return replay_log(read_log([path]), Grid((8, 4)), target=4)


def test_the_example_log_is_read_as_it_was_drawn(found):
    assert (found.log.num_groups, found.log.num_prompts, found.log.num_steps, found.log.k) == (600, 300, 24, 8)
    right, wrong = found.log.lengths[found.log.rewards == 1].mean(), found.log.lengths[found.log.rewards == 0].mean()
    assert (right, wrong) == (pytest.approx(300, rel=0.03), pytest.approx(600, rel=0.03))


def test_text_and_json_say_the_same(found):
    text, values = as_text(found), json.loads(json.dumps(as_json(found), allow_nan=False))
    assert max(map(len, text.splitlines())) <= 100 and "…" not in text
    assert values["recommended"]["overrides"] in text
    assert values["recommended"]["reason"] in " ".join(text.split())
    for sentence in values["cannot_tell"]:
        assert sentence in " ".join(text.split())
    chosen = next(row for row in values["settings"] if row["setting"] == values["recommended"]["setting"])
    for name in ("cost", "length_cost", "lost"):
        interval = chosen[name]
        assert f"{100 * interval['value']:.1f} ({100 * interval['low']:.0f}–{100 * interval['high']:.0f})" in text
    for driven in values["as_logged"].values():
        assert f"{driven['rollouts']:,}" in text and f"{driven['surplus']:,}" in text


def test_a_doubt_about_what_was_read_comes_first(tmp_path):
    path, more = tmp_path / "example.jsonl", tmp_path / "more.jsonl"
    write_example_log(path, prompts=120, steps=8, groups=15)
    lines = path.read_text().splitlines(keepends=True)
    more.write_text("".join(lines[:8]))  # the first group once again
    replay = replay_log(read_log([path, more]), Grid((8,)), is_driven=False, resamples=0)
    text = " ".join(as_text(replay).split())
    warning = "1 of 120 groups have rollouts in several files"
    assert text.startswith(f"Careful: {warning}") and text.count(warning) == 1
    assert any(said.startswith(warning) for said in as_json(replay)["warnings"])


def test_the_driven_strategies_are_the_baselines_the_recommendation_and_auto(found):
    assert list(found.as_logged) == ["uniform", "ds", "sara", "sara, auto"]
    uniform, ds, sara, _ = found.as_logged.values()
    assert uniform.rollouts == 24 * 4 * 8
    assert ds.outcomes.get("target", 0) + ds.outcomes.get("prompts", 0) == 24
    assert sara.abandoned > 0 == ds.abandoned


def test_learned_stopping_points_are_advised_where_they_are_cheaper_within_the_cap():
    def driven(rollouts: int, false_abandoned: int = 0) -> Driven:
        return Driven(100, 20, 20, 0, 60, false_abandoned, rollouts, None, 2.0, {})

    ds, sara = driven(800), driven(600, 4)
    advice = about_auto({"ds": ds, "sara": sara, AUTO: driven(500, 5)}, None, max_lost=0.25)
    assert "allocation.tau_low=auto" in advice and "62.5% of DS's rollouts" in advice and "lost 20.0%" in advice
    assert about_auto({"ds": ds, "sara": sara, AUTO: driven(500, 7)}, None, max_lost=0.25) is None  # loses 26%
    assert about_auto({"ds": ds, "sara": sara, AUTO: driven(595, 5)}, None, max_lost=0.25) is None  # hardly cheaper
    assert about_auto({}, None, max_lost=0.25) is None


def test_driving_can_be_left_out(found):
    quick = replay_log(found.log, Grid((8,)), is_driven=False)
    assert quick.as_logged == {} and "driven over" not in as_text(quick)
    assert quick.recommendation.chosen == found.recommendation.chosen


def test_progress_ends_at_its_total(found):
    told = []
    replay_log(found.log, Grid((8,)), resamples=0, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (96, 96) and [done for done, _ in told] == list(range(1, 97))


def test_a_log_without_lengths_has_one_panel_and_no_column_of_them(make_log):
    log = make_log([[0, 1, 0, 0]] * 6 + [[0, 0, 0, 0]] * 6 + [[1, 1, 1, 1]])
    found = replay_log(log, Grid((4,)))
    figure = draw_costs(found.grid, found.recommendation, log.unit, 0.25)
    assert len(figure.axes) == 1
    assert "tokens" not in as_text(found)


def test_a_long_table_is_thinned_around_the_recommendation(make_log):
    rng = np.random.default_rng(0)
    log = make_log(list((rng.random((400, 64)) < rng.beta(0.1, 0.3, 400)[:, None]).astype(int)))
    found = replay_log(log, Grid((64,)), is_driven=False)
    text, chosen = as_text(found), found.recommendation.chosen
    rows = [line for line in text.splitlines() if line.startswith("    0.")]
    assert len(found.grid.settings) > 20 and 12 <= len(rows) <= 13
    assert any(f"{100 * chosen.cost.value:.1f} (" in row for row in rows)
    assert "settings between these are in replay.json" in text


def test_the_figure_shows_every_setting_of_the_main_k_and_has_ink(found):
    figure = draw_costs(found.grid, found.recommendation, "tokens", 0.25)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["rollouts", "tokens"]
    written = {text.get_text() for text in figure.axes[0].texts}
    assert {"DS", "cap", "k = 8", "k = 4", "after 4", "after 5"} <= written
    picture = io.BytesIO()
    figure.savefig(picture)
    assert np.asarray(Image.open(picture).convert("L")).std() > 5


def test_replay_needs_no_deep_learning_library():
    code = "import sys, sara.replay, sara.replay.figure; print([n for n in ('torch', 'prefect') if n in sys.modules])"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
