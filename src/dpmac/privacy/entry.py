"""One entry of a ledger: what was released, how noisy, from which sample, for whom; and how a file's line says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.sampling import NO_ROOM, ROW

PERSON = "person"  # a unit of privacy: all rows of one person, or "person by NAME", the name of the column of ids
_NUMBERS = ("noise_multiplier", "sample_rate", "overflow")
_DAY = len("2026-01-31")
_WORDS = ("label", "date", "purpose", "model", "run", "unit")


@dataclass(frozen=True)
class Entry:
    """One release: what the accountant needs, and what an auditor wants to see."""

    label: str
    noise_multiplier: float
    sample_rate: float
    seeded: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)
    overflow: float = 0.0  # the chance that the sample was cut to its room
    date: str = field(default="", compare=False)  # the day, in UTC; filled in by the ledger (before 0.3: the second)
    purpose: str = ""
    model: str = ""
    run: str = field(default="", compare=False)  # which training it is of, or which Ledger object wrote it
    unit: str = ROW  # of privacy: whose rows come and go together

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, self.sample_rate, 1, self.label, self.overflow)

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "overflow": self.overflow,
            "seeded": self.seeded,
            "scales": {name: scale if math.isfinite(scale) else None for name, scale in self.scales.items()},
            "date": self.date,
            "purpose": self.purpose,
            "model": self.model,
            "run": self.run,
            **({} if self.unit == ROW else {"unit": self.unit}),  # older versions know rows, and refuse persons
        }

    def published(self) -> dict[str, Any]:
        """The line for a copy that others will see: its date is a day, also where an older version wrote the second."""
        return {**self.to_dict(), "date": self.date[:_DAY]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Entry:
        """Read back what :meth:`to_dict` wrote; a line with a missing or strange field is refused, never guessed.

        Version 0.1 wrote no ``overflow`` (it had room for all but one sample in 2**80), date, purpose, model or run.
        A line without a unit is of rows.
        """
        old = {"overflow": 0.0 if raw["sample_rate"] == 1 else NO_ROOM, **dict.fromkeys(_WORDS[1:], ""), "unit": ROW}
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
        entry = cls(seeded=raw["seeded"], scales=scales, **plain)
        entry.mechanism()  # checks the numbers
        return entry
