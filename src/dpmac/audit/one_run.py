"""Many canaries in one training run: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run".

A fair coin for each of m canaries decides whether it stands in the table. One run is made. The attacker then guesses
some coins, and says nothing of the others. If the run is (epsilon, delta)-differentially private for one row, there or
blank, then v or more of r guesses are right with a chance of at most

    P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i,    i = 1 .. m,    W ~ Binomial(r, 1 / (1 + e^-epsilon))

(their theorem on approximate differential privacy; it holds whatever the canaries have to do with each other). The
lower bound is the largest epsilon for which that is at most the chance of being wrong that the look has. One run proves
less than thousands do: a fifth to a quarter of the claim. It is the audit that a large model can pay for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import betainc, gammaln
from torch import Tensor

from dpmac.audit.curves import Claim
from dpmac.audit.findings import Effort, Finding
from dpmac.audit.notes import Notes
from dpmac.audit.steps import OUTRAGE
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import JointClip, Plan, PrivateRows
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer

GUESSES = "guesses"
LENGTH = 30  # of a canary's input, so that its bias hardly counts: canaries are then orthogonal but for a thousandth
HALVINGS = 30
PARTS = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 60)  # of 200: canaries to guess on either side
IDEAL = 5  # runs of the mechanism as it should be, by which the number of guesses is chosen
TOP = 30.0  # epsilons are sought up to it


def chance(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The chance, at most, of ``v`` right among ``r`` guesses on ``m`` coins under (epsilon, delta)-privacy."""
    p = 1.0 / (1.0 + np.exp(-epsilon))
    tail = 1.0
    if v > 0:
        tail = float(betainc(v, r - v + 1, p))
    below = np.arange(v - 1, -1, -1)  # v - 1, v - 2, ..., 0
    if not len(below):
        return 1.0
    logs = gammaln(r + 1) - gammaln(below + 1) - gammaln(r - below + 1)
    mass = np.exp(logs + below * np.log(p) + (r - below) * np.log1p(-p))
    worst = float(np.max(np.cumsum(mass) / np.arange(1, v + 1)))
    return min(1.0, tail + 2 * m * delta * worst)


def proven(m: int, r: int, v: int, delta: float, miss: float) -> float:
    """The largest epsilon, from below, that ``v`` right of ``r`` guesses refute with a chance of error of ``miss``."""
    if r == 0 or chance(m, r, v, 0.0, delta) > miss:
        return 0.0
    low, high = 0.0, TOP
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if chance(m, r, v, middle, delta) <= miss:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class ManyCanaries:
    """A linear model with an input for every canary, trained by DP-SGD on all rows: one run, one look."""

    name: str = "many canaries, one run"
    steps: int = 4
    sigma: float = 1.5
    delta: float = 1e-8  # the theorem adds up to 2 m delta to a chance: 1e-5 would drown it
    share: float = 1.0
    quick: bool = True
    looks: int = 1

    def judge(self, effort: Effort, miss: float) -> list[Finding]:
        """How many coins are guessed is chosen before the run is made."""
        m = effort.canaries
        side = self._guesses(m, miss)
        source = SystemNoise()
        coins = source.uniform(m) < 0.5
        scores, claim = self._run(coins)
        right = correct(scores, coins, side)
        claimed, found = epsilon_of(claim, self.delta), proven(m, 2 * side, right, self.delta, miss)
        return [
            Finding(
                case=self.name,
                attacker=GUESSES,
                claim="; ".join(one.describe() for one in claim),
                claimed_epsilon=claimed,
                epsilon=found,
                ratio=found / claimed,
                reach=1.0,
                draws=1,
                delta=self.delta,
                said_without=2 * side - right,
                said_with=right,
            )
        ]

    def _run(self, coins: Tensor) -> tuple[Tensor, Claim]:
        """The score of every canary, by all that one real run released; and what its ledger says."""
        m = len(coins)
        table = PrivateRows(LENGTH * torch.eye(m), torch.full((m, 1), OUTRAGE))
        for place in torch.nonzero(~coins).flatten().tolist():
            table = table.without(place)
        plan = Plan(m, m, self.steps, self.sigma, self.delta)
        seen: list[Tensor] = []  # every step's slope for every canary; its share is -1 in units of the bound
        notes = Notes(lambda _, polynomials: seen.append(-polynomials[0].slope[0, :m] * plan.batch_size / self.sigma))
        network = DenseNetwork([m, 1], "tanh", source=SeededNoise(1))
        run = Trainer.dp_sgd(network, loss("squared"), plan, JointClip(1.0), wstep=notes).fit(table)
        return torch.stack(seen).sum(dim=0), run.ledger.mechanisms()

    def _guesses(self, m: int, miss: float) -> int:
        """A side: of the canaries that look most there, and of those that look most blank. By ideal runs."""
        source = SystemNoise()
        ideal = []
        for _ in range(IDEAL):
            coins = source.uniform(m) < 0.5
            ideal.append((source.normal((m,)) + coins * math.sqrt(self.steps) / self.sigma, coins))
        sides = sorted({max(1, m * part // 200) for part in PARTS})

        def proven_in_all(side: int) -> float:
            return sum(proven(m, 2 * side, correct(*one, side), self.delta, miss) for one in ideal)

        return max(sides, key=proven_in_all)


def correct(scores: Tensor, coins: Tensor, side: int) -> int:
    """Right guesses: "there" of the ``side`` highest scores, "blank" of as many lowest."""
    order = torch.argsort(scores)
    return int(coins[order[-side:]].sum()) + int((~coins[order[:side]]).sum())
