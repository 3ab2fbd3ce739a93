from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from sara.config import ModelConfig
from sara.models import load_policy, load_reader, save_policy, structure_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory, make_policy):
    """A policy and the folder it was saved into."""
    policy = make_policy()
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_policy(policy, folder)
    return policy, folder


@pytest.fixture
def copied(saved, tmp_path):
    """A folder of the same content, to be damaged."""
    return shutil.copytree(saved[1], tmp_path / "damaged")


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([[11, 3, 116, 5, 90]])).logits


def config(path, **settings) -> ModelConfig:
    return ModelConfig(path=str(path), **({"device": "cpu"} | settings))


def test_a_saved_policy_reads_back_with_equal_logits_tokenizer_and_context(saved):
    policy, folder = saved
    read = load_policy(config(folder))
    assert torch.equal(logits(read.model), logits(policy.model))
    assert read.tokenizer.get_vocab() == policy.tokenizer.get_vocab()
    assert read.context == policy.context == 512
    assert read.end_token_ids == policy.end_token_ids == (policy.tokenizer.eos_token_id,)
    assert not read.model.training
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * 4 + [".safetensors"]


def test_weights_are_held_in_the_configured_type(saved):
    policy, folder = saved
    assert load_policy(config(folder)).model.dtype == torch.float32
    half = load_policy(config(folder, dtype="bfloat16")).model
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(logits(half).float(), logits(policy.model), atol=0.1, rtol=0.05)


def test_a_policy_saved_over_another_replaces_it(saved, tmp_path, make_policy):
    save_policy(saved[0], tmp_path)
    other = make_policy(seed=1)
    save_policy(other, tmp_path)
    assert torch.equal(logits(load_policy(config(tmp_path)).model), logits(other.model))


def test_end_token_ids_are_those_of_the_generation_settings_and_the_tokenizer(saved, tmp_path):
    policy, _ = saved
    original = policy.model.generation_config.eos_token_id
    for declared, expected in (([7, 9], (1, 7, 9)), (7, (1, 7)), (None, (1,)), ([1], (1,))):
        policy.model.generation_config.eos_token_id = declared
        save_policy(policy, tmp_path)
        assert load_policy(config(tmp_path)).end_token_ids == expected
    policy.model.generation_config.eos_token_id = original


def test_a_reader_is_a_policy_without_its_weights(saved, copied):
    (copied / "model.safetensors").unlink()
    reader = load_reader(config(copied))
    assert reader.context == 512
    assert reader.tokenizer("12 + 3")["input_ids"] == saved[0].tokenizer("12 + 3")["input_ids"]


@pytest.mark.parametrize("load", [load_policy, load_reader])
@pytest.mark.parametrize("name", ["nowhere", "nowhere/at/all", "a b c//"])
def test_a_path_that_is_nothing_is_refused_in_one_line(tmp_path, load, name):
    with pytest.raises(
        ValueError, match=r"model\.path = '.*'; expected 'builtin', a model's folder, or a name"
    ) as error:
        load(config(tmp_path / name))
    assert len(str(error.value).splitlines()) == 1


DAMAGE = {
    "empty": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "cut configuration": lambda folder: (folder / "config.json").write_text('{"model_type": "ll'),
    "list as configuration": lambda folder: (folder / "config.json").write_text("[]"),
    "unknown kind": lambda folder: (folder / "config.json").write_text('{"model_type": "martian"}'),
    "no tokenizer": lambda folder: [path.unlink() for path in folder.glob("tokenizer*")],
    "cut tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "cut weights": lambda folder: (folder / "model.safetensors").write_bytes(
        (folder / "model.safetensors").read_bytes()[:2000]
    ),
    "empty weights": lambda folder: (folder / "model.safetensors").write_bytes(b""),
    "weights of another shape": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"hidden_size": 32', '"hidden_size": 64')
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(copied, damage):
    DAMAGE[damage](copied)
    with pytest.raises(ValueError, match=r"model\.path = '.*damaged'; the folder holds no model") as error:
        load_policy(config(copied))
    assert len(str(error.value).splitlines()) == 1


def test_a_model_that_lacks_weights_is_refused_not_filled_with_random_ones(copied):
    weights = load_file(copied / "model.safetensors")
    del weights["model.norm.weight"], weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 2 weights: model\.layers\.1\.mlp\.up_proj\.weight"):
        load_policy(config(copied))


@pytest.mark.parametrize("load", [load_policy, load_reader])
def test_why_a_folder_holds_no_model_is_said_to_the_end(tmp_path, copied, load):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match=r"Should have a `model_type` key in its config.json"):
        load(config(tmp_path / "nothing"))
    DAMAGE["no tokenizer"](copied)
    with pytest.raises(ValueError, match=r"backend tokenizer from one of: \(1\) a `tokenizers` library") as error:
        load(config(copied))
    assert len(str(error.value).splitlines()) == 1


def test_the_structure_of_a_model_is_the_model_without_its_numbers(saved):
    structure = structure_of(config(saved[1]))
    expected = {name: weight.shape for name, weight in saved[0].model.named_parameters()}
    assert {name: weight.shape for name, weight in structure.named_parameters()} == expected
    assert all(weight.device.type == "meta" for weight in structure.parameters())


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "", "meta"])
def test_a_device_that_the_machine_lacks_is_refused_in_one_line(saved, device):
    with pytest.raises(ValueError, match=r"model\.device = .*; expected 'auto', 'cpu', or a GPU") as error:
        load_policy(config(saved[1], device=device))
    assert len(str(error.value).splitlines()) == 1


def test_auto_is_a_gpu_where_there_is_one(saved):
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert load_policy(config(saved[1], device="auto")).model.device.type == expected
