"""The built-in model's word-level tokenizer: one token for each number 0..99 and each word of prompt and trace."""

from __future__ import annotations

import re

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sara.builtin.traces import GIVE_UP, HIT, MISS, STEP_SEPARATOR
from sara.datasets.countdown import Countdown

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
MAX_NUMBER = 99
_WORD = r"</?answer>|<pad>|<eos>|<unk>|[0-9]+|[A-Za-z]+|[^\s0-9A-Za-z]"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose words are split by type, so that `12` stays one token and `3,` becomes two."""
    vocabulary = {word: index for index, word in enumerate(_words())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
    )


def _words() -> list[str]:
    numbers = [str(number) for number in range(MAX_NUMBER + 1)]
    prompt_words = re.findall(_WORD, Countdown((0, 0), 0).text)
    trace_words = [*"+-*/()=", STEP_SEPARATOR, MISS, HIT, GIVE_UP, "<answer>", "</answer>"]
    return list(dict.fromkeys([PAD, EOS, UNKNOWN, *numbers, *trace_words, *prompt_words]))
