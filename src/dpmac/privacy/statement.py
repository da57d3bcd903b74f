"""The privacy statement: what a run guarantees and what it does not, in sentences for a privacy officer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dpmac.checks import number
from dpmac.kernels.selection import shown_of
from dpmac.privacy.accounting import MIN_DELTA, UNIT, Mechanism, accountant_version, epsilon_of, figure_of
from dpmac.privacy.entry import PERSON
from dpmac.privacy.sampling import ROW

SEEDED = "seeded: not private against someone who knows the seed"
SEEDED_LINE = (
    f"SEEDED RUN ({SEEDED}). Seeds can be guessed and replayed: use such a run for research, and train again without a "
    "seed before you publish anything."
)

LARGE = 1e-3
LARGE_DELTA = (
    "So large a delta says little: with that chance nothing is promised, and whole records may come out. It should be "
    "far below 1 over the number of rows."
)

NOT_COVERED = (
    "the choice of hyper-parameters, if it was made by looking at these data;",
    "preprocessing that was fitted on these rows outside the model, such as a scaler or an imputer in a pipeline;",
    "any metric computed on the training data, or on other private data, and shown beside the model;",
    "stopping, or choosing what to release next, by what was released: the figure is for what was planned before;",
    "other releases from the same rows, such as a second training: put them into one ledger to compose them;",
    "the number of rows and of columns, which are treated as public;",
    "error messages, warnings and progress shown to whoever holds the data, and side channels (timing, memory).",
)


@dataclass(frozen=True)
class Statement:
    """A statement that is derived from the ledger's mechanisms and delta only; ``str()`` gives the sentences."""

    mechanisms: tuple[Mechanism, ...]
    delta: float
    seeded: bool
    notes: tuple[str, ...] = ()
    unit: str = ROW

    @property
    def epsilon(self) -> float:
        """The reported figure (:func:`dpmac.privacy.accounting.epsilon_of`); infinite after a release without noise."""
        return epsilon_of(self.mechanisms, self.delta, "pld")

    @property
    def epsilon_rdp(self) -> float:
        """By Renyi differential privacy (the moments accountant), for comparison."""
        return epsilon_of(self.mechanisms, self.delta, "rdp")

    def __post_init__(self) -> None:
        fix = "give a number from 1e-12 to far below 1 over the number of rows, such as 1e-5"
        number("delta", self.delta, fix, low=MIN_DELTA, high=0.5 - 2**-53)  # a table has at least two rows

    @property
    def noisy(self) -> bool:
        """False if something was released without noise."""
        return all(m.noise_multiplier > 0 for m in self.mechanisms)

    @property
    def private(self) -> bool:
        """Whether a finite epsilon holds: every release has enough noise, and none has noise from a seed."""
        return self.noisy and not self.seeded and math.isfinite(self.epsilon)

    def sentences(self) -> list[str]:
        """The statement, one sentence or list item a line."""
        if not self.mechanisms:
            return ["Nothing was released, so nothing was spent: epsilon = 0."]
        composed = "all composed in the figure above:"
        if any(m.split for m in self.mechanisms):
            composed = "composed for each split with those on all; the figure above is the largest (no one is in two):"
        lines = [*self._guarantee(), f"Mechanisms, {composed}", *(f"  - {line}" for line in self.described())]
        return [*lines, "Not covered by the guarantee:", *(f"  - {note}" for note in self.not_covered())]

    def _guarantee(self) -> list[str]:
        digits = 2
        if self.epsilon < 0.1:
            digits = 4
        epsilon, delta = round_up(self.epsilon, digits), not_less(self.delta)
        if not self.noisy or math.isinf(self.epsilon):
            noise = "with too little" if self.noisy else "without"
            return [
                f"NOT PRIVATE: at least one release was made {noise} noise, so no epsilon holds.",
                "Do not publish this model as differentially private.",
            ]
        lines, model = [], "The released model is"
        if self.seeded:
            lines, model = [SEEDED_LINE], "With unpredictable noise the model would be"
        lines += [
            f"{model} differentially private with epsilon = {epsilon} at delta = {delta}.",
            f"Unit of privacy: {unit_in_words(self.unit)}.",
            self._accountant(),
        ]
        if self.delta >= LARGE:
            lines.append(LARGE_DELTA.replace("number of rows", f"number of {noun(self.unit)}s"))
        return lines

    def described(self) -> list[str]:
        """One line for every mechanism."""
        return [m.describe(f"{noun(self.unit)}s") for m in self.mechanisms]

    def not_covered(self) -> list[str]:
        """What the guarantee does not cover, one line each."""
        return [*self.notes, *never_covered(self.unit)]

    def _kind(self) -> str:
        return figure_of(self.mechanisms, self.delta)[1]

    def _accountant(self) -> str:
        kind, version, name = self._kind(), accountant_version(), "privacy loss distributions"
        if kind == "rdp":
            lost = "at so small a delta, after so many releases, privacy loss distributions would be lost in rounding"
            if any(m.search is not None for m in self.mechanisms):
                lost = "the bound by privacy loss distributions is no smaller, or would be lost in rounding"
            return f"Accountant: the moments accountant (RDP, {version}); {lost}."
        if kind == "gaussian":
            name = "the closed form of the Gaussian mechanism"
            if any(m.sample_rate < 1.0 for m in self.mechanisms):
                name += " for the same releases without sampling"
        rdp = f"the moments accountant (RDP) gives epsilon = {round_up(self.epsilon_rdp)}"
        return f"Accountant: {name} ({version}), rounded upwards; {rdp}."

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON; an infinite epsilon becomes None."""
        epsilons = {"epsilon": self.epsilon, "epsilon_rdp": self.epsilon_rdp}
        return {
            "private": self.private,
            **{name: value if math.isfinite(value) else None for name, value in epsilons.items()},
            "delta": self.delta,
            "unit": unit_in_words(self.unit),
            "accountant": f"{self._kind().upper()}, {accountant_version()}",
            "seeded": self.seeded,
            "mechanisms": [shown_of(m) for m in self.mechanisms],
            "not_covered": self.not_covered(),
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def noun(unit: str) -> str:
    """The unit of privacy in one word: "row" or "person"."""
    return unit.partition(" ")[0]


def never_covered(unit: str) -> list[str]:
    """What no guarantee for this unit covers."""
    said = [line.replace("number of rows", f"number of {noun(unit)}s") for line in NOT_COVERED]
    return said if unit == ROW else [line.replace(" rows", " persons' rows") for line in said]


def unit_in_words(unit: str) -> str:
    """The unit of privacy of a ledger, as the statement describes it."""
    if unit == ROW:
        return UNIT
    name = unit.removeprefix(PERSON).removeprefix(" by ")
    rows = f"all rows with the same {name!r}" if name else "with all their rows"
    return f"one person, {rows}, there or blank (the number of persons is public, the number of rows is not)"


def round_up(epsilon: float, digits: int = 4) -> str:
    """``epsilon`` with ``digits`` decimals, rounded up exactly: a printed epsilon is never below the true one."""
    if not math.isfinite(epsilon):
        return str(epsilon)
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def not_less(delta: float) -> str:
    """``delta`` with ten digits, or with all digits if ten would round it down."""
    short = f"{delta:.10g}"
    return short if float(short) >= delta else repr(delta)
