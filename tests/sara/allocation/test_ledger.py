from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import MISSING, Fate, Ledger, Outcomes


def outcomes(rewards, tokens) -> Outcomes:
    return Outcomes(np.array(rewards, dtype=np.int8), np.array(tokens, dtype=np.int64))


def test_issue_hands_out_consecutive_slots_by_row():
    ledger = Ledger()
    ledger.open(np.array([7, 3, 9]))
    rows, slots = ledger.issue(np.array([2, 0, 1]))
    assert rows.tolist() == [0, 0, 2] and slots.tolist() == [0, 1, 0]
    rows, slots = ledger.issue(np.array([1, 3, 2]))
    assert rows.tolist() == [0, 1, 1, 1, 2, 2] and slots.tolist() == [2, 0, 1, 2, 1, 2]
    assert ledger.issued.tolist() == [3, 3, 3]


def test_record_keeps_missing_rollouts_apart():
    ledger = Ledger()
    ledger.open(np.array([7, 3]))
    ledger.record(np.array([0, 0, 1, 1, 1]), outcomes([1, 0, MISSING, 0, MISSING], [10, 20, 5, 40, 6]))
    assert ledger.n.tolist() == [2, 1]
    assert ledger.s.tolist() == [1, 0]
    assert ledger.missing.tolist() == [0, 2]
    assert ledger.tokens.tolist() == [30, 40]
    assert ledger.missing_tokens.tolist() == [0, 11]
    assert ledger.is_mixed.tolist() == [True, False]


def test_rows_are_found_by_any_of_several_fates():
    ledger = Ledger()
    ledger.open(np.array([5, 6, 7]))
    ledger.fate[:] = [Fate.COMMITTED, Fate.OPEN, Fate.SURPLUS]
    assert ledger.has_fate(Fate.COMMITTED, Fate.SURPLUS).tolist() == [True, False, True]
    assert ledger.num_committed == 1


def test_a_prompt_cannot_be_opened_twice():
    ledger = Ledger()
    ledger.open(np.array([7, 3]))
    with pytest.raises(AssertionError, match="opened twice"):
        ledger.open(np.array([4, 3]))


def test_state_is_a_copy_and_brings_everything_back():
    ledger = Ledger()
    ledger.open(np.array([7, 3]))
    ledger.issue(np.array([2, 1]))
    ledger.record(np.array([0, 1]), outcomes([1, MISSING], [8, 9]))
    ledger.fate[1] = Fate.UNSCORABLE
    ledger.rounds, ledger.spent = 2, 5
    state = ledger.state_dict()
    ledger.record(np.array([0]), outcomes([0], [1]))
    restored = Ledger()
    restored.load_state_dict(state)
    assert (restored.n.tolist(), restored.s.tolist(), restored.missing.tolist()) == ([1, 0], [1, 0], [0, 1])
    assert restored.prompts.tolist() == [7, 3] and restored.issued.tolist() == [2, 1]
    assert restored.fate.tolist() == [Fate.OPEN, Fate.UNSCORABLE]
    assert (restored.tokens.sum(), restored.missing_tokens.sum()) == (8, 9)
    assert (restored.rounds, restored.spent) == (2, 5)
