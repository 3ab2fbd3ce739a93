"""An engine that fails on purpose, for a worker: it imports no model, and its completions say which weights it had."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sara.engines.base import Completion, Engine

FAULTS = {
    "die": lambda: os._exit(3),
    "hang": lambda: time.sleep(600),
    "freeze": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "raise": lambda: _raise(RuntimeError("the GPU is on fire\nand more")),
    "refuse": lambda: _raise(ValueError("no such thing")),
}


def _raise(error: Exception) -> None:
    raise error


class FaultyEngine(Engine):
    """Ends a rollout after as many tokens as its seed says; each token is the value of its only weight.

    faults   method -> name of the fault that its next call brings
    """

    def __init__(self, weight: float, faults: Mapping[str, str]):
        self.weight, self.faults = weight, dict(faults)
        self.running: dict[int, list] = {}
        self.count = 0

    def submit(self, requests, sampling):
        self._fail("submit")
        tickets = [self.count + i for i in range(len(requests))]
        self.count += len(tickets)
        self.running |= {ticket: [0, request.seed] for ticket, request in zip(tickets, requests, strict=True)}
        return tickets

    def advance(self):
        self._fail("advance")
        for progress in self.running.values():
            progress[0] += 1
        ended = [ticket for ticket, (done, wanted) in self.running.items() if done == wanted]
        return [(ticket, self._completion(self.running.pop(ticket)[1])) for ticket in ended]

    def abort(self, tickets):
        self._fail("abort")
        return {ticket: self.running.pop(ticket)[0] for ticket in tickets if ticket in self.running}

    @property
    def num_in_flight(self):
        return len(self.running)

    def sync_weights(self, named_weights):
        self._fail("sync_weights")
        self.weight, self.policy_version = only_weight(named_weights), self.policy_version + 1

    def release_memory(self):
        self._fail("release_memory")

    def _completion(self, length):
        return Completion(np.full(length, self.weight), np.zeros(length, np.float32), "stop", self.policy_version)

    def _fail(self, method):
        if method in self.faults:
            FAULTS[self.faults.pop(method)]()


def only_weight(named_weights) -> float:
    (tensor,) = (tensor for _, tensor in named_weights)
    return float(tensor)


def build(lives: Path, faults: tuple[Mapping[str, str], ...], weights) -> FaultyEngine:
    """The n-th engine that is built has the n-th of the faults, later ones none; `lives` counts them."""
    life = len(lives.read_text())
    lives.write_text("." * (life + 1))
    mine = faults[life] if life < len(faults) else {}
    if "build" in mine:
        FAULTS[mine["build"]]()
    return FaultyEngine(only_weight(weights), mine)
