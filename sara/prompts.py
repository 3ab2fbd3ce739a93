"""Turns problems into prompt token ids, through the model's chat template where it has one."""

from __future__ import annotations

from collections.abc import Sequence

from sara.datasets.base import Problem
from sara.models import Reader


def encode_prompts(reader: Reader, problems: Sequence[Problem], max_new_tokens: int) -> list[tuple[int, ...]]:
    """Prompt ids of each problem, as one user message or as plain text for a model without a chat template.

    Raises ValueError for a prompt that leaves the model's context no room for `max_new_tokens`, or
    that holds a word which the tokenizer does not know.
    """
    return [_encode(reader, problem, max_new_tokens) for problem in problems]


def _unknown_ids(tokenizer) -> set[int]:
    """The id that stands for any unknown word alone; byte-level tokenizers reuse that of the end of a text."""
    return {tokenizer.unk_token_id} - {None, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}


def _encode(reader: Reader, problem: Problem, max_new_tokens: int) -> tuple[int, ...]:
    tokenizer = reader.tokenizer
    if tokenizer.chat_template:
        message = [{"role": "user", "content": problem.text}]
        text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = tokenizer(problem.text)["input_ids"]
    if len(ids) + max_new_tokens > reader.context:
        raise ValueError(
            f"problem {problem.id}: its prompt has {len(ids)} tokens and engine.max_new_tokens is {max_new_tokens}; "
            f"expected at most {reader.context} together, the model's context"
        )
    if _unknown_ids(tokenizer) & set(ids):
        raise ValueError(f"problem {problem.id}: the model's tokenizer does not know a word of {problem.text!r}")
    return tuple(ids)
