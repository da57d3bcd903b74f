"""A classifier's private scores: which tallies are released, and what follows from them.

Of two classes a histogram of label by score bin (2 x 16 cells), and sums of: called right, positive, Brier score,
log-loss up to 5. The probabilities in a bin are known to the bin's width, so where in their bins they lie is released
too, for the calibration. Of more classes the histogram is of right or wrong by the probability of the likeliest.
Subgroups have counts of label by call (of more classes right or wrong), in histograms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.evaluation import curves
from dpmac.evaluation.cells import balanced, possible, smoothed
from dpmac.evaluation.intervals import Figure, of_mean, of_rates, simulated
from dpmac.evaluation.result import Score, Threshold
from dpmac.methods.scores import Array, Tallied, Tally, counts, means, numbers
from dpmac.randomness import NoiseSource

CELLS, SUMS, WITHIN = "label by score", "sums", "score within its bin"
SHARES = {CELLS: 0.62, SUMS: 0.33, WITHIN: 0.05}
GROUPS = 0.15  # of the release, for each column of subgroups
MOST_LOSS = 5.0  # a log-loss beyond this counts as this
EDGES = torch.from_numpy(curves.EDGES)
ENDS = torch.tensor([0.0, *curves.EDGES, 1.0], dtype=torch.float64)
_FEW = 4.0  # a rate among fewer rows than so many deviations of their count is not shown
Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Classes:
    """``place`` is the positive one of two classes; None if there are more. ``predict`` gives probabilities of outputs;
    ``groups`` are the subgroups' columns with their values, whose codes are the last columns of the targets."""

    predict: Predict
    classes: int
    place: int | None
    groups: Mapping[str, Sequence[str]]

    def tallies(self) -> list[Tally]:
        """What is released of every row."""
        k = self.classes
        of: list[Any] = [self._right, self._positive, partial(_brier, self.predict, k), partial(_loss, self.predict, k)]
        found = [
            counts(CELLS, SHARES[CELLS], 2 * curves.BINS, self._cell),
            numbers(SUMS, SHARES[SUMS], of),
            Tally(WITHIN, curves.BINS, SHARES[WITHIN], self._within),
        ]
        for number, (name, values) in enumerate(self.groups.items()):
            place = k + number
            found.append(counts(f"group {name}", GROUPS, 4 * len(values), partial(self._group_cell, place)))
        return found

    # --- one row ------------------------------------------------------------------------------------------------------

    def _said(self, u: Tensor) -> Tensor:
        """The probability that is binned: of the positive class, or of the likeliest."""
        p = torch.nan_to_num(self.predict(u)).clamp(0.0, 1.0)
        if self.place is None:
            return p.amax(dim=1)
        return p[:, self.place]

    def _right(self, u: Tensor, y: Tensor) -> Tensor:
        if self.place is not None:
            return ((self._said(u) >= 0.5) == (y[:, self.place] > 0.5)).double()
        return (self.predict(u).argmax(dim=1) == y[:, : self.classes].argmax(dim=1)).double()

    def _positive(self, u: Tensor, y: Tensor) -> Tensor:
        if self.place is None:
            return self._right(u, y)
        return y[:, self.place]

    def _bin(self, u: Tensor) -> Tensor:
        return torch.bucketize(self._said(u).contiguous(), EDGES.to(u.device), right=True)

    def _cell(self, u: Tensor, y: Tensor) -> Tensor:
        return (self._positive(u, y) > 0.5) * curves.BINS + self._bin(u)

    def _within(self, u: Tensor, y: Tensor) -> Tensor:  # noqa: ARG002 - of outputs alone
        place, ends = self._bin(u), ENDS.to(u.device)
        low, high = ends[place], ends[place + 1]
        away = 2.0 * (self._said(u) - low) / (high - low) - 1.0
        return torch.nn.functional.one_hot(place, curves.BINS).double() * away.clamp(-1.0, 1.0).unsqueeze(1)

    def _group_cell(self, place: int, u: Tensor, y: Tensor) -> Tensor:
        called = self._said(u) >= 0.5
        if self.place is None:
            called = self._right(u, y) > 0.5
        return y[:, place] * 4 + (self._positive(u, y) > 0.5) * 2 + called

    # --- what follows -------------------------------------------------------------------------------------------------

    def score(self, found: Tallied) -> Score:
        """Every figure with its interval, thresholds to choose from, and subgroups."""
        n, shape = found.n, (2, curves.BINS)
        (right, positive, brier, loss), noise = means(found, SUMS)
        deviation, sums_noise = found.noise[CELLS], noise * n
        known = [(_POSITIVE, positive * n, sums_noise)]
        if self.place is not None:
            known.append((_RIGHT, right * n, sums_noise))
        cells = balanced(found.sums[CELLS].reshape(shape), deviation, known, n)
        shares = smoothed(possible(cells, n))

        def again(exact: Array, source: NoiseSource) -> Array:
            noisy = exact + deviation * source.normal(exact.shape).numpy()
            errors = sums_noise * source.normal((len(known), len(exact))).numpy()
            totals = [(exact * mask).sum(axis=(-1, -2)) for mask, *_ in known]
            sums = [(known[k][0], totals[k] + errors[k], sums_noise) for k in range(len(known))]
            return balanced(noisy, deviation, sums, n)

        others = simulated(shares, n, again)
        figures: dict[str, Figure] = {}
        thresholds: list[Threshold] = []
        if self.place is not None:
            for name in ("auroc", "average_precision", "base_rate"):
                of = getattr(curves, name)
                figures[name] = of_rates(float(of(cells)), of(others))
            thresholds = [_threshold(cells, others, first, found) for first in range(1, curves.BINS)]
            at = thresholds[curves.HALF - 1]
            figures |= {f"{name}_at_0.5": rate for name, rate in at.rates().items() if name != "called"}
        spread = _spreads(possible(cells, n), n)
        figures["accuracy"] = of_mean(float(right), math.hypot(noise, math.sqrt(max(right * (1 - right), 0.0) / n)))
        if self.place is not None:
            figures["accuracy"] = of_rates(float(curves.accuracy(cells)), curves.accuracy(others))
        figures["log_loss"] = of_mean(float(loss) * MOST_LOSS, MOST_LOSS * math.hypot(noise, spread[1]), high=MOST_LOSS)
        figures["brier_score"] = of_mean(
            float(brier) * _sides(self.classes), _sides(self.classes) * math.hypot(noise, spread[0]), high=2.0
        )
        bins = _reliability(cells, found, self.place is None)
        return Score(figures, thresholds, bins, self._subgroups(found))

    def _subgroups(self, found: Tallied) -> dict[str, dict[str, dict[str, Figure]]]:
        every: dict[str, dict[str, dict[str, Figure]]] = {}
        for name, values in self.groups.items():
            noise = found.noise[f"group {name}"]
            each = found.sums[f"group {name}"].reshape(len(values), 2, 2)
            every[name] = {value: self._subgroup(each[k], noise, found.n) for k, value in enumerate(values)}
        return every

    def _subgroup(self, cells: Array, noise: float, n: int) -> dict[str, Figure]:
        """Rates of one subgroup, by counts of label by call; those among too few rows are left out."""
        total = float(cells.sum())
        rates = {
            "share": Figure(
                *(
                    np.clip(
                        [total / n] * 3
                        + np.array([0, -1, 1]) * 1.96 * math.hypot(2 * noise, math.sqrt(max(total, 0.0))) / n,
                        0,
                        1,
                    )
                )
            )
        }
        wanted = {"accuracy": (cells[0, 0] + cells[1, 1], total, 4)}
        if self.place is None:
            wanted = {"accuracy": (cells[:, 1].sum(), total, 4)}
        else:
            wanted |= {
                "base_rate": (cells[1].sum(), total, 4),
                "sensitivity": (cells[1, 1], float(cells[1].sum()), 2),
                "specificity": (cells[0, 0], float(cells[0].sum()), 2),
                "called": (cells[:, 1].sum(), total, 4),
            }
        for name, (part, whole, many) in wanted.items():
            if whole > _FEW * noise * math.sqrt(many):
                rates[name] = _ratio(float(part), whole, noise, many)
        return rates


