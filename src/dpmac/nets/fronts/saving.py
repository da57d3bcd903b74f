"""Fronts on disk: one safetensors file of plain arguments and tensors. Nothing is ever executed from a file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.nets.files import read_tensors, rebuilding, write_tensors
from dpmac.nets.fronts.base import Front

FORMAT = "dpmac-front-1"
ELSEWHERE = {"table": "dpmac.tables"}  # fronts that live in a room above; they list themselves when it is imported


def save_front(front: Front, path: str | Path) -> None:
    """Write a front to ``path``."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "front": packed_front(front, "front", tensors)}
    write_tensors(path, header, tensors)


def load_front(path: str | Path) -> Front:
    """Read what :func:`save_front` wrote."""
    header, tensors = read_tensors(path, FORMAT, "a dpmac front")
    with rebuilding(path, "front"):
        return unpacked_front(header["front"], tensors, path)


def packed_front(front: Front, where: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The front in plain values; its tensors go into ``tensors`` and are named in their places."""
    arguments: dict[str, Any] = {}
    for name, value in front.arguments().items():
        place = f"{where}.{name}"
        if isinstance(value, Tensor):
            tensors[place] = value
            arguments[name] = {"tensor": place}
        elif isinstance(value, tuple) and all(isinstance(item, Front) for item in value):
            arguments[name] = {"fronts": [packed_front(item, f"{place}.{i}", tensors) for i, item in enumerate(value)]}
        else:
            arguments[name] = {"plain": value}
    origin = {"origin": front.origin.to_dict()} if front.origin != PUBLIC else {}
    return {"kind": front.kind, "arguments": arguments, **origin}


def unpacked_front(packed: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Front:
    """What :func:`packed_front` was given."""
    from dpmac.nets.fronts import FRONTS

    if packed["kind"] in ELSEWHERE:
        import_module(ELSEWHERE[packed["kind"]])
    if packed["kind"] not in FRONTS:
        raise ValueError(f"{path} has a front of kind {packed['kind']!r}, which this version does not know")
    arguments = {name: _argument(value, tensors, path) for name, value in packed["arguments"].items()}
    front = FRONTS[packed["kind"]](**arguments)
    front.origin = Origin.together(front.origin, Origin.from_dict(packed.get("origin")))
    return front


def _argument(value: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Any:
    if "plain" in value:
        return value["plain"]
    if "tensor" in value:
        return tensors[value["tensor"]]
    return tuple(unpacked_front(item, tensors, path) for item in value["fronts"])
