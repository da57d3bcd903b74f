"""The privacy statement: what a run guarantees and what it does not, in sentences a privacy officer can read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dpmac.checks import number
from dpmac.privacy.accounting import MIN_DELTA, UNIT, Mechanism, accountant_version, epsilon_of, trusted, with_overflow
from dpmac.privacy.entry import PERSON
from dpmac.privacy.sampling import ROW

SEEDED = "seeded: not private against someone who knows the seed"
SEEDED_LINE = (
    f"SEEDED RUN ({SEEDED}). Seeds can be guessed and replayed: use such a run for research, and train again without a "
    "seed before you publish anything."
)

LARGE = 1e-3
LARGE_DELTA = (
    "So large a delta says little: with that chance nothing is promised, and whole rows may come out. It should be far "
    "below 1 over the number of rows."
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
    """Everything it says is derived from the ledger's mechanisms and delta; ``str()`` gives the sentences."""

    mechanisms: tuple[Mechanism, ...]
    delta: float
    seeded: bool
    notes: tuple[str, ...] = ()
    unit: str = ROW

    @property
    def epsilon(self) -> float:
        """By privacy loss distributions, where they can be trusted; infinite if anything was released without noise."""
        return epsilon_of(self.mechanisms, self.delta, "pld")

    @property
    def epsilon_rdp(self) -> float:
        """By Renyi moments (the moments accountant), for comparison."""
        return epsilon_of(self.mechanisms, self.delta, "rdp")

    def __post_init__(self) -> None:
        fix = "give a number from 1e-12 to far below 1 over the number of rows, such as 1e-5"
        number("delta", self.delta, fix, low=MIN_DELTA, high=0.5 - 2**-53)  # a table has two rows at least

    @property
    def noisy(self) -> bool:
        """False if something was released without noise."""
        return all(m.noise_multiplier > 0 for m in self.mechanisms)

    @property
    def private(self) -> bool:
        """Whether an epsilon holds: noise on everything, enough for a finite one, and none that a seed can replay."""
        return self.noisy and not self.seeded and math.isfinite(self.epsilon)

    def sentences(self) -> list[str]:
        """The statement, one sentence or list item a line."""
        if not self.mechanisms:
            return ["Nothing was released, so nothing was spent: epsilon = 0."]
        if not self.noisy or math.isinf(self.epsilon):
            lines = [
                f"NOT PRIVATE: at least one release was made {'with too little' if self.noisy else 'without'} noise, "
                "so no epsilon holds.",
                "Do not publish this model as differentially private.",
            ]
        else:
            lines = [
                *([SEEDED_LINE] if self.seeded else []),
                f"{'With unpredictable noise the model would be' if self.seeded else 'The released model is'} "
                f"({round_up(self.epsilon)}, {not_less(self.delta)})-differentially private: "
                f"epsilon = {round_up(self.epsilon)} at delta = {not_less(self.delta)}.",
                f"Unit of privacy: {unit_in_words(self.unit)}.",
                self._accountant(),
                *([LARGE_DELTA] if self.delta >= LARGE else []),
            ]
        lines += ["Mechanisms, all composed in the figure above:", *(f"  - {line}" for line in self.described())]
        return [*lines, "Not covered by the guarantee:", *(f"  - {note}" for note in self.not_covered())]

    def described(self) -> list[str]:
        """Every mechanism in a line."""
        return [m.describe(f"{noun(self.unit)}s") for m in self.mechanisms]

    def not_covered(self) -> list[str]:
        """What the guarantee does not cover, line by line."""
        return [*self.notes, *never_covered(self.unit)]

    def _kind(self) -> str:
        return trusted(*with_overflow(self.mechanisms, self.delta)[0])[0]

    def _accountant(self) -> str:
        if self._kind() == "rdp":
            return (
                f"Accountant: the moments accountant (RDP, {accountant_version()}); at so small a delta, after so many "
                "releases, privacy loss distributions would be lost in rounding."
            )
        return (
            f"Accountant: privacy loss distributions ({accountant_version()}), rounded upwards; "
            f"the moments accountant (RDP) gives epsilon = {round_up(self.epsilon_rdp)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """For a machine; an infinite epsilon becomes None."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "private": self.private,
            "epsilon": finite(self.epsilon),
            "epsilon_rdp": finite(self.epsilon_rdp),
            "delta": self.delta,
            "unit": unit_in_words(self.unit),
            "accountant": f"{self._kind().upper()}, {accountant_version()}",
            "seeded": self.seeded,
            "mechanisms": [
                {
                    "label": m.label,
                    "noise_multiplier": m.noise_multiplier,
                    "sample_rate": m.sample_rate,
                    "overflow": m.overflow,
                    "count": m.count,
                }
                for m in self.mechanisms
            ],
            "not_covered": self.not_covered(),
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def noun(unit: str) -> str:
    """What comes and goes, in a word: "row" or "person"."""
    return unit.partition(" ")[0]


def never_covered(unit: str) -> list[str]:
    """What no guarantee of this unit covers."""
    return [line.replace("number of rows", f"number of {noun(unit)}s") for line in NOT_COVERED]


def unit_in_words(unit: str) -> str:
    """The unit of privacy that a ledger names, as a statement says it."""
    if unit == ROW:
        return UNIT
    name = unit.removeprefix(PERSON).removeprefix(" by ")
    rows = f"all rows with the same {name!r}" if name else "with all their rows"
    return f"one person, {rows}, there or blank (the number of persons is public, the number of rows is not)"


def round_up(epsilon: float, digits: int = 4) -> str:
    """So many decimals, rounded up, exactly: a printed epsilon is never below the true one."""
    if not math.isfinite(epsilon):
        return str(epsilon)
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def not_less(delta: float) -> str:
    """Ten digits of ``delta``, or all of them where ten would be less than it is."""
    short = f"{delta:.10g}"
    return short if float(short) >= delta else repr(delta)
