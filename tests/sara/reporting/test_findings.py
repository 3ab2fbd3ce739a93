from dataclasses import replace

from sara.reporting import findings, notes
from tests.sara.reporting import worked


def test_equal_groups_compare_the_whole_cost():
    # 82.5 of 110 rollouts = 75%; 660 of 1100 tokens = 60%; accuracy 43% against 42%.
    assert findings(worked.comparison(*worked.DS, *worked.SARA)) == [
        "SARA trained the same number of groups as DS with 25% fewer rollouts and 40% fewer tokens.",
        "SARA ends at 43.0% held-out accuracy, 1.0 points above DS; the two 95% intervals overlap, "
        "so this comparison does not tell them apart. Paired by seed, on these prompts: +1.0 points "
        "(95% interval +1.0 to +1.0).",
    ]


def test_unequal_groups_compare_the_cost_of_each_group():
    sara = worked.run("sara", 0, (40, 40), (400, 240), 0.40, groups=(2.0, 1.0))
    # 3 groups instead of 6; 80 of 100 rollouts = 80%, so 160% for each group; tokens 640 of 1000: 128%.
    assert findings(worked.comparison(worked.DS[0], sara)) == [
        "SARA trained 50% fewer groups than DS; for each group trained it took 60% more rollouts and 28% more tokens.",
        "SARA and DS end at the same held-out accuracy, 40.0%.",
    ]


def test_intervals_apart_are_said_to_be_apart():
    sara = worked.run("sara", 0, (50, 50), (500, 500), 0.50, half_width=0.01)
    said = findings(worked.comparison(worked.DS[0], sara))
    assert said[0].endswith("with the same number of rollouts and the same number of tokens.")
    assert said[1] == (
        "SARA ends at 50.0% held-out accuracy, 10.0 points above DS; the two 95% intervals do not overlap."
    )


def test_whose_gain_is_clear_is_said_last():
    gains = {"uniform": (0.01, 0.03), "ds": (0.12, 0.03), "sara": (0.13, 0.02), "sara+dps": (-0.05, 0.04)}
    runs = [worked.with_gain(worked.run(name, 0, (8, 8), (9, 9), 0.4), *gain) for name, gain in gains.items()]
    assert findings(worked.comparison(*runs))[-1] == (
        "DS (+12.0 points) and SARA (+13.0) gained clearly on the base model: their paired 95% intervals lie above 0. "
        "Uniform (+1.0 points) cannot be told apart from the base model: its paired 95% interval holds 0. "
        "SARA + DPS (−5.0 points) fell clearly below the base model: its paired 95% interval lies below 0."
    )
    assert any("narrower interval" in note for note in notes(worked.comparison(*runs)))


def test_a_gain_is_said_without_ds_and_without_sara_too():
    for name in ("sara", "ds"):
        run = worked.with_gain(worked.run(name, 0, (8, 8), (9, 9), 0.4), 0.1, 0.02)
        assert "(+10.0 points) gained clearly on the base model" in findings(worked.comparison(run))[-1]


def test_without_ds_no_savings_are_claimed():
    missing = "DS is not part of this comparison, so it states no savings."
    alone = "SARA ends at 43.0% held-out accuracy, 13.0 points above the base model."
    assert findings(worked.comparison(*worked.SARA)) == [alone, missing]
    uniform = worked.run("uniform", 0, (8, 8), (9, 9), 0.35)
    best = "SARA has the highest held-out accuracy, 43.0%, 13.0 points above the base model."
    assert findings(worked.comparison(uniform, *worked.SARA)) == [best, missing]


def test_no_strategy_is_called_the_highest_where_none_is():
    missing = "DS is not part of this comparison, so it states no savings."
    runs = [worked.run(name, 0, (8, 8), (9, 9), 0.3, groups=(0.0, 0.0)) for name in ("uniform", "sara")]
    nothing = "No group was trained on: every score is that of the model as it was."
    assert findings(worked.comparison(*runs)) == [nothing, missing]
    alike = [worked.run(name, 0, (8, 8), (9, 9), 0.35) for name in ("uniform", "sara")]
    same = "All strategies end at the same held-out accuracy, 35.0%."
    assert findings(worked.comparison(*alike)) == [same, missing]
    third = worked.run("dps", 0, (8, 8), (9, 9), 0.31)
    assert findings(worked.comparison(*alike, third))[0] == (
        "Uniform and SARA have the same highest held-out accuracy, 35.0%."
    )


def test_there_is_always_something_to_say():
    nothing_yet = [type(run)(run.strategy, run.seed, {}) for run in (*worked.DS, *worked.SARA)]
    for runs in ((), worked.DS, nothing_yet):
        said = findings(worked.comparison(*runs))
        assert said and all(sentence.endswith(".") for sentence in said)


def test_a_comparison_that_was_stopped_says_so():
    stopped = replace(worked.run("sara", 0, (8, 8), (9, 9), 0.4), status="KILLED")
    comparison = replace(worked.comparison(worked.DS[0], stopped), status="KILLED")
    said = notes(comparison)
    assert "The comparison was stopped: strategies and seeds may be missing." in said
    assert "Not finished, shown as far as they went: SARA seed 0 (killed)." in said
    assert not any("may be missing" in note for note in notes(worked.comparison(worked.DS[0])))
