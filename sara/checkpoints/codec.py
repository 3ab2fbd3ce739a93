"""Nested states as JSON and tensors, and back: exact to the bit, and no code in them.

Owns the encoding. What a state holds is its owner's; files are the store's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_TAG = "~"  # marks what JSON has no word for: {"~": "tuple", "items": [...]}


def encode(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """A tree of JSON values, and the tensors and arrays that it names, on the CPU.

    state   dicts, lists, tuples, None, booleans, numbers of any size, text, bytes, numpy arrays and scalars, tensors
    Raises TypeError for anything else.
    """
    tensors: dict[str, Tensor] = {}
    return _encode(state, "state", tensors), tensors


def decode(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state that `encode` was given."""
    if isinstance(tree, list):
        return [decode(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if _TAG not in tree:
        return {key: decode(value, tensors) for key, value in tree.items()}
    kind = tree[_TAG]
    if kind == "float":
        return float(tree["value"])
    if kind == "bytes":
        return bytes.fromhex(tree["hex"])
    if kind == "tuple":
        return tuple(decode(item, tensors) for item in tree["items"])
    if kind == "dict":
        return {decode(key, tensors): decode(value, tensors) for key, value in tree["items"]}
    tensor = tensors[tree["name"]].clone()  # memory of its own, aligned as torch aligns it
    if kind == "tensor":
        return tensor
    array = tensor.numpy()
    return array if kind == "array" else array[()]


def _encode(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if isinstance(value, bytes):
        return {_TAG: "bytes", "hex": value.hex()}
    if isinstance(value, Mapping):
        return _encode_mapping(value, name, tensors)
    if isinstance(value, (list, tuple)):
        items = [_encode(item, f"{name}.{i}", tensors) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {_TAG: "tuple", "items": items}
    if isinstance(value, Tensor):
        return {_TAG: "tensor", "name": _keep(value, name, tensors)}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {_TAG: kind, "name": _keep(torch.from_numpy(np.array(value, order="C")), name, tensors)}
    raise TypeError(f"{name}: a {type(value).__name__} cannot be part of a checkpoint")


def _encode_mapping(value: Mapping, name: str, tensors: dict[str, Tensor]) -> Any:
    items = [(key, _encode(item, f"{name}.{key}", tensors)) for key, item in value.items()]
    if all(type(key) is str for key in value) and _TAG not in value:
        return dict(items)
    return {_TAG: "dict", "items": [[_encode(key, name, tensors), item] for key, item in items]}


def _keep(tensor: Tensor, name: str, tensors: dict[str, Tensor]) -> str:
    while name in tensors:  # keys that hold dots may run into each other
        name += "'"
    tensors[name] = tensor.detach().cpu().contiguous().clone()
    return name
