from __future__ import annotations

import json
from pathlib import Path

import pytest

from sara.verifiers import Verdict, is_scorable_gold, verify_math

SHARED = Path(__file__).parents[5] / "shared"
CASES = SHARED / "cases" / "math_cases.jsonl"


def read_lines(path: Path) -> list[dict]:
    if not path.is_file():
        pytest.skip(f"the shared files are not beside this checkout: {path.name} is missing")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_math_agrees_with_every_shared_case():
    cases = read_lines(CASES)
    assert len(cases) >= 170
    for case in cases:
        expected = Verdict.RIGHT if case["expected"] else Verdict.WRONG
        verdict = verify_math(case["response"], case["gold"])
        assert verdict is expected, f"{case['id']} ({case['kind']}): {case['gold']!r}, {case['response']!r}"


@pytest.mark.parametrize("name", ["math_train", "math500", "aime24"])
def test_math_scores_every_gold_of_a_set_right_against_itself(name):
    golds = [row["answer"] for row in read_lines(SHARED / "data" / f"{name}.jsonl")]
    assert all(map(is_scorable_gold, golds))
    assert [gold for gold in golds if verify_math(f"So \\boxed{{{gold}}}.", gold) is not Verdict.RIGHT] == []
