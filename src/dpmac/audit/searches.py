"""A whole search, audited by someone who sees what it releases: the best of a number of runs that nobody is told.

Its runs are scores of one model, by the release that every search chooses by, and the number of runs is drawn as every
search draws it. What comes out is the best score. The canary raises the score of every run, so the best of many shows
it better than one would: a claim that forgot the number of runs, or reckoned with another law, is refuted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.audit.cases import called_right, seen_by_who_learns
from dpmac.audit.curves import Claim
from dpmac.audit.findings import Effort, Finding
from dpmac.extensions.searches import Prepaid, best_of, entry_of
from dpmac.kernels.selection import Selection
from dpmac.kernels.tries import Tries
from dpmac.methods import Score
from dpmac.methods.merits import MERIT
from dpmac.privacy import Ledger, PrivateRows, release
from dpmac.privacy.sampling import ROW
from dpmac.randomness import SystemNoise

PLACES = 4


@dataclass(frozen=True)
class WholeSearch:
    """The best of runs that each release one score, ``mean`` of them on average."""

    name: str
    mean: float = 5.0
    sigma: float = 0.5
    share: float = 0.25
    quick: bool = True
    looks: int = 1

    def judge(self, effort: Effort, miss: float) -> list[Finding]:
        """Every draw is a whole search. Only one attacker: the more of the canary, the higher the score, and where to
        draw the line is learned."""
        return seen_by_who_learns(self.name, self.draws, self.claim(), effort.less(self.share), miss)

    def claim(self) -> Claim:
        """What the ledger says of a search."""
        return self._paid().mechanisms()

    def draws(self, there: bool, count: int) -> Tensor:
        """(count, 1): the best score of each of ``count`` searches. All places but the canary's are blank."""
        table = called_right(there, PLACES)
        return torch.tensor([[self._searched(table)] for _ in range(count)], dtype=torch.float64)

    def _paid(self) -> Ledger:
        book, run = Ledger(), (Score(self.sigma).mechanism(),)
        book.append(entry_of(Selection((run,), Tries.of_mean(self.mean)), ROW, seeded=False))
        return book

    def _searched(self, table: PrivateRows) -> float:
        score, source, book = Score(self.sigma), SystemNoise(), self._paid()
        query = score.query(torch.nn.Identity())

        def run(_: int) -> Run:
            paid = Prepaid(book, [score.mechanism()])
            answer = release(table.everything(), query, noise_multiplier=self.sigma, source=source, ledger=paid)
            return Run(float(answer[MERIT]))

        search = book.entries[0].search
        assert search is not None
        return best_of(search.tries.drawn(source.uniform), run).score


@dataclass(frozen=True)
class Run:
    """One run of a search: its score is all that it releases."""

    score: float


def search_cases() -> list[WholeSearch]:
    """A search of five runs on average."""
    return [WholeSearch("whole search")]
