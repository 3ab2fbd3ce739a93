"""A Prefect server that is not there: one line within seconds, before anything is written."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import cli
from flows.server import check_server

ROOT = Path(__file__).resolve().parents[2]


def run_cli(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sara", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


COMMANDS = [["train"], ["compare"], ["sweep"], ["sweep", "executor=workpool"], ["reproduce", "scale=small"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_cannot_be_reached_is_one_line(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert run_cli(monkeypatch, *command) == 2
    out, err = capsys.readouterr()
    assert "PREFECT_API_URL = http://127.0.0.1:9/api: no Prefect server answers there" in err
    assert "start one with `sara up`" in err
    assert (err.count("\n"), out, list(tmp_path.iterdir())) == (1, "", [])


@pytest.mark.parametrize("executor", ["workpool", "ray"])
def test_an_executor_that_needs_a_server_says_how_to_start_one(monkeypatch, capsys, tmp_path, executor):
    from flows.executors import EXECUTORS
    from sara.sweeps import Execution

    if executor == "ray":
        pytest.importorskip("prefect_ray", reason="the extra `ray` is not installed")
    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(ValueError, match="`sara up`") as caught:
        EXECUTORS[executor](Execution()).check()
    assert f"executor = '{executor}' needs a Prefect server" in str(caught.value)


@pytest.mark.parametrize("command", ["sweep", "reproduce"])
def test_the_command_says_so_before_it_starts_anything(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.commands.interruption.start_temporary_server", lambda: pytest.fail("one was started"))
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert run_cli(monkeypatch, command, "executor=workpool") == 2
    assert "executor = 'workpool' needs a Prefect server; start one with `sara up`" in capsys.readouterr().err


def test_something_else_that_answers_is_no_prefect_server(tmp_path):
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(ValueError, match="is no Prefect server"):
            check_server(f"http://127.0.0.1:{server.server_port}/api")


def test_no_task_uses_prefects_cache():
    """`INPUTS` would let tasks with equal inputs return each other's results: every task says NO_CACHE."""
    found = 0
    for path in [*(ROOT / "tasks").glob("*.py"), *(ROOT / "flows").rglob("*.py")]:
        functions = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if hasattr(node, "decorator_list")
        ]
        for decorator in (decorator for function in functions for decorator in function.decorator_list):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "task":
                policies = [keyword.value.id for keyword in decorator.keywords if keyword.arg == "cache_policy"]
                assert policies == ["NO_CACHE"], path
                found += 1
    assert found >= 5
