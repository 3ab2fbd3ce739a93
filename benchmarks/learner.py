"""What an update costs: the learner beside a straightforward implementation, on the same batch:

    python benchmarks/learner.py

Each cell is a process of its own with one thread: processor seconds of an update (the best of several), and how much
the process's memory rose while it ran. The straightforward implementation does what most small trainers do: rollouts in
the order they came, padded to the longest of their micro-batch, logits of every position in float32. Both are held to
the same padded tokens in a micro-batch and end with the same loss.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sara.config import LearnerConfig, ModelConfig
from sara.engines.base import Completion
from sara.learner import Learner, TrainingExample
from sara.models import load_policy
from sara.rollouts import Rollout

TEMPERATURE = 1.0
MOST_LOGITS_GIB = 0.7  # of one float32 copy; the straightforward implementation holds about five
CASES = {
    "built-in model, 128 rollouts of 10 to 192 tokens": {"vocab": 0, "rollouts": 128, "longest": 192, "budget": 4096},
    "32,000 words, 1,024 tokens": {"vocab": 32_000, "rollouts": 2, "longest": 480, "budget": 8192},
    "32,000 words, 4,096 tokens": {"vocab": 32_000, "rollouts": 8, "longest": 480, "budget": 8192},
    "150,000 words, 1,024 tokens": {"vocab": 150_000, "rollouts": 2, "longest": 480, "budget": 8192},
    "150,000 words, 8,192 tokens": {"vocab": 150_000, "rollouts": 16, "longest": 480, "budget": 8192},
}


def make_model(vocab: int):
    """The built-in model, or a thin one with as many words as asked for."""
    if not vocab:
        return load_policy(ModelConfig()).model
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def make_examples(vocab: int, rollouts: int, longest: int) -> list[TrainingExample]:
    """Groups of 8 with lengths as skewed as those of real rollouts, the longest of all among them."""
    rng = np.random.default_rng(0)
    words = vocab or 132
    prompts = [tuple(rng.integers(0, words, 32).tolist()) for _ in range(0, rollouts, 8)]
    lengths = np.clip(rng.lognormal(np.log(longest / 4), 0.8, rollouts).astype(int), 10, longest)
    lengths = np.full(rollouts, longest) if vocab else lengths
    examples = []
    for i, length in enumerate(lengths.tolist()):
        tokens = rng.integers(0, words, length)
        completion = Completion(tokens, np.full(length, -3.0, dtype=np.float32), "stop", 0)
        rollout = Rollout(i // 8, i % 8, prompts[i // 8], completion, "", 1)
        examples.append(TrainingExample(rollout, float(rng.normal())))
    return examples


def learner_update(model, config: LearnerConfig, examples):
    learner = Learner(model, config, TEMPERATURE)
    return lambda: learner.update(examples, np.random.default_rng(0))["loss"]


def straightforward_update(model, config: LearnerConfig, examples):
    """The same update in the plainest way."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(config.beta1, config.beta2))
    sequences = [[*e.rollout.prompt_ids, *e.rollout.completion.token_ids.tolist()] for e in examples]
    rows = config.micro_batch_tokens // max(map(len, sequences))
    token_count = sum(e.trained_tokens for e in examples)

    def micro_batch(start: int) -> torch.Tensor:
        part, kept = sequences[start : start + rows], examples[start : start + rows]
        length = max(map(len, part))
        ids = torch.zeros((len(part), length), dtype=torch.int64)
        mask, is_response = torch.zeros_like(ids), torch.zeros((len(part), length), dtype=torch.bool)
        for row, (sequence, example) in enumerate(zip(part, kept, strict=True)):
            ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
            is_response[row, len(example.rollout.prompt_ids) : len(sequence)] = True
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].float() / TEMPERATURE
        distribution = torch.log_softmax(logits, dim=-1)
        logprobs = distribution.gather(2, ids[:, 1:, None])[:, :, 0]
        with torch.no_grad():
            entropy = -(distribution.exp() * distribution).sum(-1)[is_response[:, 1:]].mean()
        assert torch.isfinite(entropy)
        advantages = torch.tensor([[e.advantage] for e in kept])
        ratio = torch.exp(logprobs - logprobs.detach())
        losses = torch.maximum(
            -ratio * advantages, -ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * advantages
        )
        return losses[is_response[:, 1:]].sum() / token_count

    def update() -> float:
        optimizer.zero_grad()
        total = 0.0
        for start in range(0, len(sequences), rows):
            loss = micro_batch(start)
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()
        return total

    return update


IMPLEMENTATIONS = {"learner": learner_update, "straightforward": straightforward_update}


def measure(implementation: str, case: str, repeats: int) -> dict[str, float]:
    """In this process: processor seconds, rise of the peak memory in MiB, and the first loss."""
    torch.set_num_threads(1)
    settings = CASES[case]
    model = make_model(settings["vocab"])
    examples = make_examples(settings["vocab"], settings["rollouts"], settings["longest"])
    config = LearnerConfig(updates_per_step=1, micro_batch_tokens=settings["budget"])
    update = IMPLEMENTATIONS[implementation](model, config, examples)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    losses, seconds = [], []
    for _ in range(repeats):
        start = time.process_time()
        losses.append(update())
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": min(seconds), "mib": (peak - before) / 1024, "loss": losses[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("IMPLEMENTATION", "CASE"), help="measure one cell, as JSON")
    parser.add_argument("--repeats", type=int, default=3, help="updates in each cell")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one, arguments.repeats)))
        return
    print("| batch | learner, s | MiB | straightforward, s | MiB |\n|---|---:|---:|---:|---:|")
    for case, settings in CASES.items():
        tokens = settings["rollouts"] * (settings["longest"] + 32)
        logits_gib = min(tokens, settings["budget"]) * (settings["vocab"] or 132) * 4 / 2**30
        found = {}
        for implementation in IMPLEMENTATIONS:
            if implementation == "straightforward" and logits_gib > MOST_LOGITS_GIB:
                continue
            command = [sys.executable, __file__, "--one", implementation, case, "--repeats", str(arguments.repeats)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[implementation] = json.loads(output.splitlines()[-1])
        if len(found) == 2:
            losses = [values["loss"] for values in found.values()]
            assert abs(losses[0] - losses[1]) < 1e-4 * max(1.0, abs(losses[0])), f"{case}: losses {losses} differ"
        cells = [
            f"{found[name]['seconds']:.2f} | {found[name]['mib']:,.0f}"
            if name in found
            else f"not run | over {5 * logits_gib * 1024:,.0f}"
            for name in IMPLEMENTATIONS
        ]
        print(f"| {case} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
