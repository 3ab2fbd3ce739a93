from __future__ import annotations

import pytest
from tokenizers import processors

from sara.builtin.tokenizer import build_tokenizer
from sara.config import PromptConfig
from sara.datasets.boxed import INSTRUCTION, boxed_problem
from sara.datasets.countdown import countdown_problem
from sara.models import Reader
from sara.prompts import encode_prompts, write_prompts

PROBLEMS = [countdown_problem([3, 5, 7], 22), countdown_problem([44, 19], 63)]
CHAT = (
    "{% for message in messages %}answer = {{ message['content'] }} ;{% endfor %}"
    "{% if add_generation_prompt %} step{% endif %}"
)


def test_without_a_chat_template_a_prompt_is_the_problems_text(tokenizer):
    encoded = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)
    for prompt, problem in zip(encoded, PROBLEMS, strict=True):
        assert prompt.text == problem.text and not prompt.opens_thinking
        # Words and signs stand apart in a decoded text: compare without the spaces.
        assert tokenizer.decode(prompt.ids).replace(" ", "") == problem.text.replace(" ", "")


def test_a_chat_template_frames_the_text_as_one_user_message_that_awaits_an_answer():
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT
    (prompt, _) = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)
    assert prompt.text == f"answer = {PROBLEMS[0].text} ; step"
    assert tokenizer.decode(prompt.ids).replace(" ", "") == f"answer={PROBLEMS[0].text};step".replace(" ", "")


def test_special_tokens_are_added_once_with_and_without_a_template():
    tokenizer = build_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", tokenizer.eos_token_id)]
    )
    plain = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0].ids
    assert plain[0] == tokenizer.eos_token_id and plain.count(tokenizer.eos_token_id) == 1
    tokenizer.chat_template = "<eos> " + CHAT  # as many templates do, it writes the first token itself
    chat = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0].ids
    assert chat[0] == tokenizer.eos_token_id and chat.count(tokenizer.eos_token_id) == 1


def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused_by_name(tokenizer):
    length = len(tokenizer(PROBLEMS[0].text)["input_ids"])
    assert encode_prompts(Reader(tokenizer, length + 10), PROBLEMS, 10)
    with pytest.raises(
        ValueError,
        match=rf"problem countdown/3-5-7=22: its prompt has {length} tokens .*max_new_tokens is 11; "
        rf"expected at most {length + 10} together",
    ):
        encode_prompts(Reader(tokenizer, length + 10), PROBLEMS, 11)


def test_a_word_that_the_model_does_not_know_is_refused_by_the_problems_name(tokenizer):
    with pytest.raises(ValueError, match=r"problem countdown/100-19=119: .* does not know a word"):
        encode_prompts(Reader(tokenizer, 512), [*PROBLEMS, countdown_problem([100, 19], 119)], 100)


def test_an_unknown_token_that_has_another_use_is_no_unknown_word():
    # Byte-level tokenizers know every text; they name one of their special tokens as the unknown one.
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "<eos> " + CHAT
    tokenizer.unk_token = "<eos>"
    assert encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0].ids[0] == tokenizer.eos_token_id
    tokenizer.unk_token = None
    assert len(encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)) == 2


MATH = boxed_problem("m1", "What is $1 + 1$?", "2")


def written(problem, tokenizer=None, **settings) -> str:
    (prompt,) = write_prompts(tokenizer or build_tokenizer(), [problem], PromptConfig(**settings))
    return prompt.text


def with_template(template: str = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}<assistant>"):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_a_problem_that_does_not_say_how_to_answer_gets_its_sets_instruction():
    assert written(MATH) == f"What is $1 + 1$?\n\n{INSTRUCTION}"
    assert INSTRUCTION == r"Let's think step by step and output the final answer within \boxed{}."
    assert written(MATH, instruction="") == "What is $1 + 1$?"
    assert written(MATH, instruction="Be brief.") == "What is $1 + 1$?\n\nBe brief."
    assert written(PROBLEMS[0]) == PROBLEMS[0].text


def test_the_chat_form_has_the_instruction_in_the_users_message_and_a_system_message_if_there_is_one():
    assert written(MATH, with_template()) == f"<user>What is $1 + 1$?\n\n{INSTRUCTION}<assistant>"
    assert written(MATH, with_template(), system="You count.").startswith("<system>You count.<user>What is")


def test_the_plain_form_leaves_a_chat_template_aside():
    assert written(PROBLEMS[0], with_template(), style="plain") == PROBLEMS[0].text


def test_the_base_form_asks_for_think_and_answer_and_starts_the_thinking():
    text = written(PROBLEMS[0], with_template(), style="base")
    assert f"User: {PROBLEMS[0].text}\nAssistant:" in text
    assert "<think> reasoning process here </think> <answer> answer here </answer>" in text
    assert text.endswith("<think>")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"style": "chat"}, "prompt.style = 'chat'; the model has no chat template"),
        ({"system": "Count."}, "prompt.system: a prompt of the style 'plain' has no system message"),
        ({"system": "Count.", "style": "base"}, "prompt.system: a prompt of the style 'base' has no system message"),
    ],
)
def test_a_style_that_the_model_cannot_have_is_refused(settings, line):
    with pytest.raises(ValueError, match=line):
        written(MATH, **settings)


@pytest.mark.parametrize(
    ("template", "opens"),
    [("Go <think>", True), ("Go <think>\n", True), ("Go <think> </think>", False), ("Go", False)],
)
def test_a_prompt_that_ends_inside_the_reasoning_is_known(template, opens):
    (prompt,) = write_prompts(with_template(template), [MATH], PromptConfig())
    assert prompt.opens_thinking is opens
