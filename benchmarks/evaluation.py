"""Do the intervals of private scores cover what they should? ``python benchmarks/evaluation.py [classes|numbers]``.

Made-up tables of rows whose true scores are known. Of classes: a model says log-odds that are normal over people, and
outcomes follow them, times ``slope`` (1: a calibrated model). Of numbers: three kinds of errors around predictions.
Each table is tallied by the very tallies of an evaluation, with the noise of its release, and scored. Nothing else of a
release is needed here: other tests have that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from dpmac.evaluation.classes import MOST_LOSS, Classes
from dpmac.evaluation.numbers import WITHIN, Numbers
from dpmac.evaluation.result import Score
from dpmac.methods.scores import Array, Scores, Tallied

DELTA = 1e-5
SETTINGS = ((2000, 1.0), (2000, 2.0), (10_000, 0.5))


Drawn = tuple[torch.Tensor, torch.Tensor, dict[str, float]]  # outputs, targets, and some scores of this very table


class World(Protocol):
    """Where tables come from."""

    @property
    def kind(self) -> Classes | Numbers:
        """What is tallied of them."""

    def drawn(self, n: int, draw: np.random.Generator) -> Drawn:
        """A table of ``n`` rows."""

    def truth(self) -> dict[str, float]:
        """The scores of a table without end."""


@dataclass(frozen=True)
class People:
    """Log-odds that a model says are N(middle, spread); outcomes have these times ``slope``."""

    middle: float = -2.0
    spread: float = 2.0
    slope: float = 1.0

    def table(self, n: int, draw: np.random.Generator) -> tuple[Array, Array]:
        said = draw.normal(self.middle, self.spread, n)
        return said, draw.random(n) < _logistic(self.slope * said)

    @property
    def kind(self) -> Classes:
        return Classes(lambda u: torch.softmax(u, dim=1), 2, 1, {})

    def drawn(self, n: int, draw: np.random.Generator) -> Drawn:
        said, y = self.table(n, draw)
        own = {"auroc": float(roc_auc_score(y, said)), "average_precision": float(average_precision_score(y, said))}
        u = torch.from_numpy(np.stack([np.zeros(n), said], axis=1))
        return u, torch.from_numpy(np.stack([~y, y], axis=1).astype(float)), own

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


@dataclass(frozen=True)
class Amounts:
    """Targets of a range from -1 to 1, and predictions of them that are off by ``errors``: "normal", with a deviation
    of ``size``; "heavy", of a Laplace distribution of that deviation; "gross", normal but for one row of a hundred,
    which may be anywhere; or "skewed": amounts that are log-normal, as prices are, with errors in proportion. The model
    believes that its errors have the deviation ``size``."""

    errors: str = "normal"
    size: float = 0.15
    spread: float = 0.3

    @property
    def kind(self) -> Numbers:
        return Numbers(-1.0, 1.0, self.size, {})

    def table(self, n: int, draw: np.random.Generator) -> tuple[Array, Array]:
        if self.errors == "skewed":
            amounts = 0.15 * np.exp(0.8 * draw.normal(size=n))
            said, y = 2 * amounts - 1, 2 * amounts * np.exp(0.4 * draw.normal(size=n)) - 1
        else:
            said = self.spread * draw.normal(size=n)
            off = draw.normal(size=n)
            if self.errors == "heavy":
                off = draw.laplace(scale=math.sqrt(0.5), size=n)
            y = said + self.size * off
            if self.errors == "gross":
                y = np.where(draw.random(n) < 0.01, draw.uniform(-1, 1, n), y)
        return said.clip(-1, 1), y.clip(-1, 1)

    def drawn(self, n: int, draw: np.random.Generator) -> Drawn:
        said, y = self.table(n, draw)
        return torch.from_numpy(said)[:, None], torch.from_numpy(y)[:, None], self.scores(said, y)

    def scores(self, said: Array, y: Array) -> dict[str, float]:
        off = said - y
        return {
            "rmse": float(np.sqrt(np.mean(off**2))),
            "mean_absolute_error": float(np.mean(np.abs(off))),
            "mean_error": float(np.mean(off)),
            "r2": float(1 - np.mean(off**2) / np.var(y)),
            "coverage_of_90_percent_band": float(np.mean(np.abs(off) <= WITHIN * self.size)),
        }

    @cache  # noqa: B019 - of few worlds
    def truth(self) -> dict[str, float]:
        """Of ten million rows: a thousand times as many as a table has, or more."""
        return self.scores(*self.table(10_000_000, np.random.default_rng(0)))


AMOUNTS = (Amounts(), Amounts("heavy"), Amounts("skewed"), Amounts("gross", 0.05), Amounts(size=0.02))


def _logistic(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def evaluations(
    world: World, n: int, epsilon: float, draws: int, seed: int = 1
) -> Iterator[tuple[Score, dict[str, float]]]:
    """Scores of made-up tables, and what some of each table's own are."""
    draw, kind = np.random.default_rng(seed), world.kind
    scores = Scores.for_budget(epsilon, DELTA, kind.tallies())
    noise = {tally.name: scores.deviation(tally) for tally in scores.tallies}
    for _ in range(draws):
        u, targets, own = world.drawn(n, draw)
        sums = {tally.name: tally.of(u, targets).sum(dim=0).numpy() for tally in scores.tallies}
        noisy = {name: total + noise[name] * draw.normal(size=total.shape) for name, total in sums.items()}
        yield kind.score(Tallied(noisy, noise, n)), own


def covered(world: World, n: int, epsilon: float, draws: int, seed: int = 1) -> dict[str, tuple[float, float, float]]:
    """Of every figure: how often its interval holds the truth, its root mean square error from it, and from the figure
    of the table at hand (NaN where that is not kept)."""
    truth = world.truth()
    held, off, own_off = ({name: list[float]() for name in truth} for _ in range(3))
    for score, own in evaluations(world, n, epsilon, draws, seed):
        for name, figure in score.figures.items():
            held[name].append(figure.low <= truth[name] <= figure.high)
            off[name].append(figure.value - truth[name])
            own_off[name].append(figure.value - own.get(name, math.nan))
    return {name: (float(np.mean(held[name])), _size(off[name]), _size(own_off[name])) for name in truth if held[name]}


def _size(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def main(of: str = "classes", draws: int = 1000) -> None:
    print(f"{draws} evaluations of each; error: from the truth, and from the score of the table at hand")
    worlds: tuple[World, ...] = {"classes": (People(),), "numbers": AMOUNTS}[of]
    for world in worlds:
        for n, epsilon in SETTINGS:
            print(f"\n{world}\n{n:,} rows, epsilon {epsilon:g}\n{'':28} covered   error   of the table")
            for name, (share, error, own) in covered(world, n, epsilon, draws).items():
                print(f"{name:28} {share:7.1%}  {error:.4f}   {'' if math.isnan(own) else f'{own:.4f}'}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