_POSITIVE = np.zeros((2, curves.BINS))
_POSITIVE[1] = 1.0
_RIGHT = np.zeros((2, curves.BINS))
_RIGHT[0, : curves.HALF] = _RIGHT[1, curves.HALF :] = 1.0


def _sides(classes: int) -> float:
    """What a Brier score of 1 stands for: of two classes it is (p - y)^2, of more the sum over classes, 2 at most."""
    return 1.0 if classes == 2 else 2.0


def _brier(predict: Predict, classes: int, u: Tensor, y: Tensor) -> Tensor:
    return (predict(u) - y[:, :classes]).square().sum(dim=1) / 2.0


def _loss(predict: Predict, classes: int, u: Tensor, y: Tensor) -> Tensor:
    p = (torch.nan_to_num(predict(u)) * y[:, :classes]).sum(dim=1)
    return -p.clamp(1e-30, 1.0).log() / MOST_LOSS


def _ratio(part: float, whole: float, noise: float, many: int) -> Figure:
    """A share of ``whole``, which has ``many`` noisy cells of which half are in the part."""
    rate = min(max(part / whole, 0.0), 1.0)
    half = many / 2
    noisy = noise * math.sqrt(half * (1 - rate) ** 2 + half * rate**2) / whole
    return of_mean(rate, math.hypot(noisy, math.sqrt(max(rate * (1 - rate), 0.25 / whole) / whole)))


