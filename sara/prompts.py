"""Puts problems to a model: the prompt's text in the configured style, and its token ids.

Owns the styles. The instruction that says how to write an answer comes from the data set unless the
configuration has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from sara.config import PromptConfig
from sara.datasets.base import Problem
from sara.models import Reader

OPEN_THINK = "<think>"

BASE_FORM = (
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant "
    "first thinks about the reasoning process in the mind and then gives the User the answer. The reasoning process "
    "stands within <think> </think> and the answer within <answer> </answer>, that is, <think> reasoning process here "
    "</think> <answer> answer here </answer>.\n"
    "User: {question}\n"
    f"Assistant: Let me solve this step by step.\n{OPEN_THINK}"
)


@dataclass(frozen=True)
class Prompt:
    """What a model is given for a problem.

    text              as the model sees it, the special tokens of its chat template included
    ids               token ids of the text
    opens_thinking    whether it ends in an open `<think>`, so that the completion starts inside the reasoning
    """

    text: str
    ids: tuple[int, ...]

    @property
    def opens_thinking(self) -> bool:
        return self.text.rstrip().endswith(OPEN_THINK)


def encode_prompts(
    reader: Reader, problems: Sequence[Problem], max_new_tokens: int, config: PromptConfig | None = None
) -> list[Prompt]:
    """Prompt of each problem in the configured style, each one fit for the model.

    Raises ValueError for a style that the model cannot have, for a prompt that leaves the model's context no room for
    `max_new_tokens`, or that holds a word which the tokenizer does not know.
    """
    prompts = write_prompts(reader.tokenizer, problems, config or PromptConfig())
    for problem, prompt in zip(problems, prompts, strict=True):
        fault = prompt_fault(reader, problem, prompt, max_new_tokens)
        if fault is not None:
            raise ValueError(fault)
    return prompts


def write_prompts(
    tokenizer: PreTrainedTokenizerBase, problems: Sequence[Problem], config: PromptConfig
) -> list[Prompt]:
    """Prompt of each problem, whether the model can take it or not; raises ValueError for a style it cannot have."""
    write = _writer(tokenizer, config)
    written = [write(problem) for problem in problems]
    return [
        Prompt(text, tuple(tokenizer(text, add_special_tokens=adds_special_tokens)["input_ids"]))
        for text, adds_special_tokens in written
    ]


def prompt_fault(reader: Reader, problem: Problem, prompt: Prompt, max_new_tokens: int) -> str | None:
    """Why a model cannot take a prompt, in a line; None if it can."""
    if len(prompt.ids) + max_new_tokens > reader.context:
        return (
            f"problem {problem.id}: its prompt has {len(prompt.ids)} tokens and max_new_tokens is {max_new_tokens}; "
            f"expected at most {reader.context} together, the model's context"
        )
    if _unknown_ids(reader.tokenizer) & set(prompt.ids):
        return f"problem {problem.id}: the model's tokenizer does not know a word of {_shortened(problem.text)!r}"
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


Write = Callable[[Problem], tuple[str, bool]]
"""From a problem to (text, whether the tokenizer still adds its own special tokens)."""


def _writer(tokenizer: PreTrainedTokenizerBase, config: PromptConfig) -> Write:
    has_template = bool(tokenizer.chat_template)
    style = ("chat" if has_template else "plain") if config.style == "auto" else config.style
    if style == "chat" and not has_template:
        raise ValueError("prompt.style = 'chat'; the model has no chat template, expected 'plain', 'base' or 'auto'")
    if config.system is not None and style != "chat":
        raise ValueError(f"prompt.system: a prompt of the style {style!r} has no system message; expected 'chat'")
    if style == "chat":
        return lambda problem: (_chat(tokenizer, _question(problem, config), config.system), False)
    if style == "base":
        return lambda problem: (BASE_FORM.format(question=_question(problem, config)), True)
    return lambda problem: (_question(problem, config), True)


def _question(problem: Problem, config: PromptConfig) -> str:
    instruction = problem.instruction if config.instruction is None else config.instruction
    return f"{problem.text}\n\n{instruction}" if instruction else problem.text


def _chat(tokenizer: PreTrainedTokenizerBase, question: str, system: str | None) -> str:
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": question})
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def _unknown_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The id that stands for any unknown word alone; byte-level tokenizers reuse that of the end of a text."""
    return {tokenizer.unk_token_id} - {None, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
