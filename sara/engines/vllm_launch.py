"""Starts vLLM: from a configuration and a policy to a supervised vLLM engine.

Owns the settings that vLLM is started with, the environment it wants, and what is said when it cannot start. Runs in
both processes: `make_vllm_engine` where the learner is, `build_engine` in the worker, the only one to import vLLM.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sara.engines.shared_weights import WeightsAddress
from sara.engines.supervised import SupervisedEngine, Supervision

if TYPE_CHECKING:
    from vllm import LLM

    from sara.config import EngineConfig
    from sara.engines.vllm import VLLMEngine
    from sara.models import Policy

_GIB = 1 << 30
_CPU_CACHE_GIB = 1.0
_CPU_BATCHED_TOKENS = 4096


@dataclass(frozen=True)
class VLLMSettings:
    """What vLLM is started with; all of it is picklable.

    config_json     the model's transformers configuration
    cache_gib       size of the key-value cache; None: what is left of `memory_share` of a GPU, or 1 on the CPU
    """

    config_json: str
    end_token_ids: tuple[int, ...]
    dtype: str
    max_model_len: int
    max_sequences: int
    memory_share: float
    cache_gib: float | None
    tensor_parallel_size: int
    sleep_level: int
    is_eager: bool


def make_vllm_engine(config: EngineConfig, policy: Policy) -> SupervisedEngine:
    """vLLM, in a worker, with the policy's weights.

    Raises ValueError if it cannot start as configured.
    """
    settings = make_settings(config, policy)
    supervision = Supervision(
        timeout_s=config.timeout_s,
        start_timeout_s=config.start_timeout_s,
        dtype=getattr(torch, settings.dtype),
        environment=make_environment(torch.get_num_threads(), torch.cuda.is_available() and not config.is_eager),
    )
    return SupervisedEngine(partial(build_engine, settings), policy.model.named_parameters(), supervision)


def build_engine(settings: VLLMSettings, weights: WeightsAddress) -> VLLMEngine:
    """Start vLLM in this process with these weights. Raises ValueError if it cannot start."""
    from sara.engines.vllm import VLLMEngine

    llm = start_llm(settings)
    engine = VLLMEngine(llm, settings.end_token_ids, settings.max_model_len, settings.sleep_level)
    engine.load_weights(weights)
    return engine


def start_llm(settings: VLLMSettings) -> LLM:
    """An `LLM` with random weights, of the model's configuration alone: the learner's are put in their place."""
    from vllm import LLM
    from vllm.platforms import current_platform

    is_cpu = current_platform.is_cpu()
    cache_gib = settings.cache_gib or (_CPU_CACHE_GIB if is_cpu else None)
    with tempfile.TemporaryDirectory(prefix="sara-vllm-") as folder:
        Path(folder, "config.json").write_text(settings.config_json, encoding="utf-8")
        try:
            return LLM(
                model=folder,
                skip_tokenizer_init=True,
                load_format="dummy",
                generation_config="vllm",
                dtype=settings.dtype,
                max_model_len=settings.max_model_len,
                max_num_seqs=settings.max_sequences,
                gpu_memory_utilization=settings.memory_share,
                kv_cache_memory_bytes=int(cache_gib * _GIB) if cache_gib else None,
                tensor_parallel_size=settings.tensor_parallel_size,
                enable_prefix_caching=True,
                enable_sleep_mode=bool(settings.sleep_level) and not is_cpu,
                enforce_eager=settings.is_eager or is_cpu,
                **(_whole_prompts(settings) if is_cpu else {}),
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                seed=0,
            )
        except (ValueError, RuntimeError) as error:
            raise ValueError(_cannot_start(settings, cache_gib, error)) from error


def _whole_prompts(settings: VLLMSettings) -> dict[str, Any]:
    """vLLM 0.32 on the CPU fails on a prompt in several parts whose rollout has a seed of its own."""
    return {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(settings.max_model_len, settings.max_sequences, _CPU_BATCHED_TOKENS),
    }


def make_settings(config: EngineConfig, policy: Policy) -> VLLMSettings:
    if config.max_model_len and config.max_model_len > policy.context:
        raise ValueError(
            f"engine.max_model_len = {config.max_model_len}; expected at most {policy.context}, the model's context"
        )
    return VLLMSettings(
        config_json=policy.model.config.to_json_string(use_diff=False),
        end_token_ids=policy.end_token_ids,
        dtype=str(policy.model.dtype).removeprefix("torch.") if config.dtype == "auto" else config.dtype,
        max_model_len=config.max_model_len or policy.context,
        max_sequences=config.max_sequences,
        memory_share=config.memory_share,
        cache_gib=config.cache_gib,
        tensor_parallel_size=config.tensor_parallel_size,
        sleep_level=config.sleep_level,
        is_eager=config.is_eager,
    )


def make_environment(threads: int, is_compiled: bool) -> dict[str, str]:
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # vLLM's core in the worker itself, where weights can be handed to it
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound to cores, two engines of a machine would share the first ones
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "0" if is_compiled else "1",  # on the CPU it would save little and want a C++ compiler
    }


def _cannot_start(settings: VLLMSettings, cache_gib: float | None, error: Exception) -> str:
    reason = " ".join(str(error).split())
    memory = f"engine.cache_gib = {cache_gib}" if cache_gib else f"engine.memory_share = {settings.memory_share}"
    asked = f"engine.max_model_len = {settings.max_model_len}, {memory}"
    return f"vLLM cannot start with {asked}: {reason}"