def _spreads(shares: Array, n: int) -> tuple[float, float]:
    """The deviations of the mean Brier score and of the mean log-loss over its largest, by the bins' middles."""
    p = 1.0 / (1.0 + np.exp(-curves.MIDDLES))
    weights = shares / shares.sum()
    squares = np.stack([p**2, (1 - p) ** 2])
    losses = np.stack([-np.log(1 - p), -np.log(p)]).clip(0, MOST_LOSS) / MOST_LOSS
    found = [
        math.sqrt(max(float((weights * x**2).sum() - (weights * x).sum() ** 2), 0.0) / n) for x in (squares, losses)
    ]
    return found[0], found[1]


def _threshold(cells: Array, others: Array, first: int, found: Tallied) -> Threshold:
    """Rates at the lower edge of bin ``first``; a precision among too few rows is None."""
    rates = {
        name: of_rates(float(of(cells, first)), of(others, first))
        for name, of in (
            ("sensitivity", curves.sensitivity),
            ("specificity", curves.specificity),
            ("called", curves.called),
        )
    }
    precision = None
    some = 2 * (curves.BINS - first)
    if curves.called(cells, first) * found.n > _FEW * found.noise[CELLS] * math.sqrt(some):
        precision = of_rates(float(curves.precision(cells, first)), curves.precision(others, first))
    return Threshold(
        float(curves.EDGES[first - 1]), rates["sensitivity"], rates["specificity"], precision, rates["called"]
    )


def _reliability(cells: Array, found: Tallied, several: bool) -> list[dict[str, float]]:
    """What was predicted and what was so, in bins that have enough rows for the noise; others are joined."""
    del several
    ends = ENDS.numpy()
    middles, halves = (ends[:-1] + ends[1:]) / 2, (ends[1:] - ends[:-1]) / 2
    both = cells.sum(axis=0)
    said = both * middles + halves * found.sums[WITHIN]
    least = 8.0 * found.noise[CELLS]
    bins, kept = list[dict[str, float]](), [0.0, 0.0, 0.0]
    low = 0.0
    for k in range(curves.BINS):
        kept = [kept[0] + both[k], kept[1] + said[k], kept[2] + cells[1, k]]
        if kept[0] >= least and (both[k + 1 :].sum() >= least or k == curves.BINS - 1):
            rate = _ratio(float(kept[2]), float(kept[0]), found.noise[CELLS], 2)
            predicted = float(np.clip(kept[1] / kept[0], low, ends[k + 1]))
            bins.append(
                {
                    "low": low,
                    "high": float(ends[k + 1]),
                    "rows": max(0, round(float(kept[0]))),
                    "predicted": predicted,
                    "observed": rate.value,
                    "observed_low": rate.low,
                    "observed_high": rate.high,
                }
            )
            low, kept = float(ends[k + 1]), [0.0, 0.0, 0.0]
    if bins and low < 1.0:  # the rest joins the last
        bins[-1]["high"] = 1.0
    return bins
