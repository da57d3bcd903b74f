"""A case: one real release, from a table in which a canary stands or whose place is blank, again and again.

Everything goes the way that a user's rows go: :class:`~dpmac.privacy.PrivateRows`, a real sample, a real query, the
release, the default noise, a ledger. The claim is read from that ledger, and must be the same in every draw. Nothing is
replaced, simulated or seeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpmac.audit.attackers import (
    LEARNS,
    PER_COORDINATE,
    Attacker,
    best_threshold,
    coordinates,
    who_knows,
    who_learns,
)
from dpmac.audit.curves import Claim, epsilon_at, strength
from dpmac.audit.findings import DELTA, Effort, Finding
from dpmac.privacy import Entry, Ledger, PrivateRows
from dpmac.privacy.accounting import epsilon_of

Ask = Callable[[PrivateRows, float, float, Ledger], Mapping[str, Tensor]]
"""(table, rate, noise multiplier, ledger) to the sums that were released, under the names of the ledger's scales."""

Row = tuple[Tensor, ...]  # one of every column
SIGMA = 0.5  # of all cases with one release: what is hidden less is seen in fewer draws
RATE = 0.5  # of those on a sample


@dataclass(frozen=True)
class Setting:
    """What is asked, of which rows. ``others`` are there in either table; the canary is the best of ``candidates``."""

    ask: Ask
    candidates: Sequence[Row]
    others: Sequence[Row]

    def table(self, canary: Row) -> PrivateRows:
        """The canary at place 0, the others behind it."""
        return PrivateRows(*(torch.stack(column) for column in zip(canary, *self.others, strict=True)))


