"""Samples and scores rollouts: the source that training and evaluation draw from.

Owns the joining of engine and verifier. Decides nothing about how many rollouts a prompt gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sara.allocation import MISSING, Draws, Outcomes
from sara.datasets.base import Problem
from sara.engines.base import Completion, Engine, Request, Sampling
from sara.models import Reader
from sara.prompts import encode_prompts
from sara.seeds import rollout_seeds
from sara.verifiers import Verdict

REWARDS = {Verdict.RIGHT: 1, Verdict.WRONG: 0, Verdict.UNSCORABLE: MISSING}


@dataclass(frozen=True)
class Rollout:
    """One completion with its reward.

    prompt        index of the problem in its pool
    slot          its place in the group, 0..k-1
    prompt_ids    token ids that it was sampled after
    completion    what the engine returned
    text          the completion's text, as the verifier read it
    reward        1 right, 0 wrong, MISSING if it could not be scored
    """

    prompt: int
    slot: int
    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    reward: int


class PromptPool:
    """Problems with their prompt ids, indexed 0..P-1."""

    def __init__(self, reader: Reader, problems: Sequence[Problem], max_new_tokens: int):
        self.problems = list(problems)
        self.prompt_ids = encode_prompts(reader, problems, max_new_tokens)

    def __len__(self) -> int:
        return len(self.problems)


class RolloutSampler:
    """Draws rollouts from an engine and scores them; keeps what it drew since the last `take`."""

    def __init__(self, engine: Engine, tokenizer, pool: PromptPool, sampling: Sampling, run_seed: int):
        self.engine = engine
        self.tokenizer = tokenizer
        self.pool = pool
        self.sampling = sampling
        self.run_seed = run_seed
        self._drawn: dict[tuple[int, int], Rollout] = {}

    def draw(self, step: int, draws: Draws) -> Outcomes:
        """Sample and score; rewards (N,) int8 and lengths in tokens (N,) int64 in the order of the draws."""
        seeds = rollout_seeds(self.run_seed, step, draws.prompts, draws.slots, draws.attempts)
        requests = [
            Request(self.pool.prompt_ids[prompt], int(seed))
            for prompt, seed in zip(draws.prompts.tolist(), seeds.tolist(), strict=True)
        ]
        completions = self.engine.generate(requests, self.sampling)
        rewards = np.full(len(requests), MISSING, dtype=np.int8)
        tokens = np.zeros(len(requests), dtype=np.int64)
        slots = zip(draws.prompts.tolist(), draws.slots.tolist(), strict=True)
        for i, ((prompt, slot), completion) in enumerate(zip(slots, completions, strict=True)):
            if completion is None:
                continue
            rollout = self._score(prompt, slot, completion)
            self._drawn[prompt, slot] = rollout
            rewards[i], tokens[i] = rollout.reward, len(completion.token_ids)
        return Outcomes(rewards, tokens)

    def take(self, prompts: Sequence[int]) -> list[Rollout]:
        """The scored rollouts of these prompts since the last call, by prompt in the given order, then by slot."""
        by_prompt: dict[int, list[Rollout]] = {prompt: [] for prompt in prompts}
        for (prompt, _), rollout in sorted(self._drawn.items(), key=lambda item: item[0]):
            if prompt in by_prompt and rollout.reward != MISSING:
                by_prompt[prompt].append(rollout)
        self._drawn.clear()
        return [rollout for group in by_prompt.values() for rollout in group]

    def _score(self, prompt: int, slot: int, completion: Completion) -> Rollout:
        text = self.tokenizer.decode(completion.token_ids.tolist(), skip_special_tokens=True)
        reward = REWARDS[self.pool.problems[prompt].verify(text)]
        return Rollout(prompt, slot, self.pool.prompt_ids[prompt], completion, text, reward)
