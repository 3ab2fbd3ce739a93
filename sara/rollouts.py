"""Samples and scores rollouts: the source that training and evaluation draw from.

Owns the joining of engine and verifier. Decides nothing about how many rollouts a prompt gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from sara.allocation import MISSING, Draws, Outcomes
from sara.allocation.ledger import DrawName
from sara.config import PromptConfig
from sara.datasets.base import Problem
from sara.engines.base import Completion, Engine, Request, Sampling
from sara.models import Reader
from sara.prompts import OPEN_THINK, encode_prompts
from sara.seeds import rollout_seeds
from sara.verifiers import Verdict

_SCORERS = 4  # threads that verify while the engine decodes

REWARDS = {Verdict.RIGHT: 1, Verdict.WRONG: 0, Verdict.UNSCORABLE: MISSING}


@dataclass(frozen=True)
class Rollout:
    """One completion with its reward.

    prompt        index of the problem in its pool
    slot          its place in the group, 0..k-1
    prompt_ids    token ids that it was sampled after
    completion    what the engine returned
    text          the completion's text, as the verifier read it: behind `<think>` where its prompt ends in that
    reward        1 right, 0 wrong, MISSING if it could not be scored
    """

    prompt: int
    slot: int
    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    reward: int


class PromptPool:
    """Problems with their prompts, indexed 0..P-1.

    openings   what stands before a completion and has to be read with it: `<think>` where the prompt opened it, else
               nothing. A verifier would otherwise take reasoning that was cut off for an answer.
    """

    def __init__(
        self,
        reader: Reader,
        problems: Sequence[Problem],
        max_new_tokens: int,
        config: PromptConfig | None = None,
    ):
        prompts = encode_prompts(reader, problems, max_new_tokens, config)
        self.problems = list(problems)
        self.prompt_ids = [prompt.ids for prompt in prompts]
        self.openings = [OPEN_THINK if prompt.opens_thinking else "" for prompt in prompts]

    def __len__(self) -> int:
        return len(self.problems)


class RolloutSampler:
    """Draws rollouts from an engine and scores them; keeps what it drew since the last `take`.

    `draw` takes a batch and waits for all of it. `start`, `advance` and `abort` are for a stream.
    """

    def __init__(self, engine: Engine, tokenizer, pool: PromptPool, sampling: Sampling, run_seed: int):
        self.engine = engine
        self.tokenizer = tokenizer
        self.pool = pool
        self.sampling = sampling
        self.run_seed = run_seed
        self._drawn: dict[tuple[int, int], Rollout] = {}
        self._running: dict[int, DrawName] = {}  # by the engine's ticket
        self._scoring: dict[DrawName, tuple[Completion | None, Future[Rollout] | None]] = {}
        for problem in pool.problems[:1]:  # all of a pool have one verifier
            problem.get_ready()
        self._scorers = ThreadPoolExecutor(_SCORERS, thread_name_prefix="score")  # no thread before it is needed

    def draw(self, step: int, draws: Draws) -> Outcomes:
        """Sample and score; rewards (N,) int8 and lengths in tokens (N,) int64 in the order of the draws."""
        completions = self.engine.generate(self._requests(step, draws), self.sampling)
        return self._keep(
            [
                None if completion is None else self._score(prompt, slot, completion)
                for (prompt, slot, _), completion in zip(draws.names(), completions, strict=True)
            ]
        )

    @property
    def num_free(self) -> int:
        return max(self.engine.max_sequences - self.engine.num_in_flight, 0)

    def start(self, step: int, draws: Draws) -> None:
        """Submit draws to the engine."""
        tickets = self.engine.submit(self._requests(step, draws), self.sampling)
        self._running |= dict(zip(tickets, draws.names(), strict=True))

    def advance(self) -> tuple[Draws, Outcomes]:
        """Decode a little; what ended the time before, and was scored meanwhile, with rewards and lengths as in `draw`.

        However long scoring takes, a rollout comes back at the same call, so that a run can be repeated.
        """
        due, self._scoring = self._scoring, {}
        for ticket, completion in self.engine.advance():
            name = self._running.pop(ticket)
            future = None if completion is None else self._scorers.submit(self._score, *name[:2], completion)
            self._scoring[name] = completion, future
        if not due and not self.engine.num_in_flight:  # nothing left to decode meanwhile
            due, self._scoring = self._scoring, {}
        outcomes = self._keep([future and future.result() for _, future in due.values()])
        return Draws.of(list(due)), outcomes

    def abort(self, draws: Draws) -> np.ndarray:
        """Forget draws, wherever they are; (N,) int64, the tokens sampled of each."""
        tickets = {name: ticket for ticket, name in self._running.items()}
        running = {name: tickets[name] for name in draws.names() if name in tickets}
        sampled = self.engine.abort(running.values())
        tokens = np.zeros(draws.size, dtype=np.int64)
        for i, name in enumerate(draws.names()):
            if name in running:
                del self._running[running[name]]
                tokens[i] = sampled[running[name]]
            elif name in self._scoring:
                completion, _ = self._scoring.pop(name)
                tokens[i] = 0 if completion is None else len(completion.token_ids)
            else:
                tokens[i] = len(self._drawn.pop(name[:2]).completion.token_ids)
        return tokens

    def take(self, prompts: Sequence[int]) -> list[Rollout]:
        """The scored rollouts of these prompts since the last call, by prompt in the given order, then by slot.

        All others are forgotten, and what is under way is given up.
        """
        if self._running or self._scoring:
            self.abort(Draws.of([*self._running.values(), *self._scoring]))
        by_prompt: dict[int, list[Rollout]] = {prompt: [] for prompt in prompts}
        for (prompt, _), rollout in sorted(self._drawn.items(), key=lambda item: item[0]):
            if prompt in by_prompt and rollout.reward != MISSING:
                by_prompt[prompt].append(rollout)
        self._drawn.clear()
        return [rollout for group in by_prompt.values() for rollout in group]

    def _requests(self, step: int, draws: Draws) -> list[Request]:
        seeds = rollout_seeds(self.run_seed, step, draws.prompts, draws.slots, draws.attempts)
        prompts = zip(draws.prompts.tolist(), seeds.tolist(), strict=True)
        return [Request(self.pool.prompt_ids[prompt], seed) for prompt, seed in prompts]

    def _keep(self, rollouts: Sequence[Rollout | None]) -> Outcomes:
        """The outcomes of rollouts, None where the engine failed on one."""
        rewards = np.full(len(rollouts), MISSING, dtype=np.int8)
        tokens = np.zeros(len(rollouts), dtype=np.int64)
        for i, rollout in enumerate(rollouts):
            if rollout is not None:
                self._drawn[rollout.prompt, rollout.slot] = rollout
                rewards[i], tokens[i] = rollout.reward, len(rollout.completion.token_ids)
        return Outcomes(rewards, tokens)

    def _score(self, prompt: int, slot: int, completion: Completion) -> Rollout:
        said = self.tokenizer.decode(completion.token_ids.tolist(), skip_special_tokens=True)
        text = self.pool.openings[prompt] + said
        reward = REWARDS[self.pool.problems[prompt].verify(text)]
        return Rollout(prompt, slot, self.pool.prompt_ids[prompt], completion, text, reward)
