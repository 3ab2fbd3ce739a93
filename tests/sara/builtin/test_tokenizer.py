from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from sara.builtin.tokenizer import build_tokenizer
from sara.builtin.traces import TraceRecipe, draw_trace
from sara.datasets.countdown import Countdown, generate_countdown


@pytest.fixture(scope="module")
def reread(tmp_path_factory, make_policy):
    """The tokenizer as a run sees it: written beside a model's configuration and read back by its kind."""
    folder = tmp_path_factory.mktemp("model")
    policy = make_policy()
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(params=["built", "reread"])
def either(request, tokenizer, reread):
    return tokenizer if request.param == "built" else reread


def words() -> list[str]:
    rng = random.Random(0)
    recipe = TraceRecipe(sizes={2: 1, 3: 1, 4: 1, 5: 1}, hit_rate=0.5)
    texts = [text for _ in range(100) for text in draw_trace(rng, recipe)]
    generated = generate_countdown(100, 0, "heldout", {3: 1, 4: 1}, (1, 99), (1, 99), 99)
    return texts + [problem.text for problem in generated]


def test_every_number_up_to_99_is_one_token_of_its_own(either):
    ids = [either(str(number))["input_ids"] for number in range(100)]
    assert all(len(one) == 1 for one in ids)
    assert len({one[0] for one in ids}) == 100
    assert [either.decode(one) for one in ids] == [str(number) for number in range(100)]


def test_ids_to_text_to_ids_is_the_identity_on_prompts_and_traces(either):
    for text in words():
        ids = either(text)["input_ids"]
        assert either.unk_token_id not in ids, text
        assert either(either.decode(ids))["input_ids"] == ids, text


def test_text_to_ids_to_text_is_the_identity_on_traces(either):
    rng = random.Random(1)
    for _ in range(100):
        _, response = draw_trace(rng, TraceRecipe(sizes={2: 1, 4: 1}))
        assert either.decode(either(response)["input_ids"]) == response


@given(st.lists(st.integers(0, 131), min_size=1, max_size=40))
def test_ids_to_text_to_ids_is_the_identity_on_whatever_a_model_may_sample(ids):
    tokenizer = build_tokenizer()
    assert len(tokenizer) == 132
    assert tokenizer(tokenizer.decode(ids))["input_ids"] == ids


def test_the_reread_tokenizer_is_the_built_one(tokenizer, reread):
    assert reread.get_vocab() == tokenizer.get_vocab()
    assert (reread.pad_token, reread.eos_token, reread.unk_token) == ("<pad>", "<eos>", "<unk>")
    assert (reread.pad_token_id, reread.eos_token_id, reread.unk_token_id) == (0, 1, 2)
    assert reread.bos_token is None
    for text in words():
        assert reread(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_words_are_split_by_kind_not_by_space(either):
    assert either("12+3")["input_ids"] == either("12 + 3")["input_ids"]
    assert either("(12)")["input_ids"] == either("( 12 )")["input_ids"]
    assert either("make 12.")["input_ids"] == either("make 12 .")["input_ids"]
    assert either("1 2")["input_ids"] != either("12")["input_ids"]
    assert either("<answer>none</answer>")["input_ids"] == either("<answer> none </answer>")["input_ids"]


def test_what_the_vocabulary_lacks_is_unknown_never_something_else(either):
    for unknown in ("100", "012", "hello", "Answer", "٣", "×"):
        assert either(unknown)["input_ids"] == [either.unk_token_id] * len(either(unknown)["input_ids"]), unknown
        assert len(either(unknown)["input_ids"]) >= 1


def test_special_tokens_vanish_from_a_decoded_answer(either):
    ids = either("<answer> 3 + 5 </answer>")["input_ids"]
    shown = either.decode([*ids, either.eos_token_id, either.pad_token_id], skip_special_tokens=True)
    assert shown == "<answer> 3 + 5 </answer>"


def test_a_prompt_is_encoded_without_added_tokens(either):
    text = Countdown((3, 5), 8).text
    assert either(text)["input_ids"] == either(text, add_special_tokens=False)["input_ids"]
    assert either(text)["input_ids"][0] == either("Use")["input_ids"][0]
