"""A regressor's private scores: squared errors by shells and as a whole, and bounded sums.

A sum of squared errors needs noise as large as the largest error that a row could have. By shells
(:mod:`dpmac.methods.residuals`) a shell's noise counts for as little as the shell is small. The sum of all squares,
less 1/2 each, has half the noise of the outermost shell, and bounds what may be there
(:mod:`dpmac.evaluation.squares`). Other sums are of the error's sign and size, of the target and its square (for R2),
and of how many targets lie within 1.645 standard deviations of the prediction, if the model knows its own error.
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
from dpmac.evaluation.squares import Squares, mean_of_squares
from dpmac.methods.residuals import SHELLS, shells
from dpmac.methods.scores import Tallied, Tally, counts, means, numbers

SQUARES, WHOLE, SUMS = "squared errors", "sum of squared errors", "sums"
SHARES = {SQUARES: 0.36, WHOLE: 0.3, SUMS: 0.34}
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
        found = [
            Tally(SQUARES, SHELLS, SHARES[SQUARES], _shells),
            numbers(WHOLE, SHARES[WHOLE], [_square]),
            numbers(SUMS, SHARES[SUMS], of),
        ]
        for place, (name, values) in enumerate(self.groups.items(), start=1):
            found.append(counts(f"group {name}", GROUPS / 2, len(values), partial(_code, place)))
            found.append(Tally(f"errors of {name}", len(values), GROUPS, partial(_sizes, place, len(values))))
        return found

    def score(self, found: Tallied) -> Score:
        n, half = found.n, (self.high - self.low) / 2
        every, noise = means(found, SUMS)
        error, size, target, square = (float(one) for one in every[:4])
        whole, whole_noise = means(found, WHOLE)
        squares = mean_of_squares(found.sums[SQUARES] / n, found.noise[SQUARES] / n, float(whole[0]), whole_noise, n)
        mse = 4.0 * squares.value
        chance = math.sqrt(max(squares.value - size**2, squares.value / 9) / n)  # of the mean of |error| / 2
        figures = {
            "rmse": _scaled(Figure(*(2 * math.sqrt(one) for one in (squares.value, squares.low, squares.high))), half),
            "mean_absolute_error": _scaled(of_mean(2 * size, 2 * math.hypot(noise, chance), high=2.0), half),
            "mean_error": _scaled(
                of_mean(4 * (error - 0.5), math.hypot(4 * noise, math.sqrt(mse / n)), -2.0, 2.0), half
            ),
            "r2": _explained(squares, 2 * target - 1, square, noise, n),
        }
        if self.deviation is not None:
            rate = min(max(float(every[4]), 0.0), 1.0)
            figures["coverage_of_90_percent_band"] = of_mean(
                rate, math.hypot(noise, math.sqrt(max(rate * (1 - rate), 0.25 / n) / n))
            )
        return Score(figures, groups=self._subgroups(found, half))

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


def _target_square(u: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001 - of the target alone
    return y[:, 0].clamp(-1, 1).square()


def _covered(most: float, u: Tensor, y: Tensor) -> Tensor:
    return (_error(u, y).abs() <= most).double()


def _square(u: Tensor, y: Tensor) -> Tensor:
    return _size(u, y).square()


def _shells(u: Tensor, y: Tensor) -> Tensor:
    return shells(_square(u, y).unsqueeze(1))


def _code(place: int, u: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001 - of the column alone
    return y[:, place]


def _sizes(place: int, values: int, u: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y[:, place].long(), values).double() * _size(u, y).unsqueeze(1)


def _explained(squares: Squares, mean: float, square: float, noise: float, n: int) -> Figure:
    """R2, by the targets' mean and mean square. By the chance of sampling, the variance of targets is off by as much as
    if they lay at both ends of their range, at most."""
    spread = max(square - mean**2, 1e-6)
    off = math.hypot(noise, 4 * mean * noise, math.sqrt(spread) * (1 + abs(mean)) / math.sqrt(n))
    value, low, high = (1 - 4 * one / spread for one in (squares.value, squares.high, squares.low))
    chance = Z * 4 * squares.value * off / spread**2
    ends = (value, value - math.hypot(value - low, chance), value + math.hypot(high - value, chance))
    return Figure(*(min(max(one, -9.0), 1.0) for one in ends))


def _scaled(figure: Figure, unit: float) -> Figure:
    return Figure(figure.value * unit, figure.low * unit, figure.high * unit)
