"""What an account allows: the total that all releases into one ledger may add up to, fixed when it is opened.

The account stands in the header of the ledger's file (:mod:`dpmac.extensions.ledger_file`), and the chain of digests
begins with it. So whoever changes the total in the file breaks every line after it. It holds for every release into the
ledger, whoever asks: :meth:`Allowance.admit` is asked by :meth:`Ledger.append` before an entry is written, which is
before any noise is drawn. A training is compared as a whole before its first release (:meth:`Allowance.plan`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpmac.checks import ArgumentError, number
from dpmac.planning.calibration import MULTIPLIERS, calibrate
from dpmac.privacy.accounting import MIN_DELTA, Mechanism, epsilon_of
from dpmac.privacy.entry import PERSON
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import not_less, noun, round_up

UNITS = (ROW, PERSON)


@dataclass(frozen=True)
class Account:
    """The most that a ledger may hold: ``total_epsilon`` at ``delta``, for one ``unit``, "row" or "person"."""

    total_epsilon: float
    delta: float = 1e-5
    unit: str = ROW

    def __post_init__(self) -> None:
        fix = "give what all releases from these rows may add up to, a number above 0"
        total = number("total_epsilon", self.total_epsilon, fix, low=5e-324, high=1e6)
        fix = "give the chance that the guarantee does not cover, from 1e-12 to far below 1 over the number of rows"
        delta = number("delta", self.delta, fix, low=MIN_DELTA, high=0.1)
        if self.unit not in UNITS:
            raise ArgumentError("unit", self.unit, "give 'row' or 'person'")
        object.__setattr__(self, "total_epsilon", total)
        object.__setattr__(self, "delta", delta)

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the header of a ledger's file."""
        return {"total_epsilon": self.total_epsilon, "delta": self.delta, "unit": self.unit}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Account:
        """Read what :meth:`to_dict` wrote; a KeyError or a ValueError if it is anything else."""
        return cls(raw["total_epsilon"], raw["delta"], raw["unit"])

    def admits(self, unit: str) -> bool:
        """Whether releases of this unit belong here: "person by patient" protects persons, too."""
        return noun(unit) == self.unit

    def over(self, spent: Sequence[Mechanism], own: Sequence[Mechanism]) -> ArgumentError | None:
        """The error for releases that with all ``spent`` ones would exceed the total; None if they fit."""
        whole = epsilon_of([*spent, *own], self.delta)
        if whole <= self.total_epsilon:
            return None
        return over_total(self.total_epsilon, self.delta, epsilon_of(spent, self.delta), whole)


class Allowance:
    """Which further releases are known to fit into an account, so that not every one has to be composed anew."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._left: Counter[Mechanism] = Counter()  # that fit all together, on top of what is recorded
        self._ahead = 1  # releases of one kind that are tried together

    def plan(self, spent: Sequence[Mechanism], own: Sequence[Mechanism], made: Sequence[Mechanism] = ()) -> None:
        """Raise unless all of ``own`` fit on top of what was ``spent``; none of them is composed again then.

        A plan that is resumed has ``made`` some of them already, and these are among what was spent.
        """
        left = counted(own) - counted(made)
        error = self.account.over(spent, [replace(one, count=count) for one, count in left.items()])
        if error is not None:
            raise error
        self._left = left

    def admit(self, spent: Iterable[Mechanism], one: Mechanism) -> None:
        """Raise unless one more release fits on top of what was ``spent``."""
        key = _alike(one)
        if self._left[key] > 0:
            self._left[key] -= 1
            return
        already = tuple(spent)
        if self._ahead > 1 and self.account.over(already, [replace(key, count=self._ahead)]) is not None:
            self._ahead = 1  # near the total: one by one
        if self._ahead == 1:
            error = self.account.over(already, [key])
            if error is not None:
                raise error
        self._left = Counter({key: self._ahead - 1})
        self._ahead *= 2


def counted(mechanisms: Iterable[Mechanism]) -> Counter[Mechanism]:
    """How many releases of each kind; names do not matter."""
    found: Counter[Mechanism] = Counter()
    for one in mechanisms:
        found[_alike(one)] += one.count
    return found


def most_that_fits(spent: Sequence[Mechanism], total: float, delta: float) -> float:
    """The largest epsilon at ``delta`` of one more Gaussian release that still fits into a total; 0 if none does."""
    total = number("epsilon", total, "give the total, a number above 0", low=0.0, high=1e6, strict=True)
    if epsilon_of([*spent, Mechanism(MULTIPLIERS.high)], delta) > total:
        return 0.0
    noise = MULTIPLIERS.low  # of the largest possible release
    if epsilon_of([*spent, Mechanism(noise)], delta) > total:
        noise = calibrate(lambda s: [*spent, Mechanism(s)], total, delta)
    return min(epsilon_of([Mechanism(noise)], delta), total)


def over_total(total: float, delta: float, spent: float, whole: float, most: float | None = None) -> ArgumentError:
    """The error for what would exceed a total; ``most`` is the epsilon that would still fit, if that was computed."""
    held = f"the ledger holds {round_up(spent, 2)} already, and with this it would hold {round_up(whole, 2)} "
    held += f"(at delta {not_less(delta)})"
    if most is None:
        fix = "what is left is too little for it: see dpmac ledger remaining"
    elif most > 0:
        fix = f"lower epsilon to {most:g} at most"
    else:
        fix = "lower epsilon is no help, nothing is left: these rows have given what they may"
    return ArgumentError("total_epsilon", total, f"{held}: {fix}")


def _alike(one: Mechanism) -> Mechanism:
    return replace(one, label="", count=1)
