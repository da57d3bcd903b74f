"""How large what comes out of a file may be. It is read that far, and refused beyond, before memory is spent on it.

A folder of a few kilobytes can claim anything: a layer of a billion weights, a class label of a hundred megabytes,
lists within lists without end. These limits lie far above what any model of this package needs.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError, check_utf8

JSON_BYTES = 2**26  # of a JSON file, and of the header of a safetensors file
TENSOR_BYTES = 2**32  # of a safetensors file
LEDGER_BYTES = 2**29  # of a ledger in a model's folder: more than a million releases
VALUES = 2**21  # in one JSON file: numbers, texts, lists and objects
DEPTH = 100  # of lists and objects within each other
TEXT = 2**16  # characters of one text: a name, a label, a description
STACK = 1000  # layers and activations of a network
NUMBERS = 2**24  # of one example, anywhere on its way through a network
STEPS = 10**9  # of a plan

Pairs = list[tuple[str, Any]]


def read_bytes(path: Path, most: int) -> bytes:
    """All of a file of at most ``most`` bytes; a ValueError for a larger one, of which no more is read."""
    with path.open("rb") as handle:
        found = os.fstat(handle.fileno())
        size = found.st_size if stat.S_ISREG(found.st_mode) else most
        raw = handle.read(min(size, most) + 1)
    if size > most or len(raw) > most:
        raise ValueError(f"it is larger than the {most:,} bytes that such a file may have")
    return raw


def parsed(raw: bytes, *, longest: int = TEXT, objects: Callable[[Pairs], Any] | None = None) -> Any:
    """What JSON says, if it is within the limits; a ValueError otherwise. ``objects`` makes an object of its pairs."""
    if sum(map(raw.count, (b",", b"[", b"{"))) > VALUES:
        raise ValueError(f"it holds more than {VALUES:,} values")
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=objects)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEPTH} levels") from None
    check_values(found, longest)
    return found


def read_json(path: Path, *, objects: Callable[[Pairs], Any] | None = None) -> Any:
    """What a JSON file says: :func:`parsed` of :func:`read_bytes`."""
    return parsed(read_bytes(path, JSON_BYTES), objects=objects)


def finite_json(raw: bytes) -> Any:
    """What JSON says; raises ValueError for NaN and infinity, also if written as 1e999."""
    return json.loads(raw, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is not a finite number")
    return found


def check_values(found: Any, longest: int = TEXT) -> None:
    """Raise ValueError for a text that is too long, and for lists and objects nested too deeply."""
    level = [found]
    for _ in range(DEPTH + 1):
        too_long = next((len(value) for value in level if isinstance(value, str) and len(value) > longest), None)
        if too_long is not None:
            raise ValueError(f"a text of {too_long:,} characters is in it, and {longest:,} are the most")
        level = [inner for value in level for inner in _within(value)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {DEPTH} levels")


def _within(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def check_kept(name: str, value: Any) -> None:
    """Raise :class:`ArgumentError` for an argument with a text in it that no file of a model could hold."""
    if isinstance(value, str):
        check_utf8(name, value)
        if len(value) > TEXT:
            fix = f"it has {len(value):,} characters, and {TEXT:,} are the most that a model's file holds of one text"
            raise ArgumentError(name, f"{value[:40]}...", fix)
    elif isinstance(value, dict | list | tuple):
        for item in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
            check_kept(name, item)
