"""Splits of a data set, audited by someone who sees what is released from either.

The canary's place is in one split, and stands or is blank. A score of each split is released, of the other one with
more noise. The claim is the ledger's figure for everybody: that of the split which has given most, not a sum of both.
If the ledger took another split's figure for it, or forgot what one has given, the canary would be seen better than
the claim allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.audit.cases import called_right, seen_by_who_learns
from dpmac.audit.curves import Claim
from dpmac.audit.findings import DELTA, Effort, Finding
from dpmac.methods import Score
from dpmac.methods.merits import MERIT
from dpmac.privacy import Ledger, release
from dpmac.privacy.accounting import by_split, epsilon_of
from dpmac.randomness import SystemNoise

SHARES = {"ours": 0.5, "theirs": 0.5}
NOISE = {"ours": 0.5, "theirs": 2.0}
PLACES = 2  # in each split
IDS = range(64)  # of which some are in either


@dataclass(frozen=True)
class TwoSplits:
    """A release from each of two splits, of which the canary is in the first."""

    name: str
    share: float = 0.5
    quick: bool = True
    looks: int = 1

    def judge(self, effort: Effort, miss: float) -> list[Finding]:
        """One attacker: the canary raises the answer of its split, and where to draw the line is learned."""
        return seen_by_who_learns(self.name, self.draws, self.claim(), effort.less(self.share), miss)

    def claim(self) -> Claim:
        """The releases of the split whose figure is the ledger's."""
        book = Ledger()
        _released(book, there=False)
        figure = book.epsilon(DELTA)
        return next(mine for mine in by_split(book.mechanisms()) if epsilon_of(mine, DELTA) == figure)

    def draws(self, there: bool, count: int) -> Tensor:
        """(count, 2): the answers from the canary's split, and from the other one."""
        return torch.tensor([_released(Ledger(), there) for _ in range(count)], dtype=torch.float64)


def _released(book: Ledger, there: bool) -> list[float]:
    splits, answers = book.divide(SHARES), []
    places = splits.of(list(IDS))
    for number, name in enumerate(splits.names):
        ids = [k for k in IDS if places[k] == number][:PLACES]
        table = called_right(there and name == "ours", PLACES)
        answer = release(
            table.everything(),
            Score(NOISE[name]).query(torch.nn.Identity()),
            noise_multiplier=NOISE[name],
            source=SystemNoise(),
            ledger=book.split(name, ids),
        )
        answers.append(float(answer[MERIT]))
    return answers


def split_cases() -> list[TwoSplits]:
    """One release from each of two splits."""
    return [TwoSplits("splits")]
