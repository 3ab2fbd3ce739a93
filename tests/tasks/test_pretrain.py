"""Making the built-in model: what is written loads again, and the card says what was made and measured."""

from __future__ import annotations

import hashlib

from sara.builtin import WEIGHTS_DIR
from sara.builtin.pretraining import PretrainingRecipe
from sara.config import ModelConfig
from sara.models import load_policy
from tasks import pretrain


def test_a_made_model_loads_and_its_card_states_hash_command_and_measured_rates(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "HELDOUT_PROBLEMS", {2: 4, 3: 5})
    recipe = PretrainingRecipe(batches=2, batch_size=8, width=16, layers=1, heads=2, feed_forward=32, seed=5)
    folder = pretrain.make_builtin_model(tmp_path / "model", recipe)
    policy = load_policy(ModelConfig(path=str(folder), device="cpu"))
    assert policy.model.config.hidden_size == 16
    assert policy.context == recipe.context
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() in card
    assert "sara pretrain --batches 2 --seed 5" in card
    rows = [line.split("|")[1:3] for line in card.splitlines() if line.startswith(("| 2 |", "| 3 |"))]
    assert [[cell.strip() for cell in row] for row in rows] == [["2", "4"], ["3", "5"]]


def test_the_shipped_weights_are_those_of_their_card_and_small():
    weights = WEIGHTS_DIR / "model.safetensors"
    assert weights.stat().st_size <= 4_000_000
    assert hashlib.sha256(weights.read_bytes()).hexdigest() in (WEIGHTS_DIR / "README.md").read_text(encoding="utf-8")
