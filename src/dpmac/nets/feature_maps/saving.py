"""Feature maps on disk: one safetensors file of plain arguments and tensors. Nothing is ever executed from a file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.nets.feature_maps.base import FeatureMap
from dpmac.nets.files import read_tensors, rebuilding, write_tensors

FORMAT = "dpmac-front-1"  # what version 0.2 called a feature map: its files are read for ever
_OLD_ARGUMENTS = {"fronts": "feature_maps"}
# kinds of packages above this one, which list themselves when they are imported
ELSEWHERE = {"table": "dpmac.tables"}


def save_feature_map(feature_map: FeatureMap, path: str | Path) -> None:
    """Write a feature map to ``path``."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "front": packed_feature_map(feature_map, "front", tensors)}
    write_tensors(path, header, tensors)


def load_feature_map(path: str | Path) -> FeatureMap:
    """Read what :func:`save_feature_map` wrote."""
    header, tensors = read_tensors(path, FORMAT, "a dpmac feature map")
    with rebuilding(path, "feature map"):
        return unpacked_feature_map(header["front"], tensors, path)


def packed_feature_map(feature_map: FeatureMap, where: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The feature map in plain values; its tensors go into ``tensors`` and are named in their places."""
    arguments: dict[str, Any] = {}
    for name, value in feature_map.arguments().items():
        place = f"{where}.{name}"
        if isinstance(value, Tensor):
            tensors[place] = value
            arguments[name] = {"tensor": place}
        elif isinstance(value, tuple) and all(isinstance(item, FeatureMap) for item in value):
            arguments[name] = {
                "fronts": [packed_feature_map(item, f"{place}.{i}", tensors) for i, item in enumerate(value)]
            }
        else:
            arguments[name] = {"plain": value}
    found = {"kind": feature_map.kind, "arguments": arguments}
    if feature_map.origin != PUBLIC:
        found["origin"] = feature_map.origin.to_dict()
    return found


def unpacked_feature_map(packed: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> FeatureMap:
    """What :func:`packed_feature_map` was given."""
    from dpmac.nets.feature_maps import FEATURE_MAPS

    if packed["kind"] in ELSEWHERE:
        import_module(ELSEWHERE[packed["kind"]])
    if packed["kind"] not in FEATURE_MAPS:
        raise ValueError(f"{path} has a feature map of kind {packed['kind']!r}, which this version does not know")
    given = {_OLD_ARGUMENTS.get(name, name): value for name, value in packed["arguments"].items()}
    arguments = {name: _argument(value, tensors, path) for name, value in given.items()}
    feature_map = FEATURE_MAPS[packed["kind"]](**arguments)
    feature_map.origin = Origin.merged(feature_map.origin, Origin.from_dict(packed.get("origin")))
    return feature_map


def _argument(value: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Any:
    if "plain" in value:
        return value["plain"]
    if "tensor" in value:
        return tensors[value["tensor"]]
    return tuple(unpacked_feature_map(item, tensors, path) for item in value["fronts"])
