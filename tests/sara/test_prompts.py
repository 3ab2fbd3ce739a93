from __future__ import annotations

import pytest
from tokenizers import processors

from sara.builtin.tokenizer import build_tokenizer
from sara.datasets.countdown import countdown_problem
from sara.models import Reader
from sara.prompts import encode_prompts

PROBLEMS = [countdown_problem([3, 5, 7], 22), countdown_problem([44, 19], 63)]
CHAT = (
    "{% for message in messages %}answer = {{ message['content'] }} ;{% endfor %}"
    "{% if add_generation_prompt %} step{% endif %}"
)


def test_without_a_chat_template_a_prompt_is_the_problems_text(tokenizer):
    encoded = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)
    for ids, problem in zip(encoded, PROBLEMS, strict=True):
        assert isinstance(ids, tuple)
        # Words and signs stand apart in a decoded text: compare without the spaces.
        assert tokenizer.decode(ids).replace(" ", "") == problem.text.replace(" ", "")


def test_a_chat_template_frames_the_text_as_one_user_message_that_awaits_an_answer():
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT
    (ids, _) = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)
    assert tokenizer.decode(ids).replace(" ", "") == f"answer={PROBLEMS[0].text};step".replace(" ", "")


def test_special_tokens_are_added_once_with_and_without_a_template():
    tokenizer = build_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", tokenizer.eos_token_id)]
    )
    plain = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0]
    assert plain[0] == tokenizer.eos_token_id and plain.count(tokenizer.eos_token_id) == 1
    tokenizer.chat_template = "<eos> " + CHAT  # as many templates do, it writes the first token itself
    chat = encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0]
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
    assert encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)[0][0] == tokenizer.eos_token_id
    tokenizer.unk_token = None
    assert len(encode_prompts(Reader(tokenizer, 512), PROBLEMS, 100)) == 2
