"""The privacy statement: what a run guarantees and what it does not, in sentences a privacy officer can read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dpmac.privacy.accounting import UNIT, Mechanism, accountant_version, epsilon_of, trusted, with_room

SEEDED = "seeded: not private against someone who knows the seed"
SEEDED_LINE = (
    f"SEEDED RUN ({SEEDED}). Seeds can be guessed and replayed: use such a run for research, and train again without a "
    "seed before anything leaves the house."
)

NOT_COVERED = (
    "the choice of hyper-parameters, if it was made by looking at these data;",
    "preprocessing that was fitted on these rows outside the model, such as a scaler or an imputer in a pipeline;",
    "any metric computed on the training data, or on other private data, and shown beside the model;",
    "other releases from the same rows, such as a second training: put them into one ledger to compose them;",
    "the number of rows and of columns, which are treated as public;",
    "error messages, warnings and progress shown to whoever holds the data, and side channels (timing, memory);",
    "the rounding of the noise: floating-point numbers on a fine grid stand for exact Gaussian ones.",
)


@dataclass(frozen=True)
class Statement:
    """Everything it says is derived from the ledger's mechanisms and delta; ``str()`` gives the sentences."""

    mechanisms: tuple[Mechanism, ...]
    delta: float
    seeded: bool
    notes: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        """By privacy loss distributions, where they can be trusted; infinite if anything was released without noise."""
        return epsilon_of(self.mechanisms, self.delta, "pld")

    @property
    def epsilon_rdp(self) -> float:
        """By Renyi moments (the moments accountant), for comparison."""
        return epsilon_of(self.mechanisms, self.delta, "rdp")

    @property
    def private(self) -> bool:
        """False if something was released without noise."""
        return all(m.noise_multiplier > 0 for m in self.mechanisms)

    def sentences(self) -> list[str]:
        """The statement, one sentence or list item a line."""
        if not self.mechanisms:
            return ["Nothing was released, so nothing was spent: epsilon = 0."]
        if not self.private or math.isinf(self.epsilon):
            lines = [
                f"NOT PRIVATE: at least one release was made {'with too little' if self.private else 'without'} noise, "
                "so no epsilon holds.",
                "Do not publish this model as differentially private.",
            ]
        else:
            lines = [
                *([SEEDED_LINE] if self.seeded else []),
                f"{'With unpredictable noise the model would be' if self.seeded else 'The released model is'} "
                f"({round_up(self.epsilon)}, {not_less(self.delta)})-differentially private: "
                f"epsilon = {round_up(self.epsilon)} at delta = {not_less(self.delta)}.",
                f"Unit of privacy: {UNIT}.",
                self._accountant(),
            ]
        lines += ["Mechanisms, all composed in the figure above:", *(f"  - {m.describe()}" for m in self.mechanisms)]
        return [*lines, "Not covered by the guarantee:", *(f"  - {note}" for note in (*self.notes, *NOT_COVERED))]

    def _kind(self) -> str:
        return trusted(*with_room(self.mechanisms, self.delta)[0])[0]

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
            "unit": UNIT,
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
            "not_covered": [*self.notes, *NOT_COVERED],
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def round_up(epsilon: float, digits: int = 4) -> str:
    """So many decimals, rounded up, exactly: a printed epsilon is never below the true one."""
    if not math.isfinite(epsilon):
        return str(epsilon)
    return str(Decimal(epsilon).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def not_less(delta: float) -> str:
    """Ten digits of ``delta``, or all of them where ten would be less than it is."""
    short = f"{delta:.10g}"
    return short if float(short) >= delta else repr(delta)
