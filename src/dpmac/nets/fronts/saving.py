"""Fronts on disk: one safetensors file of plain arguments and tensors. Nothing is ever executed from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.nets.fronts.base import Front

FORMAT = "dpmac-front-1"


def save_front(front: Front, path: str | Path) -> None:
    """Write a front to ``path``."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "front": _packed(front, "front", tensors)}
    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    kept = kept or {"nothing": torch.zeros(0)}  # a file of no tensors has no header either
    save_file(kept, str(path), metadata={"dpmac": json.dumps(header)})


def load_front(path: str | Path) -> Front:
    """Read what :func:`save_front` wrote."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as handle:
        header = json.loads((handle.metadata() or {}).get("dpmac", "{}"))
        if header.get("format") != FORMAT:
            raise ValueError(f"{path} is not a dpmac front (no {FORMAT} header): it was not written by save_front()")
        tensors: dict[str, Tensor] = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    return _unpacked(header["front"], tensors, path)


def _packed(front: Front, where: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The front in plain values; its tensors go into ``tensors`` and are named in their places."""
    arguments: dict[str, Any] = {}
    for name, value in front.arguments().items():
        place = f"{where}.{name}"
        if isinstance(value, Tensor):
            tensors[place] = value
            arguments[name] = {"tensor": place}
        elif isinstance(value, tuple) and all(isinstance(item, Front) for item in value):
            arguments[name] = {"fronts": [_packed(item, f"{place}.{i}", tensors) for i, item in enumerate(value)]}
        else:
            arguments[name] = {"plain": value}
    return {"kind": front.kind, "arguments": arguments}


def _unpacked(packed: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Front:
    from dpmac.nets.fronts import FRONTS

    if packed["kind"] not in FRONTS:
        raise ValueError(f"{path} has a front of kind {packed['kind']!r}, which this version does not know")
    arguments = {name: _argument(value, tensors, path) for name, value in packed["arguments"].items()}
    return FRONTS[packed["kind"]](**arguments)


def _argument(value: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Any:
    if "plain" in value:
        return value["plain"]
    if "tensor" in value:
        return tensors[value["tensor"]]
    return tuple(_unpacked(item, tensors, path) for item in value["fronts"])
