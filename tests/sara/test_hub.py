"""Whether the hub can be reached: any answer is one, silence and offline mode are none."""

from __future__ import annotations

from email.message import Message
from types import SimpleNamespace
from urllib.error import HTTPError, URLError

import huggingface_hub.constants
import pytest

from sara import hub


@pytest.fixture(autouse=True)
def online(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


def answering(monkeypatch, answer):
    def urlopen(request, timeout):
        assert request.method == "HEAD" and timeout == 5.0
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(hub, "urlopen", urlopen)


@pytest.mark.parametrize(
    ("answer", "is_reachable"),
    [
        (SimpleNamespace(close=lambda: None), True),
        (HTTPError("url", 405, "no HEAD here", Message(), None), True),
        (URLError("no such host"), False),
        (TimeoutError(), False),
    ],
)
def test_any_answer_means_that_it_is_there(monkeypatch, answer, is_reachable):
    answering(monkeypatch, answer)
    assert hub.is_hub_reachable() is is_reachable


def test_offline_mode_asks_nobody(monkeypatch):
    answering(monkeypatch, AssertionError("asked"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert not hub.is_hub_reachable()
