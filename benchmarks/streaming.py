"""Wall clock of the two schedules for equal effective groups, side by side in one run, with long-tailed lengths.

    python benchmarks/streaming.py [--steps 4] [--step-ms 4] [--places 64] [--strategies ds,sara,sara+dps]
    python benchmarks/streaming.py --engine [--steps 4] [SECTION.KEY=VALUE ...]

The first form drives the whole stack (sampler, verifier in threads, collection) on an engine whose completions have
log-normal lengths and whose decode step takes a fixed time, however many rollouts share it: what a card does that is
short of memory bandwidth. It batches continuously, so that in rounds, too, a place that comes free is filled as long
as the round has anything left. The second form samples from the configured engine and model (default: the built-in
one on Countdown). Both schedules open the same prompts with the same seeds, turn by turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import ndtri
from torch import Tensor

from sara.collection import SCHEDULES
from sara.config import RunConfig
from sara.config_file import load_config
from sara.datasets import load_problems
from sara.datasets.base import Problem
from sara.engines import make_engine
from sara.engines.base import Completion, Engine, Request, Sampling
from sara.models import load_policy
from sara.rollouts import PromptPool, RolloutSampler
from sara.seeds import step_rng, unit_interval
from sara.strategies import configured_limits, configured_strategy
from sara.verifiers import Verdict

LONGEST = 2048


class LongTailed(Engine):
    """Sleeps for each decode step. A completion is one token, its reward; the rest of its length is pretended.

    Rates come from Beta(0.1, 0.3), mean lengths are 120 tokens where right and 200 where wrong, each times a log-normal
    factor (sigma 1, mean 1), cut at 2,048: half of them are below 0.6 of the mean, one in sixty above five times it.
    """

    def __init__(self, max_sequences: int, step_s: float, num_prompts: int) -> None:
        self.max_sequences, self.step_s, self.num_steps = max_sequences, step_s, 0
        self.rates = step_rng(0, 0, "benchmark: rates").beta(0.1, 0.3, num_prompts)
        self._num_submitted = 0
        self._waiting: list[int] = []
        self._lengths: dict[int, int] = {}
        self._rewards: dict[int, int] = {}
        self._done: dict[int, int] = {}  # ticket -> tokens so far, of those that decode

    @property
    def num_in_flight(self) -> int:
        return len(self._waiting) + len(self._done)

    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        tickets = list(range(self._num_submitted, self._num_submitted + len(requests)))
        self._num_submitted += len(requests)
        self._waiting += tickets
        for ticket, request in zip(tickets, requests, strict=True):
            seed = np.array([request.seed], dtype=np.uint64)
            reward = int(unit_interval(seed, 0)[0] < self.rates[request.prompt_ids[0]])
            mean = 120 if reward else 200
            length = mean * np.exp(ndtri(unit_interval(seed, 1)[0]) - 0.5)
            self._rewards[ticket], self._lengths[ticket] = reward, int(np.clip(length, 1, LONGEST))
        return tickets

    def advance(self) -> list[tuple[int, Completion | None]]:
        free = self.max_sequences - len(self._done)
        self._done |= dict.fromkeys(self._waiting[:free], 0)
        self._waiting = self._waiting[free:]
        if not self._done:
            return []
        time.sleep(self.step_s)
        self.num_steps += 1
        self._done = {ticket: done + 1 for ticket, done in self._done.items()}
        ended = [ticket for ticket, done in self._done.items() if done == self._lengths[ticket]]
        for ticket in ended:
            del self._done[ticket]
        return [(ticket, self._completion(ticket)) for ticket in ended]

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        given_up = set(tickets)
        found = dict.fromkeys(given_up & set(self._waiting), 0)
        self._waiting = [ticket for ticket in self._waiting if ticket not in given_up]
        return found | {ticket: self._done.pop(ticket) for ticket in given_up & set(self._done)}

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        self.policy_version += 1

    def _completion(self, ticket: int) -> Completion:
        ids = np.full(self._lengths[ticket], self._rewards[ticket], dtype=np.int64)
        return Completion(ids, np.zeros(ids.size, dtype=np.float32), "stop", self.policy_version)


class Digits:
    """Stands for a tokenizer: the first token is the text."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str:
        return str(token_ids[0])


class NumberedPrompts:
    """Stands for a `PromptPool`: a prompt is its number."""

    def __init__(self, num_prompts: int) -> None:
        self.prompt_ids = [(prompt,) for prompt in range(num_prompts)]
        self.openings = [""] * num_prompts
        self.problems = [Problem(str(prompt), "", {}, self._verify) for prompt in range(num_prompts)]

    @staticmethod
    def _verify(text: str) -> Verdict:
        return Verdict.RIGHT if text == "1" else Verdict.WRONG


