"""Do the intervals of private scores cover what they should? ``python benchmarks/evaluation.py``.

Made-up tables of rows whose true scores are known: a model says log-odds that are normal over people, and outcomes
follow them, times ``slope`` (1: a calibrated model). Each table is tallied by the very tallies of an evaluation, with
the noise of its release, and scored. Nothing else of a release is needed here: other tests have that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from dpmac.evaluation.classes import MOST_LOSS, Classes
from dpmac.evaluation.result import Score
from dpmac.methods.scores import Array, Scores, Tallied

DELTA = 1e-5
SETTINGS = ((2000, 1.0), (2000, 2.0), (10_000, 0.5))


@dataclass(frozen=True)
class People:
    """Log-odds that a model says are N(middle, spread); outcomes have these times ``slope``."""

    middle: float = -2.0
    spread: float = 2.0
    slope: float = 1.0

    def table(self, n: int, draw: np.random.Generator) -> tuple[Array, Array]:
        said = draw.normal(self.middle, self.spread, n)
        return said, draw.random(n) < _logistic(self.slope * said)

    def truth(self) -> dict[str, float]:
        """By integration over log-odds."""
        at = np.linspace(self.middle - 8 * self.spread, self.middle + 8 * self.spread, 40_001)
        weight = np.exp(-(((at - self.middle) / self.spread) ** 2) / 2)
        weight /= weight.sum()
        positive = weight * _logistic(self.slope * at)
        negative = weight - positive
        rate, called = positive.sum(), at >= 0
        below = np.cumsum(negative) - negative / 2
        above = np.cumsum(positive[::-1])[::-1] - positive / 2
        everybody = np.cumsum(weight[::-1])[::-1] - weight / 2
        p = _logistic(at)
        loss = np.stack([-np.log1p(-p), -np.log(p)]).clip(0, MOST_LOSS)
        return {
            "auroc": float((positive * below).sum() / (rate * (1 - rate))),
            "average_precision": float((positive * above / everybody.clip(1e-300)).sum() / rate),
            "base_rate": float(rate),
            "sensitivity_at_0.5": float(positive[called].sum() / rate),
            "specificity_at_0.5": float(negative[~called].sum() / (1 - rate)),
            "precision_at_0.5": float(positive[called].sum() / weight[called].sum()),
            "accuracy": float(positive[called].sum() + negative[~called].sum()),
            "log_loss": float((negative * loss[0] + positive * loss[1]).sum()),
            "brier_score": float((negative * p**2 + positive * (1 - p) ** 2).sum()),
        }


def _logistic(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def evaluations(
    people: People, n: int, epsilon: float, draws: int, seed: int = 1
) -> Iterator[tuple[Score, dict[str, float]]]:
    """Scores of made-up tables, and what each table's own AUROC and average precision are."""
    draw = np.random.default_rng(seed)
    kind = Classes(lambda u: torch.softmax(u, dim=1), 2, 1, {})
    scores = Scores.for_budget(epsilon, DELTA, kind.tallies())
    whole = math.fsum(tally.share for tally in scores.tallies)
    noise = {tally.name: scores.noise_multiplier * math.sqrt(whole / tally.share) for tally in scores.tallies}
    for _ in range(draws):
        said, y = people.table(n, draw)
        u = torch.from_numpy(np.stack([np.zeros(n), said], axis=1))
        targets = torch.from_numpy(np.stack([~y, y], axis=1).astype(float))
        sums = {tally.name: tally.of(u, targets).sum(dim=0).numpy() for tally in scores.tallies}
        noisy = {name: total + noise[name] * draw.normal(size=total.shape) for name, total in sums.items()}
        own = {"auroc": float(roc_auc_score(y, said)), "average_precision": float(average_precision_score(y, said))}
        yield kind.score(Tallied(noisy, noise, n)), own


def covered(people: People, n: int, epsilon: float, draws: int, seed: int = 1) -> dict[str, tuple[float, float, float]]:
    """Of every figure: how often its interval holds the truth, its root mean square error from it, and from the figure
    of the table at hand (NaN where that is not kept)."""
    truth = people.truth()
    held, off, own_off = ({name: list[float]() for name in truth} for _ in range(3))
    for score, own in evaluations(people, n, epsilon, draws, seed):
        for name, figure in score.figures.items():
            held[name].append(figure.low <= truth[name] <= figure.high)
            off[name].append(figure.value - truth[name])
            own_off[name].append(figure.value - own.get(name, math.nan))
    return {name: (float(np.mean(held[name])), _size(off[name]), _size(own_off[name])) for name in truth if held[name]}


def _size(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def main(draws: int = 1000) -> None:
    print(f"{draws} evaluations of each; error: from the truth, and from the score of the table at hand")
    for n, epsilon in SETTINGS:
        print(f"\n{n:,} rows, epsilon {epsilon:g}\n{'':20} covered   error   of the table")
        for name, (share, error, own) in covered(People(), n, epsilon, draws).items():
            print(f"{name:20} {share:7.1%}  {error:.4f}   {'' if math.isnan(own) else f'{own:.4f}'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
