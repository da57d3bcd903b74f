"""A whole training run, audited by someone who sees every release of it and every model on the way.

The attacker knows the row, and so its exact share at every step, by the weights as they then are. With x_t the inner
product of what step t released with that share, in units of the noise, and m_t the share's length, the log-likelihood
ratio of all steps is the sum of log(1 - q + q exp(m_t x_t - m_t^2 / 2)): the best statistic there is. A W-step is
handed released numbers, and nothing else; so one that takes notes sees just what such an attacker sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dpmac.audit.attackers import KNOWS, Attacker, best_threshold, who_learns
from dpmac.audit.cases import Row, finding_of
from dpmac.audit.curves import Claim
from dpmac.audit.findings import Effort, Finding
from dpmac.audit.notes import Notes
from dpmac.audit.steps import OUTRAGE, small_network
from dpmac.mac import Expansion, FirstOrder, FixedPrediction, Polynomial
from dpmac.methods import Gradients
from dpmac.nets import Network, loss
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows, release
from dpmac.randomness import SystemNoise
from dpmac.training import Step, Trainer

PLACES = 8
SIMULATED = 4_000  # ideal runs a side, by which the threshold is chosen before a real one is made
LOG_RATIO, REACH = 0, 4  # columns of what is noted of a run; those from 0 to 3 are learned from


@dataclass(frozen=True)
class WholeRun:
    """``steps`` steps of a real :class:`Trainer` on samples of rate ``rate``, its weights moving as they will."""

    name: str
    expansion: Expansion = field(default_factory=FirstOrder)
    steps: int = 4
    rate: float = 0.5
    sigma: float = 0.7
    share: float = 0.3
    quick: bool = True
    looks: int = 2

    def judge(self, effort: Effort, miss: float) -> list[Finding]:
        """Every draw is a whole run."""
        part = effort.less(self.share)
        runs = _Runs(self)
        first = runs.noted(False, part.learned), runs.noted(True, part.learned)
        reach = float(first[1][:, REACH].mean()) * self.sigma
        ideal = [self._ideal(there, reach) for there in (False, True)]
        threshold = best_threshold(ideal, runs.claim, part.judged, miss)
        knows = Attacker(KNOWS, lambda seen: seen[:, LOG_RATIO], threshold)
        learnt = who_learns(first[0][:, :REACH], first[1][:, :REACH], runs.claim, part.judged, miss)
        learns = Attacker(learnt.name, lambda seen: learnt.statistic(seen[:, :REACH]), learnt.threshold)
        without, with_row = runs.noted(False, part.judged), runs.noted(True, part.judged)
        return [
            finding_of(self.name, attacker, runs.claim, reach, miss, without, with_row) for attacker in (knows, learns)
        ]

    def _ideal(self, there: bool, reach: float) -> Tensor:
        """Log-likelihood ratios of runs as they should be: of the claimed mechanism, with this canary."""
        source, m = SystemNoise(), reach / self.sigma
        x = source.normal((SIMULATED, self.steps))
        if there:
            x = x + m * (source.uniform(x.numel()).reshape(x.shape) < self.rate)
        return log_ratio(x, torch.full_like(x, m), self.rate).sum(dim=1)


def log_ratio(x: Tensor, m: Tensor, rate: float) -> Tensor:
    """The log-likelihood ratio of (1 - rate) N(0, 1) + rate N(m, 1) over N(0, 1) at ``x``."""
    stay = torch.log1p(torch.tensor(-rate, dtype=torch.float64))  # minus infinity at a rate of 1, as it should be
    return torch.logaddexp(stay.expand_as(x), m * x - m.square() / 2 + torch.log(torch.tensor(rate).double()))


class _Runs:
    """Both tables, and real runs on them. All other places are blank: nothing hides the canary but noise and chance."""

    def __init__(self, case: WholeRun) -> None:
        self.case, self.network = case, small_network()
        self.plan = Plan(PLACES, case.rate * PLACES, case.steps, case.sigma, 1e-5)
        self.canary: Row = (torch.tensor([1.0, -1.0]), torch.tensor([OUTRAGE, -OUTRAGE]))
        table = PrivateRows(*(torch.stack([column] * PLACES) for column in self.canary))
        for place in range(1, PLACES):
            table = table.without(place)
        self.tables = {True: table, False: table.without(0)}
        self.claim: Claim = self.plan.mechanisms()  # and every ledger must say the same

    def noted(self, there: bool, count: int) -> Tensor:
        """(count, 5): what was noted of each of ``count`` runs."""
        return torch.stack([self._run(self.tables[there]) for _ in range(count)])

    def _run(self, table: PrivateRows) -> Tensor:
        """Log-likelihood ratio; mean and spread of x over the steps; how far what is released moves from step to step,
        which would show noise that repeats itself; and the share's mean length."""
        seen: list[tuple[Tensor, Tensor, Tensor]] = []

        def note(network: Network, polynomials: Sequence[Polynomial]) -> None:
            share, unit = self.known_at(network)
            released = torch.cat([polynomial.slope.flatten() for polynomial in polynomials]) / unit
            seen.append((released, released @ share / share.norm(), share.norm()))

        pieces: dict[str, Any] = {"zstep": FixedPrediction(), "bound": JointClip(1.0), "expansion": self.case.expansion}
        run = Trainer(self.network, loss("squared"), self.plan, wstep=Notes(note), **pieces).fit(table)
        if run.ledger.mechanisms() != self.claim:
            raise RuntimeError(f"a run of the plan {self.plan} is in the ledger as {run.ledger.mechanisms()}")
        all_steps, x, m = (torch.stack(list(column)) for column in zip(*seen, strict=True))
        moves = (all_steps[1:] - all_steps[:-1]).norm(dim=1)
        return torch.stack([log_ratio(x, m, self.case.rate).sum(), x.mean(), x.std(), moves.mean(), m.mean()])

    def known_at(self, network: Network) -> tuple[Tensor, Tensor]:
        """At these weights: the canary's exact share over the noise, and the noise's size in the slopes of a step."""
        step = Step(network, loss("squared"), FixedPrediction(), self.case.expansion, JointClip(1.0))
        query = step.query()
        alone = PrivateRows(*(column.unsqueeze(0) for column in self.canary)).everything()
        answer = release(alone, query, noise_multiplier=0.0, source=SystemNoise(), ledger=Ledger())
        deviations = {p.name: torch.full(p.shape, self.case.sigma * (p.scale or 0.0)) for p in query.partitions}
        share = torch.cat([(answer[name] / noise).flatten() for name, noise in deviations.items()])
        unit = torch.cat([polynomial.slope.flatten() for polynomial in step.polynomials(deviations)])
        return share, unit.double() / self.plan.batch_size


def run_cases() -> list[WholeRun]:
    """A run of the method, and one of DP-SGD."""
    return [WholeRun("whole run"), WholeRun("whole run, DP-SGD", Gradients(), quick=False)]
