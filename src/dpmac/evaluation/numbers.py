"""A regressor's private scores: squared errors by shells, as of :mod:`dpmac.methods.residuals`, and bounded sums.

A sum of squared errors needs noise as large as the largest error that a row could have. By shells, a shell's noise
counts for as little as the shell is small. The sums are of the error's sign and size, of the target and its square (for
R2), and of how many targets lie within 1.645 standard deviations of the prediction, if the model knows its own error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpmac.evaluation.intervals import Figure, Z, of_mean
from dpmac.evaluation.result import Score
from dpmac.methods.residuals import EDGES, SHELLS, mean_square, shells
from dpmac.methods.scores import Tallied, Tally, counts, means, numbers

SQUARES, SUMS = "squared errors", "sums"
SHARES = {SQUARES: 0.6, SUMS: 0.4}
GROUPS = 0.15
WITHIN = 1.645  # standard deviations: 90 % of a normal distribution


@dataclass(frozen=True)
class Numbers:
    """Targets and outputs are within [-1, 1], the public range from ``low`` to ``high``; ``deviation`` is the error
    that the model knows of itself, in that unit, or None."""

    low: float
    high: float
    deviation: float | None
    groups: Mapping[str, Sequence[str]]

    def tallies(self) -> list[Tally]:
        of: list[Any] = [_mean_error, _size, _target, _target_square]
        if self.deviation is not None:
            of.append(partial(_covered, WITHIN * self.deviation))
        found = [Tally(SQUARES, SHELLS, SHARES[SQUARES], _shells), numbers(SUMS, SHARES[SUMS], of)]
        for place, (name, values) in enumerate(self.groups.items(), start=1):
            found.append(counts(f"group {name}", GROUPS / 2, len(values), partial(_code, place)))
            found.append(Tally(f"errors of {name}", len(values), GROUPS, partial(_sizes, place, len(values))))
        return found

    def score(self, found: Tallied) -> Score:
        n, half = found.n, (self.high - self.low) / 2
        every, noise = means(found, SUMS)
        error, size, target, square = (float(one) for one in every[:4])
        mse = 4.0 * mean_square((found.sums[SQUARES] / n).tolist(), found.noise[SQUARES] / n)
        off = self._error_of_square(found, mse)
        spread = max(4.0 * (square - target**2), 1e-12)  # the targets' variance
        spread_off = 4.0 * math.hypot(noise, 2 * target * noise, math.sqrt(max(square * (1 - square), 0.0) / n))
        figures = {
            "rmse": _scaled(_root(mse, off), half),
            "mean_absolute_error": _scaled(of_mean(2 * size, 2 * math.hypot(noise, _of_size(mse, n)), high=2.0), half),
            "mean_error": _scaled(
                of_mean(4 * (error - 0.5), math.hypot(4 * noise, math.sqrt(mse / n)), -2.0, 2.0), half
            ),
            "r2": of_mean(1 - mse / spread, math.hypot(off / spread, mse * spread_off / spread**2), -9.0, 1.0),
        }
        if self.deviation is not None:
            rate = min(max(float(every[4]), 0.0), 1.0)
            figures["coverage_of_90_percent_band"] = of_mean(
                rate, math.hypot(noise, math.sqrt(max(rate * (1 - rate), 0.25 / n) / n))
            )
        return Score(figures, groups=self._subgroups(found, half))

    def _error_of_square(self, found: Tallied, mse: float) -> float:
        """The deviation of the mean squared error: of the noise in shells that count, and of sampling (at most)."""
        n = found.n
        sizes = [4.0 * edge**2 for edge in EDGES]
        means_ = [max(float(one) / n, 0.0) for one in found.sums[SQUARES]]
        clear = [b for b in range(SHELLS) if found.sums[SQUARES][b] > 2.5 * found.noise[SQUARES]] or [SHELLS - 1]
        noise = math.sqrt(sum((sizes[b] * found.noise[SQUARES] / n) ** 2 for b in range(clear[0], SHELLS)))
        fourth = sum(sizes[b] ** 2 * means_[b] for b in range(clear[0], SHELLS))
        return math.hypot(noise, math.sqrt(max(fourth - mse**2, mse**2) / n))

    def _subgroups(self, found: Tallied, half: float) -> dict[str, dict[str, dict[str, Figure]]]:
        every: dict[str, dict[str, dict[str, Figure]]] = {}
        for name, values in self.groups.items():
            rows, noise = found.sums[f"group {name}"], found.noise[f"group {name}"]
            errors, theirs = found.sums[f"errors of {name}"], found.noise[f"errors of {name}"]
            every[name] = {}
            for k, value in enumerate(values):
                count = float(rows[k])
                shares = of_mean(count / found.n, math.hypot(noise, math.sqrt(max(count, 0.0))) / found.n)
                every[name][value] = {"share": shares}
                if count > 4 * noise:
                    mean = 2.0 * float(errors[k]) / count
                    off = math.hypot(2.0 * theirs / count, mean * noise / count, mean / math.sqrt(count))
                    every[name][value]["mean_absolute_error"] = _scaled(of_mean(mean, off, high=2.0), half)
        return every


def _error(u: Tensor, y: Tensor) -> Tensor:
    return torch.nan_to_num(u[:, 0]).clamp(-1, 1) - y[:, 0].clamp(-1, 1)


def _mean_error(u: Tensor, y: Tensor) -> Tensor:
    return (_error(u, y) + 2) / 4


def _size(u: Tensor, y: Tensor) -> Tensor:
    return _error(u, y).abs() / 2


def _target(u: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001 - of the target alone
    return (y[:, 0].clamp(-1, 1) + 1) / 2


def _target_square(u: Tensor, y: Tensor) -> Tensor:
    return _target(u, y).square()


def _covered(most: float, u: Tensor, y: Tensor) -> Tensor:
    return (_error(u, y).abs() <= most).double()


def _shells(u: Tensor, y: Tensor) -> Tensor:
    return shells(_size(u, y).square().unsqueeze(1))


def _code(place: int, u: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001 - of the column alone
    return y[:, place]


def _sizes(place: int, values: int, u: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y[:, place].long(), values).double() * _size(u, y).unsqueeze(1)


def _of_size(mse: float, n: int) -> float:
    """The deviation of the mean of |error| / 2 over rows, at most."""
    return math.sqrt(mse) / 2 / math.sqrt(n)


def _root(square: float, off: float) -> Figure:
    ends = [math.sqrt(max(square + way * Z * off, 0.0)) for way in (0, -1, 1)]
    return Figure(*ends)


def _scaled(figure: Figure, unit: float) -> Figure:
    return Figure(figure.value * unit, figure.low * unit, figure.high * unit)
