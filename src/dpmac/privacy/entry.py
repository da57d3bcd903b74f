"""One entry of a ledger: what was released, how noisy, from which sample, for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.sampling import ROW

PERSON = "person"  # a unit of privacy: all rows of one person, or "person by NAME", the name of the column of ids


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
