"""Feature maps on disk: one safetensors file of plain arguments and tensors. Nothing is ever executed from a file.

Of a torch module in a feature map the file has the weights and the name of its class; whoever loads it hands in a
module of that class.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import PUBLIC, Origin, mark, origin_of
from dpmac.limits import STACK
from dpmac.nets.feature_maps.base import FeatureMap
from dpmac.nets.files import read_tensors, rebuilding, write_tensors

MADE = 2**26  # numbers of a file's feature maps that follow from others
FORMAT = "dpmac-front-1"  # what version 0.2 called a feature map: its files are read for ever
_OLD_ARGUMENTS = {"fronts": "feature_maps"}
# kinds of packages above this one, which list themselves when they are imported
ELSEWHERE = {
    **{"table": "dpmac.tables", "terms": "dpmac.tables", "frozen": "dpmac.modules"},
    **{"scattering": "dpmac.pictures", "drawn-encoder": "dpmac.pictures"},
}


def save_feature_map(feature_map: FeatureMap, path: str | Path) -> None:
    """Write a feature map to ``path``."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "front": packed_feature_map(feature_map, "front", tensors)}
    write_tensors(path, header, tensors)


def load_feature_map(path: str | Path, modules: Sequence[nn.Module] = ()) -> FeatureMap:
    """Read what :func:`save_feature_map` wrote.

    ``modules`` are needed for a :class:`~dpmac.modules.FrozenModule`: a module of the class that the file names, whose
    weights are replaced in a copy; several in the order of a chain.
    """
    header, tensors = read_tensors(path, FORMAT, "a dpmac feature map")
    with rebuilding(path, "feature map"):
        return unpacked_feature_map(header["front"], tensors, path, list(modules))


def modules_in(path: str | Path) -> list[str]:
    """The class names of the torch modules whose weights are in the file, in the order of a chain."""
    header, _ = read_tensors(path, FORMAT, "a dpmac feature map")
    with rebuilding(path, "feature map"):
        return _module_names(header["front"])


def _module_names(packed: dict[str, Any]) -> list[str]:
    found = list[str]()
    for value in packed["arguments"].values():
        if "module" in value:
            found.append(str(value["module"]))
        for inner in value.get("fronts", ()):
            found += _module_names(inner)
    return found


def packed_feature_map(feature_map: FeatureMap, where: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The feature map in plain values; its tensors go into ``tensors`` and are named in their places."""
    arguments: dict[str, Any] = {}
    for name, value in feature_map.arguments().items():
        place = f"{where}.{name}"
        if isinstance(value, Tensor):
            tensors[place] = value
            arguments[name] = {"tensor": place}
        elif isinstance(value, nn.Module):
            arguments[name] = _packed_module(value, place, tensors)
        elif isinstance(value, tuple) and all(isinstance(item, FeatureMap) for item in value):
            arguments[name] = {
                "fronts": [packed_feature_map(item, f"{place}.{i}", tensors) for i, item in enumerate(value)]
            }
        else:
            arguments[name] = {"plain": value}
    found = {"kind": feature_map.kind, "arguments": arguments}
    known = origin_of(feature_map, name="feature_map")  # and of all that it holds
    if known != PUBLIC:
        found["origin"] = known.to_dict()
    return found


def unpacked_feature_map(
    packed: dict[str, Any], tensors: dict[str, Tensor], path: str | Path, modules: list[nn.Module]
) -> FeatureMap:
    """What :func:`packed_feature_map` was given. ``modules`` are taken from the front of the list."""
    from dpmac.nets.feature_maps import FEATURE_MAPS

    if packed["kind"] in ELSEWHERE:
        import_module(ELSEWHERE[packed["kind"]])
    if packed["kind"] not in FEATURE_MAPS:
        raise ValueError(f"{path} has a feature map of kind {packed['kind']!r}, which this version does not know")
    given = {_OLD_ARGUMENTS.get(name, name): value for name, value in packed["arguments"].items()}
    arguments = {name: _argument(value, tensors, path, modules) for name, value in given.items()}
    feature_map = FEATURE_MAPS[packed["kind"]](**arguments)
    feature_map.origin = Origin.merged(feature_map.origin, Origin.from_dict(packed.get("origin")))
    return feature_map


def _packed_module(module: nn.Module, place: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    weights = module.state_dict()
    tensors |= {f"{place}.{name}": tensor for name, tensor in weights.items()}
    found = {"module": type(module).__name__, "weights": {name: f"{place}.{name}" for name in weights}}
    known = origin_of(module, name="module")
    if known != PUBLIC:
        found["origin"] = known.to_dict()
    return found


def _argument(value: dict[str, Any], tensors: dict[str, Tensor], path: str | Path, modules: list[nn.Module]) -> Any:
    if "plain" in value:
        return value["plain"]
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "module" in value:
        return _with_weights(value, tensors, path, modules)
    return _several(value["fronts"], tensors, path, modules)


def _several(
    packed: Sequence[dict[str, Any]], tensors: dict[str, Tensor], path: str | Path, modules: list[nn.Module]
) -> tuple[FeatureMap, ...]:
    """The feature maps of a chain. Some follow from a few plain numbers, so what they hold is counted meanwhile."""
    if len(packed) > STACK:
        raise ValueError(f"a chain of {len(packed):,} feature maps, and {STACK:,} are the most")
    most, made = MADE + sum(tensor.numel() for tensor in tensors.values()), list[FeatureMap]()
    for item in packed:
        made.append(unpacked_feature_map(item, tensors, path, modules))
        if sum(numbers.numel() for one in made for numbers in one.buffers()) > most:
            raise ValueError(f"its feature maps would hold more than {MADE:,} numbers beside those in the file")
    return tuple(made)


def _with_weights(
    value: dict[str, Any], tensors: dict[str, Tensor], path: str | Path, modules: list[nn.Module]
) -> nn.Module:
    """A copy of the next module that was handed in, with the file's weights and what has shaped them; it must be of
    the class in the file."""
    needed = value["module"]
    given = None
    if modules:
        given = modules.pop(0)
    if type(given).__name__ != needed or not isinstance(given, nn.Module):
        fix = f"{path} holds the weights of a {needed}, and no code: give modules=[{needed}(...)]"
        raise ArgumentError("modules", None if given is None else type(given).__name__, fix)
    made = copy.deepcopy(given)
    made.load_state_dict({name: tensors[place] for name, place in value["weights"].items()})
    mark(made, Origin.merged(origin_of(made, name="modules"), Origin.from_dict(value.get("origin"))))
    return made