@dataclass
class Tally:
    """Sums over steps."""

    seconds: float = 0.0
    groups: float = 0.0
    rollouts: float = 0.0
    tokens: float = 0.0
    aborted: float = 0.0
    decode_steps: float = 0.0


class Turns:
    """Steps of one strategy under one schedule."""

    def __init__(self, config: RunConfig, schedule: str, sampler: RolloutSampler, num_prompts: int) -> None:
        self.config, self.collect, self.sampler = config, SCHEDULES[schedule], sampler
        self.strategy = configured_strategy(
            config.strategy, num_prompts, config.seed, config.allocation, config.selection
        )
        self.tally, self.step = Tally(), 0

    def play(self) -> None:
        self.step += 1
        steps_before, start = getattr(self.sampler.engine, "num_steps", 0), time.perf_counter()
        allocation = self.config.allocation
        limits = configured_limits(allocation)
        collection = self.collect(
            self.step, *self.strategy, self.sampler, limits, self.config.seed, allocation.max_redraws
        )
        self.sampler.take(collection.trained.tolist())
        metrics, tally = collection.metrics(), self.tally
        tally.seconds += time.perf_counter() - start
        tally.decode_steps += getattr(self.sampler.engine, "num_steps", 0) - steps_before
        tally.groups += metrics["groups/effective"]
        tally.rollouts += metrics["rollouts/generated"]
        tally.tokens += metrics["tokens/generated"]
        tally.aborted += metrics["tokens/aborted"]


def compare(config: RunConfig, sampler: RolloutSampler, num_prompts: int, steps: int) -> dict[str, Tally]:
    """Both schedules, a step each in turn."""
    turns = {schedule: Turns(config, schedule, sampler, num_prompts) for schedule in SCHEDULES}
    for _ in range(steps):
        for schedule in turns.values():
            schedule.play()
    return {name: schedule.tally for name, schedule in turns.items()}


def add_rows(table: Table, name: str, places: int, tallies: dict[str, Tally]) -> None:
    rounds = tallies["rounds"]
    for schedule, tally in tallies.items():
        faster = (rounds.seconds / rounds.groups) / (tally.seconds / tally.groups)
        table.add_row(
            *(name, str(places), schedule, f"{tally.groups:.0f}", f"{tally.rollouts / tally.groups:.1f}"),
            *(f"{tally.tokens / tally.groups:,.0f}", f"{tally.aborted / tally.tokens:.1%}"),
            f"{tally.decode_steps / tally.groups:.0f}" if tally.decode_steps else "",
            *(f"{tally.seconds / tally.groups:.2f}", "" if schedule == "rounds" else f"{faster:.2f}"),
        )


def new_table(title: str) -> Table:
    table = Table(title=title, box=None, header_style="bold", title_justify="left")
    names = ("strategy", "places", "schedule", "groups", "rollouts", "tokens", "aborted", "decode steps", "seconds")
    for heading in (*names, "times faster"):
        table.add_column(heading, justify="left" if heading in ("strategy", "schedule") else "right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="store_true", help="sample from the configured engine and model")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--step-ms", type=float, default=4.0, help="of a decode step of the engine with long tails")
    parser.add_argument("--places", default="64", help="commas between")
    parser.add_argument("--strategies", default="ds,sara,sara+dps", help="commas between")
    parser.add_argument("overrides", nargs="*", metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    table = new_table("for one effective group; rollouts and tokens with all that was thrown away")
    for places in map(int, arguments.places.split(",")):
        config = load_config(RunConfig, None, [*arguments.overrides, f"engine.max_sequences={places}"])
        if arguments.engine:
            policy, (train, _) = load_policy(config.model), load_problems(config.data)
            sampling = Sampling(config.engine.temperature, config.engine.max_new_tokens)
            pool, engine = PromptPool(policy, train, sampling.max_new_tokens), make_engine(config.engine, policy)
            sampler = RolloutSampler(engine, policy.tokenizer, pool, sampling, config.seed)
            num_prompts = len(pool)
        else:
            num_prompts = 5000
            engine = LongTailed(places, arguments.step_ms / 1000, num_prompts)
            sampler = RolloutSampler(engine, Digits(), NumberedPrompts(num_prompts), Sampling(1.0, LONGEST), 0)
        for strategy in arguments.strategies.split(","):
            run = config.model_copy(update={"strategy": strategy})
            add_rows(table, strategy, places, compare(run, sampler, num_prompts, arguments.steps))
        engine.close()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
