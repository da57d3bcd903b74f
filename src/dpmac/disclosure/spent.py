"""What one model cost of a ledger: its own releases beside the sum of all, and the total that was allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from dpmac.kernels.moments import merged
from dpmac.planning.plan import STEP
from dpmac.privacy import Ledger, Mechanism, Plan
from dpmac.privacy.accounting import epsilon_of
from dpmac.privacy.entry import Entry
from dpmac.privacy.statement import not_less, noun, round_up


@dataclass(frozen=True)
class Spent:
    """Figures at one delta. ``own`` is what this model's releases cost alone; None if the ledger does not tell them
    apart. ``budget`` is what was asked for, ``total`` what the ledger may hold in all (None: nobody set one),
    ``total_delta`` the delta of an account that was opened with it."""

    delta: float
    unit: str
    budget: float
    own: float | None
    own_releases: int | None
    whole: float
    releases: int
    total: float | None
    data_set: str
    total_delta: float | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Lines of a table: what, epsilon, releases."""
        found = [("budget that this model was given", _shown(self.budget), "")]
        if self.own is not None:
            found.append(("this model alone", _upwards(self.own), f"{self.own_releases:,}"))
        held = f"all that the ledger held when this model was saved, for one {noun(self.unit)}"
        found.append((held, _upwards(self.whole), f"{self.releases:,}"))
        if self.total is None:
            return [*found, ("total that was allowed", "none was set", "")]
        return [*found, (f"total that was allowed{self._at()}", _shown(self.total), "")]

    def _at(self) -> str:
        """At which delta the total holds, where that is another than that of the figures."""
        if self.total_delta is None or self.total_delta == self.delta:
            return ""
        return f", at delta = {not_less(self.total_delta)}"

    def sentence(self) -> str:
        """The same in one sentence."""
        parts = [f"the budget of this model was epsilon = {_shown(self.budget)}"]
        if self.own is not None:
            parts.append(f"its own releases cost {_upwards(self.own)}")
        named = ""
        if self.data_set:
            named = f" of “{self.data_set}”"
        parts.append(f"the ledger{named} held {_upwards(self.whole)} in all")
        if self.total is None:
            parts.append("no total was set")
        else:
            parts.append(f"a total of {_shown(self.total)} was allowed{self._at()}")
        return f"At delta = {not_less(self.delta)}, for one {noun(self.unit)}: {', '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is infinite becomes None."""
        found = {"budget": self.budget, "own": self.own, "ledger": self.whole, "total": self.total}
        return {name: _finite(value) for name, value in found.items()} | {"own_releases": self.own_releases}


def spent_by(estimator: Any, ledger: Ledger, delta: float, plan: Plan | None) -> Spent:
    """What a fitted ``estimator`` cost of the ledger as it was at the end of its fit."""
    own, cost = own_entries(ledger, plan), None
    if own is not None:
        cost = epsilon_of(_mechanisms(own), delta)
    if cost is not None and cost > estimator.epsilon * (1 + 1e-9):  # of more than one fit
        own = cost = None
    total, at = estimator.total_epsilon, None
    account = ledger.account
    if account is not None and (total is None or total >= account.total_epsilon):
        total, at = account.total_epsilon, account.delta
    return Spent(
        delta=delta,
        unit=ledger.unit,
        budget=float(estimator.epsilon),
        own=cost,
        own_releases=_count(own),
        whole=ledger.epsilon(delta),
        releases=len(ledger),
        total=total,
        data_set=ledger.data_set,
        total_delta=at,
    )


def own_entries(ledger: Ledger, plan: Plan | None) -> tuple[Entry, ...] | None:
    """This model's entries; None if the ledger does not tell them from others.

    With a plan they follow what it says was there before: its steps, and what was released after these. Without one
    they are those of the last run, if a run was noted for it and not the whole ledger bears one name.
    """
    entries = ledger.entries
    if plan is not None:
        mine = entries[sum(m.count for m in plan.before) :]
        if mine and mine[0].search is not None:  # that made the model is one entry
            return mine[:1]
        ours = (entry for entry in mine[plan.steps :] if mine and entry.run == mine[0].run)
        return (*mine[: plan.steps], *takewhile(lambda entry: entry.label != STEP, ours))
    if not entries:
        return entries
    models = {(entry.model, entry.purpose) for entry in entries}
    if len({entry.run for entry in entries}) == 1 and len(models) > 1:  # several fits into one ledger in memory
        return None
    return tuple(entry for entry in entries if entry.run == entries[-1].run)


def _mechanisms(entries: tuple[Entry, ...]) -> tuple[Mechanism, ...]:
    return merged(entry.mechanism() for entry in entries)


def _count(entries: tuple[Entry, ...] | None) -> int | None:
    if entries is None:
        return None
    return len(entries)


def _finite(value: float | None) -> float | None:
    if value is None or math.isfinite(value):
        return value
    return None


def _shown(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "infinite"
    return f"{epsilon:g}"


def _upwards(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "infinite"
    return round_up(epsilon)


def said(epsilon: float) -> str:
    """An epsilon in the digits of a statement's first sentence, so that one figure is not written in two ways."""
    digits = 2
    if epsilon < 0.1:
        digits = 4
    return round_up(epsilon, digits)
