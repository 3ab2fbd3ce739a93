"""Twenty cases and more of each kind of answer and of response: what says the same as the gold, and what does not.

`kinds.jsonl` has a gold in each line with answers, which are put into a box here, or with whole responses.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from sara.verifiers import Verdict, verify_math

KINDS: dict[str, list[dict]] = defaultdict(list)
for line in (Path(__file__).with_name("kinds.jsonl")).read_text(encoding="utf-8").splitlines():
    KINDS[json.loads(line)["kind"]].append(json.loads(line))


def cases_of(row: dict) -> list[tuple[str, Verdict]]:
    """Responses with the verdict that each must get."""
    cases = []
    for name, verdict in (("right", Verdict.RIGHT), ("wrong", Verdict.WRONG)):
        cases += [(f"Therefore the answer is $\\boxed{{{answer}}}$.", verdict) for answer in row.get(name, [])]
        cases += [(response, verdict) for response in row.get(f"{name}_responses", [])]
    return cases


@pytest.mark.parametrize("kind", KINDS)
def test_math_decides_every_case_of_a_kind(kind):
    cases = [(row["gold"], *case) for row in KINDS[kind] for case in cases_of(row)]
    assert len(cases) >= 20
    for gold, response, expected in cases:
        verdicts = (verify_math(response, gold) for _ in range(100))  # one without a verdict was for a busy machine
        verdict = next(found for found in verdicts if found is not Verdict.UNSCORABLE)
        assert verdict is expected, f"gold {gold!r}, response {response!r}"


def test_the_table_in_the_docs_is_what_the_verifier_does():
    lines = (Path(__file__).parents[4] / "docs" / "verifiers.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| gold | right | wrong |") + 2
    rows = [line.split("|")[1:4] for line in lines[start : lines.index("", start)]]
    checked = 0
    for gold_cell, *cells in rows:
        for gold in re.findall(r"`(.+?)`", gold_cell):
            for cell, expected in zip(cells, (Verdict.RIGHT, Verdict.WRONG), strict=True):
                for answer in re.findall(r"`(.+?)`", cell):
                    assert verify_math(f"\\boxed{{{answer}}}", gold) is expected, (gold, answer)
                    checked += 1
    assert checked > 80


@pytest.mark.parametrize(
    "answer",
    [
        "+".join(["1"] * 2000),
        r"\frac{1}{" * 150 + "3" + "}" * 150,
        "7" * 5000,
        "x" * 1900,
        "a_" * 900 + "1",
        "x^" * 900 + "2",
        "|" * 1500,
        ":".join(["1"] * 900),
        "=".join(["1"] * 900),
        "<".join("12345678" * 30),
        ",".join(map(str, range(500))),
        r"\{" + ",".join(f"x+{i}" for i in range(300)) + r"\}",
        "(" + ",".join(["1"] * 900) + ")",
        r"\cup".join(["(1,2)"] * 250),
        r"\begin{pmatrix}" + "1&" * 400 + r"1\end{pmatrix}",
        r"\text{" + "word " * 380 + "}",
        r"\pm" * 600 + "1",
        r"1\pm2\pm3\pm4\pm5\pm6\pm7",
        r"\sqrt" * 350 + "2",
        r"\sin" * 450 + " x",
        "0." + "3" * 1700,
        "{" * 800 + "7" + "}" * 800,
    ],
)
def test_math_calls_a_huge_answer_wrong(answer):
    assert verify_math(f"\\boxed{{{answer}}}", "3") is Verdict.WRONG
