"""Values as plain JSON and back, without loss: numbers bit for bit, arrays with their kind, our objects by name.

What comes out of a file is built from this list of kinds and nothing else; no name in a file is ever imported or
called. A JSON object always has one key, the kind of what it stands for, so that nothing can be taken for another.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmac.estimators.edits import Edit
from dpmac.mac.zsteps import Z_STEPS
from dpmac.mac.zsteps.base import ELEMENTWISE
from dpmac.methods.histogram import Thresholds
from dpmac.nets import ACTIVATIONS, Activation
from dpmac.privacy import BOUNDS, EqualShares, LeastEnergy, Origin
from dpmac.tables import Schema

Array = np.ndarray[Any, Any]
OBJECTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (*map(type, BOUNDS.values()), *map(type, Z_STEPS.values()), EqualShares, LeastEnergy, Edit)
}
"""Argument objects of the package (and edits), kept as their class's name and their fields."""
OPTIMIZERS: dict[str, Any] = {kind.__name__: kind for kind in ELEMENTWISE}
_DTYPE = re.compile(r"[<>|=]?([biuf]\d{1,2}|U\d{1,9}|[mM]8(\[\w{1,6}\])?)")

_ARRAY_BYTES = 2**26  # of an array in a manifest: labels, names, a few numbers


class OwnObjectError(TypeError):
    """A value that has no place in a file: an object whose class is not the package's."""


def packed(value: Any) -> Any:
    """``value`` in plain JSON; :class:`OwnObjectError` for what no file can give back."""
    if value is None or type(value) in (bool, int, str):  # and no subclass: a NumPy text is an array of one
        return value
    if type(value) is float:
        if math.isfinite(value):
            return value
        return {"float": str(value)}
    if isinstance(value, Thresholds):
        return {"thresholds": [[packed(item) for item in value], value.origin.to_dict()]}
    if isinstance(value, tuple | list):
        items = [packed(item) for item in value]
        if isinstance(value, list):
            return items
        return {"tuple": items}
    if isinstance(value, Schema):
        return {"schema": value.portable().to_dict()}
    if isinstance(value, Mapping):
        return {"dict": [[packed(key), packed(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": _array(np.asarray(value))}
    if isinstance(value, np.generic):
        return {"scalar": _array(np.asarray(value))}
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    return _object(value)


def _object(value: Any) -> Any:
    if isinstance(value, Activation):
        return {"activation": [value.name, ACTIVATIONS.get(value.name) != value]}
    if isinstance(value, type) and value in OPTIMIZERS.values():
        return {"optimizer": str(value.__name__)}
    if OBJECTS.get(type(value).__name__) is type(value):
        fields = {field.name: packed(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"object": [type(value).__name__, fields]}
    if isinstance(value, Sequence) or hasattr(value, "to_numpy"):
        return packed(list(value))  # a pandas index, a column: what it holds
    raise OwnObjectError(f"{type(value).__module__}.{type(value).__qualname__}")


def _array(value: Array) -> dict[str, Any]:
    if value.dtype.kind == "O":
        return {"dtype": "O", "shape": list(value.shape), "values": [packed(item) for item in value.flat]}
    if not _DTYPE.fullmatch(value.dtype.str) or value.dtype.str[1:] in ("f12", "f16"):
        raise OwnObjectError(f"an array of {value.dtype}")
    flat = value.reshape(-1)
    if value.dtype.kind in "mM":
        flat = flat.astype(str)
    return {"dtype": value.dtype.str, "shape": list(value.shape), "values": [packed(item) for item in flat.tolist()]}


def unpacked(raw: Any, activations: Mapping[str, Activation] | None = None) -> Any:
    """What :func:`packed` was given; a ValueError (or KeyError, TypeError) for anything that it does not write.

    ``activations`` are those of the user's own, which a file has by name alone.
    """
    if isinstance(raw, list):
        return [unpacked(item, activations) for item in raw]
    if not isinstance(raw, dict):
        return raw
    ((kind, content),) = raw.items()
    match kind:
        case "float":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
        case "tuple":
            return tuple(unpacked(item, activations) for item in content)
        case "thresholds":
            items, origin = content
            thresholds = Thresholds(unpacked(item) for item in items)
            thresholds.origin = Origin.from_dict(origin)
            return thresholds
        case "dict":
            return {unpacked(key): unpacked(item, activations) for key, item in content}
        case "schema":
            return Schema.from_dict(content)
        case "array":
            return array_of(content)
        case "scalar":
            return array_of(content)[()]
        case "path":
            return Path(content)
        case "range":
            start, stop, step = content
            return range(start, stop, step)
        case "activation":
            name, own = content
            if own:
                return _handed_in(name, activations or {})
            return ACTIVATIONS[name]
        case "optimizer":
            return OPTIMIZERS[content]
        case "object":
            name, fields = content
            return OBJECTS[name](**{field: unpacked(item, activations) for field, item in fields.items()})
    raise ValueError(f"a value of kind {kind!r}, which this version does not know")


def _handed_in(name: str, activations: Mapping[str, Activation]) -> Activation | str:
    """One of the user's own; its name alone if it was not handed in, which ``fit`` will then ask for."""
    return activations.get(name, name)


def array_of(content: Mapping[str, Any]) -> Array:
    """An array from its kind, shape and values."""
    dtype, shape = str(content["dtype"]), tuple(content["shape"])
    values = [unpacked(item) for item in content["values"]]
    if dtype != "O" and not _DTYPE.fullmatch(dtype):
        raise ValueError(f"an array of dtype {dtype!r}, which this version does not know")
    if dtype != "O" and len(values) * np.dtype(dtype).itemsize > _ARRAY_BYTES:  # a text's width is only a claim
        raise ValueError(f"an array of {len(values):,} values of dtype {dtype!r}, which is too large")
    if dtype == "O":
        found = np.empty(len(values), dtype=object)
        found[:] = values
    else:
        found = np.array(values, dtype=np.dtype(dtype))
    return found.reshape(shape)
