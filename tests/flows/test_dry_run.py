"""`--dry-run`: the presets are the paper's, everything is checked, and nothing is loaded or written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from flows import cli
from sara.config import CompareConfig, RunConfig
from sara.config_file import load_config
from sara.sizing import outline
from sara.sizing.memory import memory_items
from sara.sizing.shapes import find_shape

ROOT = Path(__file__).parents[2]
MATH, COUNTDOWN = (ROOT / "configs" / f"{name}.toml" for name in ("math-r1-distill-1.5b", "countdown-qwen2.5-3b"))
MADE = ["data.train=countdown", "data.heldout=countdown"]


@pytest.fixture(autouse=True)
def hub_out_of_reach(monkeypatch):
    """The same on every machine; what is read from a hub is tested at its boundary."""
    monkeypatch.setattr("sara.sizing.outlines.is_hub_reachable", lambda: False)


def run_cli(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["sara", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return (caught.value.code, *capsys.readouterr())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            MATH,
            {
                "data.train": "math",
                "data.heldout": "aime24",
                "selection.decay": 0.7,
                "selection.candidate_ratio": 32,
                "learner.updates_per_step": 256 // 128,
                "prompt.max_tokens": 1024,
                "engine.max_new_tokens": 8192,
                "evaluation.max_new_tokens": 8192,
                "training.steps": 360,
            },
        ),
        (
            COUNTDOWN,
            {
                "data.train": "countdown34",
                "data.sizes": {3: 0.5, 4: 0.5},
                "data.number_range": (1, 99),
                "data.target_range": (10, 100),
                "selection.decay": 0.5,
                "selection.candidate_ratio": 8,
                "learner.updates_per_step": 256 // 64,
                "prompt.max_tokens": 256,
                "engine.max_new_tokens": 1024,
                "evaluation.max_new_tokens": 1024,
                "training.steps": 120,
            },
        ),
    ],
    ids=["math", "countdown"],
)
def test_the_presets_have_the_papers_values(path, expected):
    config = load_config(CompareConfig, path)
    common = {
        "allocation.groups_per_step": 256,
        "allocation.k": 8,
        "learner.learning_rate": 1e-6,
        "learner.weight_decay": 0.1,
        "learner.max_grad_norm": 1.0,
        "learner.clip_low": 0.2,
        "learner.clip_high": 0.28,
        "learner.dual_clip": 10.0,
        "learner.entropy_coef": 0.001,
        "learner.kl_coef": 0.0,
        "learner.loss_mean": "token",
        "engine.temperature": 1.0,
        "evaluation.k": 16,
        "evaluation.temperature": 0.6,
    }
    for key, value in (common | expected).items():
        section, name = key.split(".")
        assert getattr(getattr(config, section), name) == value, key


def test_a_preset_is_outlined_without_its_weights_or_a_hub(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_cli(monkeypatch, capsys, "compare", "--config", str(MATH), "--dry-run")
    assert code == 0 and list(tmp_path.iterdir()) == []
    assert "1,777,088,000 parameters, context 131,072" in out
    assert "256 groups of 8; 2 updates a step of 128 groups (1,024 rollouts) each" in out
    assert "uniform seed 0: 2,048 rollouts a step, 737,280 in all" in out  # 256 * 8 * 360
    assert "sara+dps seed 0: 2,048 to 40,960 rollouts a step" in out
    assert "data.train = 'math': not read, the hub is out of reach; data.train_path names a file instead" in out


def test_the_same_figures_are_given_for_machines(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--config", str(COUNTDOWN), "--dry-run", "--json", "strategy=ds", *MADE]
    code, out, _ = run_cli(monkeypatch, capsys, *arguments)
    found = json.loads(out)
    assert code == 0 and list(tmp_path.iterdir()) == []
    assert found["problems"] == {"train": 10240, "heldout": 512}
    assert (found["updates_per_step"], found["groups_per_update"], found["rollouts_per_update"]) == (4, 64, 512)
    assert (found["steps"], found["updates"]) == (120, 480)
    assert found["evaluations"] == {"count": 6, "rollouts_each": 8192}
    count = 3_085_938_688
    memory = found["memory_bytes"]
    assert memory["weights"] == 2 * count and memory["optimizer"] == 8 * count
    assert memory["master weights"] == memory["gradients"] == 4 * count
    assert memory["engine's weights"] == 2 * count and memory["key-value cache"] == 12 * 2**30
    assert found["memory_total_bytes"] == sum(memory.values())


@pytest.mark.parametrize(
    ("settings", "weights_of", "width"),
    [("master_weights=true", 1, 4), ("master_weights=false", 1, 4), ("float32_states=false", 0, 2)],
)
def test_the_memory_of_masters_and_states_is_that_of_the_setting(settings, weights_of, width):
    overrides = [f"learner.{settings}", *(["learner.master_weights=false"] if width == 2 else [])]
    config = load_config(RunConfig, COUNTDOWN, overrides)
    shape = find_shape(config)
    sizes = {item.name: item.size for item in memory_items(config, shape, 256)}
    assert sizes.get("master weights", 0) == 4 * weights_of * shape.parameters
    assert sizes["gradients"] == width * shape.parameters and sizes["optimizer"] == 2 * width * shape.parameters


@pytest.mark.parametrize(
    ("gib", "overrides", "line"),
    [
        ("80", [], "fits, 10.5 GiB to spare"),
        ("40", [], "does not fit, 29.5 GiB too much"),
        ("74", ["engine.sleep_level=0"], "does not fit, 0.5 GiB too much"),  # learner and engine at once, 74.47 GiB
    ],
)
def test_an_outline_says_whether_each_phase_fits_the_gpu(monkeypatch, capsys, tmp_path, gib, overrides, line):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--config", str(COUNTDOWN), "--dry-run", "--gpu-memory", gib, *MADE, *overrides]
    code, out, _ = run_cli(monkeypatch, capsys, *arguments)
    assert code == 0 and line in out


def test_the_phases_of_a_step_hold_what_each_needs(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--config", str(COUNTDOWN), "--dry-run", "--json", "--gpu-memory", "80", *MADE]
    found = json.loads(run_cli(monkeypatch, capsys, *arguments)[1])
    memory, phases = found["memory_bytes"], found["memory_phase_bytes"]
    lasting = sum(memory[name] for name in ("weights", "master weights", "gradients", "optimizer"))
    assert phases["generating"] == lasting + memory["engine's weights"] + memory["key-value cache"]
    assert phases["learning"] == lasting + memory["logits"] + memory["activations"]
    assert found["gpu_memory_gib"] == 80


def test_a_cache_without_a_size_has_room_for_every_sequence(monkeypatch, capsys):
    arguments = ["train", "--config", str(COUNTDOWN), "--dry-run", "--json", *MADE, "engine.name=hf"]
    memory = json.loads(run_cli(monkeypatch, capsys, *arguments)[1])["memory_bytes"]
    # 2 (keys, values) * 2 bytes * 36 layers * 2 heads * 128 numbers for each token; 512 sequences of 256 + 1024
    assert memory["key-value cache"] == 2 * 2 * 36 * 2 * 128 * 512 * 1280
    assert "engine's weights" not in memory  # it samples from the learner's own


def test_several_runs_are_a_list_for_machines(monkeypatch, capsys):
    config = str(ROOT / "configs/demo.toml")
    code, out, _ = run_cli(monkeypatch, capsys, "compare", "--config", config, "--dry-run", "--json", "seeds=0,1")
    runs = json.loads(out)
    assert code == 0 and len(runs) == 10
    assert {run["strategy"] for run in runs} == {"uniform", "ds", "dps", "sara", "sara+dps"}
    assert all(run["notes"] == [] for run in runs)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["data.train_path=absent.jsonl"], "absent.jsonl: no such data file"),
        (["model.path=absent/model"], "model.path = 'absent/model'"),
        (
            ["engine.max_model_len=1200"],
            "engine.max_new_tokens = 1024 with prompts of up to 256 tokens; expected at most",
        ),
        (["engine.max_new_tokens=40000"], "engine.max_new_tokens = 40000 with prompts of up to 256 tokens"),
        (["evaluation.max_new_tokens=40000"], "evaluation.max_new_tokens = 40000 with prompts"),
        (["learner.micro_batch_tokens=1200"], "learner.micro_batch_tokens = 1200; expected at least 1280"),
        (["data.train_size=100"], "allocation.groups_per_step = 256; expected at most data.train_size = 100"),
    ],
)
def test_what_would_stop_the_run_stops_its_outline(monkeypatch, capsys, tmp_path, overrides, line):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--config", str(COUNTDOWN), "--dry-run", *MADE, *overrides]
    code, out, err = run_cli(monkeypatch, capsys, *arguments)
    assert code == 2 and out == ""
    assert line in err and err.count("\n") == 1


def test_an_outline_counts_what_a_run_of_the_built_in_model_does(small):
    """The same figures from the run itself: problems, rollouts, updates, evaluations."""
    found = outline(small.run("uniform", 0))
    assert found.problems == {"heldout": 12, "train": 64}
    assert found.rollouts == (16, 16)  # 4 groups of 4
    assert found.evaluations == (2, 24)  # after steps 1 and 2, 12 problems with 2 rollouts
    assert outline(small.run("ds", 0)).rollouts == (16, 64 * 4)  # the whole pool at most, below 20 chunks


def test_lora_trains_its_adapters_alone(small):
    pytest.importorskip("peft")
    run = small.run("uniform", 0)
    lora = run.model_copy(update={"learner": run.learner.model_copy(update={"lora_rank": 4})})
    full, adapted = outline(run).shape, outline(lora).shape
    assert full.trained == full.parameters == adapted.parameters
    assert 0 < adapted.trained < full.trained / 4
