"""A supervised engine: any engine, in a worker process that is killed and restarted once it hangs or dies.

Owns what happens to rollouts and weights when an engine fails. The rollouts in flight are lost and come back as
None; a fresh engine gets the weights of the last sync, which lie in shared memory. A second failure before the next
sync ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count

import torch
from torch import Tensor

from sara.engines.base import Completion, Engine, Request, Sampling
from sara.engines.shared_weights import SharedWeights, WeightsAddress
from sara.engines.worker import Worker, WorkerFailure
from sara.failures import RunFailure

logger = logging.getLogger(__name__)

BuildEngine = Callable[[WeightsAddress], Engine]
"""Makes an engine, in the worker, with these weights; must be picklable."""


class EngineFailure(RunFailure):
    """The engine did not start, or it failed, was restarted, and failed again."""


@dataclass(frozen=True)
class Supervision:
    """How a worker is kept.

    timeout_s        longest wait for an answer, in seconds; then the engine is taken for hung
    start_timeout_s  longest wait for a fresh engine
    dtype            type that weights cross to the worker in
    environment      variables of the worker's process
    """

    timeout_s: float
    start_timeout_s: float
    dtype: torch.dtype = torch.float32
    environment: Mapping[str, str] = field(default_factory=dict)


class SupervisedEngine(Engine):
    """An engine in a worker process.

    named_weights   what the engine samples from until the first sync; as `sync_weights` wants them
    """

    def __init__(self, build: BuildEngine, named_weights: Iterable[tuple[str, Tensor]], supervision: Supervision):
        self.policy_version = 0
        self._build, self._supervision = build, supervision
        self._shared = SharedWeights(supervision.dtype)
        self._tickets = count()
        self._in_flight: dict[int, int] = {}  # the worker's ticket -> ours
        self._lost: list[int] = []
        self._has_failed = False
        with ExitStack() as unless_started:
            unless_started.callback(self._shared.close)
            self._weights = self._shared.write(named_weights)
            try:
                self._worker = self._start()
            except WorkerFailure as failure:
                raise EngineFailure(f"the engine did not start: {failure}") from failure
            unless_started.pop_all()

    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        tickets = [next(self._tickets) for _ in requests]
        try:
            theirs = self._worker.call("submit", list(requests), sampling)
        except WorkerFailure as failure:
            self._lost += tickets
            self._recover(failure)
        else:
            self._in_flight |= dict(zip(theirs, tickets, strict=True))
        return tickets

    def advance(self) -> list[tuple[int, Completion | None]]:
        if not self._lost and self._in_flight:
            try:
                ended = self._worker.call("advance")
            except WorkerFailure as failure:
                self._recover(failure)
            else:
                return [(self._in_flight.pop(ticket), self._stamped(completion)) for ticket, completion in ended]
        lost, self._lost = self._lost, []
        return [(ticket, None) for ticket in lost]

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        given_up = set(tickets)
        tokens = {ticket: 0 for ticket in self._lost if ticket in given_up}
        self._lost = [ticket for ticket in self._lost if ticket not in given_up]
        theirs = [theirs for theirs, ticket in self._in_flight.items() if ticket in given_up]
        if theirs:
            try:
                aborted = self._worker.call("abort", theirs)
            except WorkerFailure as failure:
                self._recover(failure)
                return tokens | self.abort(given_up)
            tokens |= {self._in_flight.pop(ticket): length for ticket, length in aborted.items()}
        return tokens

    @property
    def num_in_flight(self) -> int:
        return len(self._in_flight) + len(self._lost)

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        assert not self.num_in_flight, "sync_weights() while rollouts are in flight"
        self._weights = self._shared.write(named_weights)
        self.policy_version += 1
        self._has_failed = False
        try:
            self._worker.call("sync_weights", self._weights)
        except WorkerFailure as failure:
            self._recover(failure)

    def release_memory(self) -> None:
        assert not self.num_in_flight, "release_memory() while rollouts are in flight"
        try:
            self._worker.call("release_memory")
        except WorkerFailure as failure:
            self._recover(failure)

    def close(self) -> None:
        self._worker.close()
        self._shared.close()

    @property
    def worker_pid(self) -> int:
        """The process that the engine lives in."""
        return self._worker.pid

    def _start(self) -> Worker:
        worker = Worker(self._supervision.environment, self._supervision.timeout_s)
        try:
            worker.build(self._build, self._weights, timeout_s=self._supervision.start_timeout_s)
        except BaseException:
            worker.kill()
            raise
        return worker

    def _stamped(self, completion: Completion | None) -> Completion | None:
        """With our policy version: a restarted engine counts its own syncs."""
        return completion and replace(completion, policy_version=self.policy_version)

    def _recover(self, failure: WorkerFailure) -> None:
        """Replace the worker; what was in flight is lost. Raises EngineFailure at the second failure of a step."""
        self._worker.kill()
        self._lost += self._in_flight.values()
        self._in_flight = {}
        if self._has_failed:
            raise EngineFailure(f"the engine failed twice under policy version {self.policy_version}; last: {failure}")
        self._has_failed = True
        logger.warning(
            "engine restarted: %s; %d rollouts are drawn again under policy version %d",
            failure,
            len(self._lost),
            self.policy_version,
        )
        try:
            self._worker = self._start()
        except (WorkerFailure, ValueError) as second:
            raise EngineFailure(f"the engine failed ({failure}) and could not be restarted: {second}") from second
