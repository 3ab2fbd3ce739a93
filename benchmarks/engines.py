"""What the engine layer costs: vLLM through SARA beside plain `LLM.generate`, the two engines, and a weight sync.

    python benchmarks/engines.py [--model builtin] [--rollouts 128] [--max-new-tokens 192] [--repeats 5] [--threads 1]

One vLLM in one worker answers the same requests (8 rollouts a prompt, a seed each, log-probabilities) twice: by
`LLM.generate` there and then, and through the engine, the socket and the worker's loop; turn by turn, so that a busy
machine bends both alike. Reported are medians over the turns of wall time and of processor time, of both processes
together. The last table, of the built-in model alone, takes whole steps apart: what SARA's collection (allocator,
selector, verifier) adds to the engine. No figure is asserted; those of docs/engines.md come from here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

from sara.collection import collect
from sara.config import EngineConfig, ModelConfig, RunConfig
from sara.datasets import load_problems
from sara.engines import make_engine
from sara.engines import vllm_launch as launch
from sara.engines.base import Engine, Request, Sampling
from sara.engines.supervised import SupervisedEngine, Supervision
from sara.models import Policy, load_policy
from sara.rollouts import PromptPool, RolloutSampler
from sara.seeds import rollout_seeds
from sara.strategies import configured_limits, configured_strategy

console = Console(width=120)


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    policy = load_policy(ModelConfig(path=args.model))
    config = RunConfig(engine={"max_new_tokens": args.max_new_tokens})
    pool = PromptPool(policy, load_problems(config.data)[1][: args.rollouts // 8], args.max_new_tokens)
    seeds = rollout_seeds(0, 1, np.arange(args.rollouts), 0).tolist()
    requests = [Request(pool.prompt_ids[i // 8], seed) for i, seed in enumerate(seeds)]
    sampling = Sampling(1.0, args.max_new_tokens)
    vllm = start_vllm(policy, args)
    huggingface = make_engine(EngineConfig(name="hf"), policy)
    ways = {
        "plain LLM.generate": (vllm, lambda: vllm._worker.call("generate_plainly", requests, sampling)),
        "vLLM engine": (vllm, lambda: count_tokens(vllm.generate(requests, sampling))),
        "Hugging Face engine": (huggingface, lambda: count_tokens(huggingface.generate(requests, sampling))),
    }
    report_throughput(ways, args.repeats)
    report_sync(vllm, policy, args.repeats)
    if args.model == "builtin":
        report_step(vllm, huggingface, policy, config, args.repeats)
    vllm.close()


def build(settings: launch.VLLMSettings, weights) -> Engine:
    """In the worker: the engine, which there can also be asked to go the plain way."""
    from vllm.inputs import TokensPrompt

    from sara.engines.vllm import VLLMEngine

    class MeasuredEngine(VLLMEngine):
        def generate_plainly(self, requests, sampling):
            prompts = [TokensPrompt(prompt_token_ids=list(request.prompt_ids)) for request in requests]
            parameters = [self._parameters(request.seed, sampling) for request in requests]
            outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
            return sum(len(output.outputs[0].token_ids) for output in outputs)

    engine = MeasuredEngine(launch.start_llm(settings), settings.end_token_ids, settings.max_model_len)
    engine.load_weights(weights)
    return engine


def start_vllm(policy: Policy, args: argparse.Namespace) -> SupervisedEngine:
    start = time.perf_counter()
    config = EngineConfig(name="vllm", max_model_len=min(policy.context, 1024))
    settings = launch.make_settings(config, policy)
    environment = launch.make_environment(args.threads, is_compiled=torch.cuda.is_available())
    supervision = Supervision(600, 1200, policy.model.dtype, environment)
    # Pickled by reference: the worker imports this file under its own name.
    from engines import build as importable

    engine = SupervisedEngine(partial(importable, settings), policy.model.named_parameters(), supervision)
    console.print(f"vLLM started in {time.perf_counter() - start:.1f} s")
    return engine


def report_throughput(ways: dict[str, tuple[Engine, Callable[[], int]]], repeats: int) -> None:
    measured: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, (engine, generate) in ways.items():
            figures = measure(engine, generate)
            if turn:  # the first one warms up
                measured[name].append(figures)
    table = Table("", "tokens", "tokens/s, wall", "tokens/s, processor", "wall", "processor", title="The same requests")
    wall, cpu = (
        np.array([[turn[i] for turn in turns] for turns in measured.values()]) for i in (0, 1)
    )  # (ways, turns)
    for row, (name, turns) in enumerate(measured.items()):
        tokens = turns[0][2]
        table.add_row(
            name,
            f"{tokens:,}",
            f"{tokens / np.median(wall[row]):,.0f}",
            f"{tokens / np.median(cpu[row]):,.0f}",
            f"{np.median(wall[row] / wall[0]):.3f} x",
            f"{np.median(cpu[row] / cpu[0]):.3f} x",
        )
    console.print(table)


def report_sync(engine: SupervisedEngine, policy: Policy, repeats: int) -> None:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        engine.sync_weights(policy.model.named_parameters())
        times.append(time.perf_counter() - start)
    size = sum(weight.numel() * weight.element_size() for weight in policy.model.parameters())
    best, median = 1e3 * min(times), 1e3 * np.median(times)
    console.print(f"A weight sync of {size / 2**20:.1f} MiB: {best:.0f} ms at best, median {median:.0f} ms")


def report_step(vllm: Engine, huggingface: Engine, policy: Policy, config: RunConfig, repeats: int) -> None:
    """Processor time of whole collections with SARA, and how much of it passes outside the engine."""
    table = Table("engine", "rollouts", "step, processor", "outside the engine", title="A step of SARA, 16 groups of 8")
    for name, engine in (("vLLM", vllm), ("Hugging Face", huggingface)):
        spent, inside, rollouts = [], [], []
        problems = load_problems(config.data)[0]
        sampler = RolloutSampler(engine, policy.tokenizer, PromptPool(policy, problems, 192), Sampling(1.0, 192), 0)
        clock = clocked(engine)
        for step in range(1, repeats + 1):
            pair = configured_strategy("sara", len(sampler.pool), 0, config.allocation, config.selection)
            start, clock.inside = processor_time(engine), 0.0
            collection = collect(step, *pair, sampler, configured_limits(config.allocation), 0)
            spent.append(processor_time(engine) - start)
            inside.append(clock.inside)
            rollouts.append(collection.metrics()["rollouts/generated"])
        share = 1 - np.sum(inside) / np.sum(spent)
        table.add_row(name, f"{np.mean(rollouts):,.0f}", f"{np.mean(spent):.2f} s", f"{100 * share:.1f}%")
    console.print(table)


class clocked:
    """Adds up the processor time inside an engine's `generate`."""

    def __init__(self, engine: Engine):
        self.inside, generate = 0.0, engine.generate

        def timed(requests, sampling):
            start = processor_time(engine)
            completions = generate(requests, sampling)
            self.inside += processor_time(engine) - start
            return completions

        engine.generate = timed


def measure(engine: Engine, generate: Callable[[], int]) -> tuple[float, float, int]:
    """Wall and processor seconds, and tokens."""
    cpu, wall = processor_time(engine), time.perf_counter()
    tokens = generate()
    return time.perf_counter() - wall, processor_time(engine) - cpu, tokens


def processor_time(engine: Engine) -> float:
    """Of this process and of the engine's worker, if it has one."""
    pids = [None] + ([engine.worker_pid] if isinstance(engine, SupervisedEngine) else [])
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def count_tokens(completions) -> int:
    return sum(len(completion.token_ids) for completion in completions)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--rollouts", type=int, default=128, help="a multiple of 8")
    parser.add_argument("--max-new-tokens", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
