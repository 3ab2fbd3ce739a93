"""Many ways to write each kind of Countdown answer: which make the target from the numbers, and which do not."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from sara.verifiers import Verdict, verify_countdown

KINDS: dict[str, list[dict]] = defaultdict(list)
for line in Path(__file__).with_name("countdown_kinds.jsonl").read_text(encoding="utf-8").splitlines():
    KINDS[json.loads(line)["kind"]].append(json.loads(line))


@pytest.mark.parametrize("kind", KINDS)
def test_countdown_decides_every_case_of_a_kind(kind):
    cases = 0
    for row in KINDS[kind]:
        for expected in (Verdict.RIGHT, Verdict.WRONG):
            for expression in row[expected.value]:
                verdict = verify_countdown(f"So <answer>{expression}</answer>", row["numbers"], row["target"])
                assert verdict is expected, (row["numbers"], row["target"], expression)
                cases += 1
    assert cases >= 20


RIGHT, OTHER = "<answer>44+19+35</answer>", "<answer>44+19-35</answer>"
PROMPT = "And return the final answer in <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>."


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (RIGHT, True),
        (f"{OTHER} No. {RIGHT}", True),
        (f"{RIGHT} or {OTHER}", False),
        (f"{RIGHT}<|im_end|>", True),
        (f"<think>{RIGHT}</think>{OTHER}", False),
        (f"<think>{OTHER}</think>{RIGHT}", True),
        (f"<think>{RIGHT}</think>", False),
        (f"<think>{RIGHT}", False),
        (f"{RIGHT}<think>hm", False),
        (f"a</think>{RIGHT}", True),
        (f"{RIGHT}</think>", False),
        ("<answer>44+19+35", False),
        ("44+19+35</answer>", False),
        ("<answer></answer>", False),
        ("<answer>   </answer>", False),
        ("44+19+35", False),
        ("", False),
        ("<answer><answer>44+19+35</answer></answer>", True),
        ("<answer>1</answer><answer>44+19+35", False),
        ("<ANSWER>44+19+35</ANSWER>", False),
        ("<answer >44+19+35</answer>", False),
        (r"\boxed{44+19+35}", False),
        (f"{PROMPT}\nLet me think.\n{RIGHT}", True),
        (PROMPT, False),
        (f"{RIGHT}\n{PROMPT}", False),
        ("<answer>\n44+19+35\n</answer>", True),
    ],
)
def test_countdown_reads_the_last_closed_answer_after_the_reasoning(response, expected):
    verdict = verify_countdown(response, [44, 19, 35], 98)
    assert verdict is (Verdict.RIGHT if expected else Verdict.WRONG)
