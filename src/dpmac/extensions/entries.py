"""How a line of a ledger's file says an entry, and how it is read back: a strange line is refused, never guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpmac.privacy.entry import PERSON, Entry
from dpmac.privacy.sampling import MIN_OVERFLOW, ROW

_NUMBERS = ("noise_multiplier", "sample_rate", "overflow")
_DAY = len("2026-01-31")
_WORDS = ("label", "date", "purpose", "model", "run", "unit")


def to_dict(entry: Entry) -> dict[str, Any]:
    """The entry in plain values."""
    return {
        "label": entry.label,
        "noise_multiplier": entry.noise_multiplier,
        "sample_rate": entry.sample_rate,
        "overflow": entry.overflow,
        "seeded": entry.seeded,
        "scales": {name: scale if math.isfinite(scale) else None for name, scale in entry.scales.items()},
        "date": entry.date,
        "purpose": entry.purpose,
        "model": entry.model,
        "run": entry.run,
        **({} if entry.unit == ROW else {"unit": entry.unit}),  # older versions know rows, and refuse persons
    }


def published(entry: Entry) -> dict[str, Any]:
    """The line for a copy that others will see: its date is a day, also where an older version wrote the second."""
    return {**to_dict(entry), "date": entry.date[:_DAY]}


def from_dict(raw: Mapping[str, Any]) -> Entry:
    """Read back what :func:`to_dict` wrote; a line with a missing or strange field is refused, never guessed.

    Version 0.1 wrote no ``overflow`` (it had room for all but one sample in 2**80), date, purpose, model or run.
    A line without a unit is of rows.
    """
    old = {"overflow": 0.0 if raw["sample_rate"] == 1 else MIN_OVERFLOW, **dict.fromkeys(_WORDS[1:], ""), "unit": ROW}
    raw = {**old, **raw}
    if set(raw) != {*_NUMBERS, *_WORDS, "seeded", "scales"}:
        raise ValueError(f"its fields are {sorted(raw)}")
    numbers = [*(raw[name] for name in _NUMBERS), *(v for v in raw["scales"].values() if v is not None)]
    strange = [value for value in numbers if isinstance(value, bool) or not isinstance(value, int | float)]
    if strange or not isinstance(raw["seeded"], bool) or not all(isinstance(raw[name], str) for name in _WORDS):
        raise ValueError("a field has the wrong type")
    if raw["unit"] not in (ROW, PERSON) and not raw["unit"].startswith(f"{PERSON} by "):
        raise ValueError(f"its unit of privacy is {raw['unit']!r}")
    scales = {name: math.inf if scale is None else float(scale) for name, scale in raw["scales"].items()}
    plain = {name: float(raw[name]) for name in _NUMBERS} | {name: raw[name] for name in _WORDS}
    entry = Entry(seeded=raw["seeded"], scales=scales, **plain)
    entry.mechanism()  # checks the numbers
    return entry
