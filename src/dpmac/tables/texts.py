"""Names and values as texts: how a cell is written, how long a text may be, and which name was meant."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.limits import TEXT


def text_of(cell: Any) -> str:
    """A cell as the text that values are compared by: whole numbers without a point, bools as True and False."""
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell)


def check_length(name: str, text: str) -> None:
    """Raise unless a name or a value is short enough for the files of a model."""
    if len(text) > TEXT:
        fix = f"it has {len(text):,} characters, and {TEXT:,} are the most"
        raise ArgumentError(name, f"{text[:40]}...", fix)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'age'?`` if one of the ``known`` names is near, or nothing."""
    names = list(known)
    low = {str(name).lower(): name for name in reversed(names)}  # a frame may call a column anything
    near = difflib.get_close_matches(str(word).lower(), low, n=1)
    if near:
        return f"; did you mean {low[near[0]]!r}?"
    return ""


def either(options: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(options[:-1]), options[-1]]))


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless a key stands in it twice: which of the two was meant is not ours to guess."""
    made = dict(pairs)
    if len(made) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ArgumentError(key, made[key], "this key stands twice in one object: keep one of them")
    return made
