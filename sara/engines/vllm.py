"""The vLLM engine: samples with vLLM, of its GPU or its CPU build, in this process.

Owns the translation between the contract and vLLM: token ids in and out, a seed for each rollout,
log-probabilities under the sampling temperature, new weights in place. It runs in a worker
(`sara.engines.vllm_launch`), because vLLM wants its own environment and may hang where only a process can be killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np
from torch import Tensor
from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind

from sara.engines.base import Completion, Engine, Request, Sampling

_LOW_BITS = (1 << 63) - 1  # vLLM's seeds are signed
_LOWEST_TEMPERATURE = 0.01  # vLLM silently raises any lower one to it
_STEPS_AT_MOST = 16


class VLLMEngine(Engine):
    """Samples with a vLLM `LLM` that was started by `sara.engines.vllm_launch.start_llm`.

    end_token_ids   ids that end a completion
    max_model_len   longest prompt with its completion, in tokens
    sleep_level     what `release_memory` gives up: 0 nothing, 1 the cache, and the weights to the CPU, 2 both
    """

    def __init__(self, llm: LLM, end_token_ids: Sequence[int], max_model_len: int, sleep_level: int = 0):
        self.policy_version = 0
        self._llm, self._core = llm, llm.llm_engine
        self._end_token_ids = sorted(end_token_ids)
        self._max_model_len, self._sleep_level = max_model_len, sleep_level
        self._is_asleep = False
        self._tickets = count()
        self._ids: dict[int, str] = {}  # ticket -> vLLM's own id of a rollout in flight
        self._greedy: set[int] = set()

    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        assert not self._is_asleep, "submit() between release_memory() and sync_weights()"
        self._require_possible(requests, sampling)
        tickets = [next(self._tickets) for _ in requests]
        for ticket, request in zip(tickets, requests, strict=True):
            prompt = TokensPrompt(prompt_token_ids=list(request.prompt_ids))
            self._ids[ticket] = self._core.add_request(str(ticket), prompt, self._parameters(request.seed, sampling))
        if sampling.temperature == 0:
            self._greedy.update(tickets)
        return tickets

    def advance(self) -> list[tuple[int, Completion | None]]:
        """One token of each rollout that runs, or as many as it takes until one ends, up to 16."""
        for _ in range(_STEPS_AT_MOST if self._ids else 0):
            ended = [output for output in self._core.step() if output.finished]
            if ended:
                return [self._ended(output) for output in ended]
        return []

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        given_up = [ticket for ticket in dict.fromkeys(tickets) if ticket in self._ids]
        states = self._core.output_processor.request_states
        tokens = {ticket: states[self._ids[ticket]].detokenizer.num_output_tokens() for ticket in given_up}
        self._core.abort_request([str(ticket) for ticket in given_up])
        for ticket in given_up:
            self._forget(ticket)
        return tokens

    @property
    def num_in_flight(self) -> int:
        return len(self._ids)

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        assert not self.num_in_flight, "sync_weights() while rollouts are in flight"
        self.load_weights(named_weights)
        self.policy_version += 1

    def load_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Put the weights in place and forget what was computed with the old ones.

        named_weights   must be picklable where vLLM runs in several processes (tensor parallelism)
        """
        if self._is_asleep:
            self._llm.wake_up(tags=["weights"])
        self._llm.collective_rpc(_reload, args=(named_weights,))
        if self._is_asleep:
            self._llm.wake_up(tags=["kv_cache"])
            self._is_asleep = False
        was_reset = self._llm.reset_prefix_cache()
        assert was_reset, "vLLM kept its prefix cache"

    def release_memory(self) -> None:
        assert not self.num_in_flight, "release_memory() while rollouts are in flight"
        if self._sleep_level and not self._is_asleep:
            self._llm.sleep(level=self._sleep_level)
            self._is_asleep = True

    def _require_possible(self, requests: Sequence[Request], sampling: Sampling) -> None:
        if 0 < sampling.temperature < _LOWEST_TEMPERATURE:
            raise ValueError(
                f"temperature = {sampling.temperature}; vLLM samples at 0, or at {_LOWEST_TEMPERATURE} and above"
            )
        longest = max((len(request.prompt_ids) for request in requests), default=0)
        if longest + sampling.max_new_tokens > self._max_model_len:
            raise ValueError(
                f"a prompt of {longest} tokens and max_new_tokens = {sampling.max_new_tokens}; "
                f"expected at most {self._max_model_len} together, the engine's max_model_len"
            )

    def _parameters(self, seed: int, sampling: Sampling) -> SamplingParams:
        return SamplingParams(
            temperature=sampling.temperature,
            max_tokens=sampling.max_new_tokens,
            seed=seed & _LOW_BITS,
            stop_token_ids=self._end_token_ids,
            ignore_eos=True,  # the model's configuration names an end too, which need not be among ours
            logprobs=0,  # of the sampled token alone
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )

    def _ended(self, output: RequestOutput) -> tuple[int, Completion | None]:
        ticket, sampled = int(output.request_id), output.outputs[0]
        is_greedy = ticket in self._greedy
        self._forget(ticket)
        if sampled.finish_reason not in ("stop", "length"):
            return ticket, None
        token_ids = np.array(sampled.token_ids, dtype=np.int64)
        logprobs = np.zeros(len(token_ids)) if is_greedy else sampled.logprobs.logprobs
        logprobs = np.array(logprobs, dtype=np.float32)
        assert len(logprobs) == len(token_ids), "vLLM gave another number of log-probabilities than of tokens"
        return ticket, Completion(token_ids, logprobs, sampled.finish_reason, self.policy_version)

    def _forget(self, ticket: int) -> None:
        del self._ids[ticket]
        self._greedy.discard(ticket)


def _reload(worker, named_weights: Iterable[tuple[str, Tensor]]) -> None:
    """Runs in each of vLLM's workers. On the CPU a tied output layer is a packed copy, which vLLM forgets to renew."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
    from vllm.platforms import current_platform

    worker.reload_weights(weights_iterator=iter(named_weights))
    if current_platform.is_cpu():
        for module in worker.get_model().modules():
            if isinstance(module, ParallelLMHead):
                module.quant_method.process_weights_after_loading(module)
