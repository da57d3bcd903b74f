"""Nested values with tensors, as JSON plus a flat dictionary of tensors, and back. Nothing is pickled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor


def packed(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """``tree`` (dicts, lists, tuples, tensors, numbers, strings, None) as JSON; its tensors are added to ``tensors``.

    Keys may be strings or integers, and keep their type.
    """
    if isinstance(tree, Tensor):
        name = f"tensor {len(tensors)}"
        tensors[name] = tree
        return {"tensor": name}
    if isinstance(tree, Mapping):
        return {"dict": [[key, packed(value, tensors)] for key, value in tree.items()]}
    if isinstance(tree, list):
        return {"list": [packed(value, tensors) for value in tree]}
    if isinstance(tree, tuple):
        return {"tuple": [packed(value, tensors) for value in tree]}
    if isinstance(tree, float) and not math.isfinite(tree):
        return {"number": repr(tree)}
    if tree is None or isinstance(tree, bool | int | float | str):
        return {"plain": tree}
    raise TypeError(f"{type(tree).__name__} cannot be kept in a checkpoint")


def unpacked(known: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of :func:`packed`."""
    ((kind, value),) = known.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: unpacked(item, tensors) for key, item in value}
    if kind == "list":
        return [unpacked(item, tensors) for item in value]
    if kind == "tuple":
        return tuple(unpacked(item, tensors) for item in value)
    if kind == "number":
        return float(value)
    if kind == "plain":
        return value
    raise ValueError(f"a value of kind {kind!r}")
