"""States come back as they were: types, bits and all, through JSON and safetensors alone."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.checkpoints.codec import decode, encode

numbers = st.integers() | st.floats(allow_nan=False) | st.booleans()
leaves = st.none() | numbers | st.text(max_size=5) | st.binary(max_size=5)
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
)


def through_files(state):
    tree, tensors = encode(state)
    return decode(json.loads(json.dumps(tree, allow_nan=False)), tensors)


def same_types(left, right) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return all(same_types(*pair) for pair in zip(left.values(), right.values(), strict=True))
    if isinstance(left, (list, tuple)):
        return all(same_types(*pair) for pair in zip(left, right, strict=True))
    return True


@given(states)
def test_every_nested_state_comes_back(state):
    got = through_files(state)
    assert got == state
    assert same_types(got, state)


def test_what_json_has_no_word_for_comes_back():
    got = through_files(
        {"nan": math.nan, "down": -math.inf, "zero": -0.0, "~": "a tag", "big": 2**200, "small": 5e-324}
    )
    assert math.isnan(got["nan"]) and got["down"] == -math.inf and math.copysign(1, got["zero"]) == -1
    assert (got["~"], got["big"], got["small"]) == ("a tag", 2**200, 5e-324)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "uint32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_arrays_come_back_bit_for_bit(dtype):
    rng = np.random.default_rng(0)
    array = np.frombuffer(rng.bytes(48), dtype="uint8" if dtype == "bool" else dtype).reshape(2, -1)
    array = (array > 99) if dtype == "bool" else array
    state = {
        "a": array,
        "part": array[:, ::2],
        "empty": array[:0],
        "scalar": array[0, 0],
        "point": np.array(array[0, 1]),
    }
    got = through_files(state)
    for name, value in state.items():
        assert type(got[name]) is type(value) and got[name].dtype == value.dtype and got[name].shape == value.shape
        assert got[name].tobytes() == value.tobytes()


def test_an_optimizer_goes_on_bit_for_bit():
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def take_step(model, optimizer, i):
        optimizer.zero_grad()
        model(torch.full((1, 3), 0.1 * i)).square().sum().backward()
        optimizer.step()

    model, optimizer = make()
    for i in range(3):
        take_step(model, optimizer, i)
    weights, state = through_files(dict(model.state_dict())), through_files(optimizer.state_dict())
    again, resumed = make()
    again.load_state_dict(weights)
    resumed.load_state_dict(state)
    for i in range(3, 6):
        take_step(model, optimizer, i)
        take_step(again, resumed, i)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_tensors_keep_types_that_numpy_lacks():
    state = [torch.tensor([1.5, -2.25], dtype=torch.bfloat16), torch.get_rng_state()]
    got = through_files(state)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(state, got, strict=True))


def test_names_that_run_into_each_other_stay_apart():
    state = {"a.b": np.array([1]), "a": {"b": np.array([2])}}
    got = through_files(state)
    assert (got["a.b"].tolist(), got["a"]["b"].tolist()) == ([1], [2])


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array(["text"]), np.array([None]), 1j])
def test_what_cannot_be_encoded_is_refused_by_name(value):
    with pytest.raises(TypeError, match=r"state\.outer\.0: a \w+ cannot be part of a checkpoint"):
        encode({"outer": [value]})
