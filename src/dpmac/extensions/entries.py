"""Ledger entries as lines of a file. A line with an unexpected field is rejected, never guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dpmac.kernels.selection import Selection
from dpmac.kernels.tries import Tries
from dpmac.limits import STEPS
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.entry import PERSON, Entry
from dpmac.privacy.sampling import MIN_OVERFLOW, ROW

_NUMBERS = ("noise_multiplier", "sample_rate", "overflow")
_DAY = len("2026-01-31")
_WORDS = ("label", "date", "purpose", "model", "run", "unit", "split")


def today() -> str:
    """The day, no finer: ledgers are published, and the time between two releases may depend on private rows."""
    return datetime.now(UTC).date().isoformat()


def to_dict(entry: Entry) -> dict[str, Any]:
    """The entry as plain values."""
    line = {
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
    }
    if entry.unit != ROW:  # older versions know only rows, and reject persons
        line["unit"] = entry.unit
    if entry.split:  # nor do they know splits, or searches
        line["split"] = entry.split
    if entry.search is not None:
        line["search"] = entry.search.to_dict()
    return line


def published(entry: Entry) -> dict[str, Any]:
    """The line for a copy to publish: its date is a day, even if an older version recorded seconds."""
    return {**to_dict(entry), "date": entry.date[:_DAY]}


def from_dict(raw: Mapping[str, Any]) -> Entry:
    """Read an entry that :func:`to_dict` wrote; a line with a missing or unexpected field is rejected, never guessed.

    Version 0.1 wrote no ``overflow`` (its probability was 2**-80), date, purpose, model or run. A line without a unit
    is about rows, and one without a split about all of them.
    """
    old = {"overflow": MIN_OVERFLOW, **dict.fromkeys(_WORDS[1:], ""), "unit": ROW}
    if raw["sample_rate"] == 1:
        old["overflow"] = 0.0
    raw = {**old, **raw}
    search = search_from(raw.pop("search")) if "search" in raw else None
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
    entry = Entry(seeded=raw["seeded"], scales=scales, search=search, **plain)
    entry.mechanism()  # checks the numbers
    return entry


def search_from(raw: Mapping[str, Any]) -> Selection:
    """Read what :meth:`Selection.to_dict` wrote; a missing or unexpected field, or a wrong type, is an error."""
    if set(raw) != {"law", "cases"} or set(raw["law"]) != {"chance", "shape"}:
        raise ValueError(f"the fields of its search are {sorted(raw)}")
    cases = tuple(tuple(_released(one) for one in case) for case in raw["cases"])
    return Selection(cases, Tries(**raw["law"]))


def _released(raw: Mapping[str, Any]) -> Mechanism:
    if set(raw) != {*_NUMBERS, "label", "count"} or not isinstance(raw["label"], str):
        raise ValueError(f"the fields of a release of its search are {sorted(raw)}")
    if not isinstance(raw["count"], int) or raw["count"] > STEPS:
        raise ValueError(f"a release of its search was made {raw['count']!r:.40} times, and {STEPS:,} are the most")
    return Mechanism(**raw)


def mechanism_from(raw: Mapping[str, Any]) -> Mechanism:
    """Read what :func:`dpmac.kernels.selection.plain_of` wrote."""
    if raw.get("search") is None:
        return Mechanism(**raw)
    return Mechanism(**{**raw, "search": search_from(raw["search"])})
