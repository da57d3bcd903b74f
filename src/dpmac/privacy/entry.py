"""One entry of a ledger: what was released, with how much noise, from which sample, and whose privacy it protects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpmac.kernels.selection import Selection
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.sampling import ROW

PERSON = "person"  # unit of privacy: all rows of a person; "person by NAME" if NAME is the column of ids


@dataclass(frozen=True)
class Entry:
    """One release: the numbers that the accountant needs, and what an auditor wants to see."""

    label: str
    noise_multiplier: float
    sample_rate: float
    seeded: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)
    overflow: float = 0.0  # bound on the probability that the sample was full (PoissonSampler)
    date: str = field(default="", compare=False)  # the day in UTC, filled in by the ledger (older files: the second)
    purpose: str = ""  # what the release was for, and
    model: str = ""  # the model that it was made for: the user's own words (Ledger.noting)
    run: str = field(default="", compare=False)  # id of the training run, or of the Ledger object that wrote it
    unit: str = ROW  # unit of privacy: what neighbouring tables differ in
    split: str = ""  # the split of the data set whose rows alone were read (extensions/splits.py); "" for all rows
    search: Selection | None = None  # the entry is a whole search, which releases the best of some runs

    def mechanism(self) -> Mechanism:
        mine = (self.overflow, self.split, self.search)
        return Mechanism(self.noise_multiplier, self.sample_rate, 1, self.label, *mine)