@dataclass(frozen=True)
class Case:
    """Distinguishing one row there from the same row blank, by two attackers.

    ``share`` is that of the draws, if they take long.
    """

    name: str
    make: Callable[[], Setting] = field(repr=False)
    rate: float = 1.0
    sigma: float = SIGMA
    share: float = 1.0
    quick: bool = True
    looks: int = 2

    def judge(self, effort: Effort, miss: float) -> list[Finding]:
        """The findings: ``effort`` says how many draws, ``miss`` is the chance of being wrong that each look has."""
        scene = Scene(self)
        part = effort.less(self.share)
        first = scene.draws(False, part.learned), scene.draws(True, part.learned)
        at = coordinates(scene.direction, scene.sizes, part.learned // PER_COORDINATE)
        knows = who_knows(scene.attack, scene.claim, part.judged, miss)
        learnt = who_learns(first[0][:, at], first[1][:, at], scene.claim, part.judged, miss)
        learns = Attacker(learnt.name, lambda seen: learnt.statistic(seen[:, at]), learnt.threshold)
        without, with_row = scene.draws(False, part.judged), scene.draws(True, part.judged)
        return [
            finding_of(self.name, attacker, scene.claim, scene.reach, miss, without, with_row)
            for attacker in (knows, learns)
        ]


def finding_of(
    name: str, attacker: Attacker, claim: Claim, reach: float, miss: float, without: Tensor, with_row: Tensor
) -> Finding:
    """What ``attacker`` proves by draws that it has not seen."""
    counts = attacker.counts(without, with_row)
    times = strength(claim, counts.corner(miss))
    return Finding(
        case=name,
        attacker=attacker.name,
        claim="; ".join(m.describe() for m in claim),
        claimed_epsilon=epsilon_of(claim, DELTA),
        epsilon=epsilon_at(claim, times, DELTA),
        ratio=times,
        reach=reach,
        draws=2 * counts.draws,
        said_without=counts.said_without,
        said_with=counts.said_with,
    )


def seen_by_who_learns(
    name: str, draws: Callable[[bool, int], Tensor], claim: Claim, part: Effort, miss: float
) -> list[Finding]:
    """The finding of one attacker, where the canary raises the first number that a draw shows, and nothing else is to
    be learned but where to draw the line. ``draws`` gives (count, numbers) with the canary there or blank."""
    first = [draws(there, part.learned)[:, 0] for there in (False, True)]
    attacker = Attacker(LEARNS, lambda seen: seen[:, 0], best_threshold(first, claim, part.judged, miss))
    without, with_row = (draws(there, part.judged) for there in (False, True))
    return [finding_of(name, attacker, claim, 1.0, miss, without, with_row)]


def called_right(there: bool, places: int) -> PrivateRows:
    """Outputs and targets of a canary whom a score calls right, at place 0, if ``there``; all others are blank."""
    right = torch.tensor([[1.0, 0.0]]).expand(places, 2).clone()
    table = PrivateRows(right, right)
    for place in range(int(there), places):
        table = table.without(place)
    return table


class Scene:
    """Both tables of a case, what is known of them beforehand, and draws. All numbers are in units of the noise."""

    def __init__(self, case: Case) -> None:
        self.setting, self.rate, self.sigma = case.make(), case.rate, case.sigma
        table = max((self._table(row) for row in self.setting.candidates), key=lambda t: float(self._attack(t).norm()))
        self.tables = {True: table, False: table.without(0)}
        self.direction, self.sizes = self._alone(table, 0)
        self.attack = self._attack(table)
        self.known = torch.zeros_like(self.direction)
        if self.rate == 1.0:  # what the others add is known
            self.known = torch.stack(self._others(table)).sum(dim=0)
        self.reach = float(self.attack.norm()) * self.sigma
        book = Ledger()
        self.setting.ask(table, self.rate, self.sigma, book)
        self.claim = book.mechanisms()

    def _table(self, canary: Row) -> PrivateRows:
        """With the canary; where others are sampled, one of them stands, and the rest of the places is blank."""
        table = self.setting.table(canary)
        for place in range(self._standing(table), table.n):
            table = table.without(place)
        return table

    def _standing(self, table: PrivateRows) -> int:
        """How many rows there are, the canary first: all or, where they are sampled, one other."""
        if self.rate == 1.0:
            return table.n
        return 2

    def _attack(self, table: PrivateRows) -> Tensor:
        """Where to look: at what the canary adds; and beside what others add, if who of them was sampled is unknown."""
        direction, _ = self._alone(table, 0)
        if self.rate == 1.0:
            return direction
        return _beside(direction, self._others(table))

    def _others(self, table: PrivateRows) -> list[Tensor]:
        return [self._alone(table, place)[0] for place in range(1, self._standing(table))]

    def draws(self, there: bool, count: int) -> Tensor:
        """``count`` releases from one of the tables, each with a ledger of its own: (count, coordinates)."""
        return torch.stack([self._draw(self.tables[there]) for _ in range(count)])

    def _draw(self, table: PrivateRows) -> Tensor:
        book = Ledger()
        answer = self.setting.ask(table, self.rate, self.sigma, book)
        if book.mechanisms() != self.claim:
            raise RuntimeError(f"two releases of the same kind are in the ledger as {book.mechanisms()}, {self.claim}")
        return self._flat(answer, book.entries[0])[0] - self.known

    def _alone(self, table: PrivateRows, place: int) -> tuple[Tensor, list[int]]:
        """What one row adds, exactly; and how many coordinates every partition has."""
        only = table
        for other in range(self._standing(table)):
            if other != place:
                only = only.without(other)
        book = Ledger()  # of its own: these exact numbers are the auditor's, of rows that the auditor made up
        answer = self.setting.ask(only, 1.0, 0.0, book)
        return self._flat(answer, book.entries[0])

    def _flat(self, answer: Mapping[str, Tensor], entry: Entry) -> tuple[Tensor, list[int]]:
        parts = [answer[name].flatten() / (self.sigma * scale) for name, scale in entry.scales.items()]
        return torch.cat(parts), [len(part) for part in parts]


def _beside(direction: Tensor, others: Sequence[Tensor]) -> Tensor:
    """What of ``direction`` is orthogonal to all ``others``."""
    basis, sizes, _ = torch.linalg.svd(torch.stack(list(others)).T, full_matrices=False)
    kept = basis[:, sizes > 1e-9 * sizes.max().clamp(min=1e-300)]
    rest: Tensor = direction - kept @ (kept.T @ direction)
    return rest
