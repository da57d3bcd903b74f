"""The random numbers that a drawing is made of, from a public seed. They are never used for privacy.

Two sources of one kind: :class:`Repeatable` gives the same bits on every machine and is what priors draw with;
:class:`Quick` draws on a device of one's choice and is what an encoder is trained with, where the exact bits of
millions of drawings do not matter.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpmac.randomness import NoiseSource

GRID = 2.0**20  # sines and cosines are multiples of 1 / GRID: machines do not round them alike
_STEPS = 2.0**24  # numbers in [0, 1) that single precision holds exactly


class Draws(Protocol):
    """A stream of public random numbers in NumPy: :class:`dpmac.priors.draws.Draws`."""

    def uniform(self, *shape: int) -> np.ndarray[Any, Any]:
        """Independent numbers in [0, 1)."""

    def order(self, count: int) -> np.ndarray[Any, Any]:
        """The numbers 0 .. count - 1 in random order."""


class Numbers(Protocol):
    """What drawings draw with: single precision, on one device."""

    device: torch.device

    def uniform(self, *shape: int) -> Tensor:
        """Independent numbers in [0, 1)."""

    def order(self, count: int) -> Tensor:
        """The numbers 0 .. count - 1 in random order."""


class Repeatable:
    """Numbers of ``draws``, the same bits on every machine: multiples of 2**-24, on the CPU."""

    def __init__(self, draws: Draws) -> None:
        self.draws, self.device = draws, torch.device("cpu")

    def uniform(self, *shape: int) -> Tensor:
        return torch.from_numpy(np.floor(self.draws.uniform(*shape) * _STEPS) / _STEPS).float()

    def order(self, count: int) -> Tensor:
        return torch.from_numpy(self.draws.order(count))


class Quick:
    """Numbers of a noise source, drawn where they are needed: the same on machines of one kind only."""

    def __init__(self, source: NoiseSource, device: torch.device | str = "cpu") -> None:
        self.source, self.device = source, torch.device(device)

    def uniform(self, *shape: int) -> Tensor:
        drawn: Tensor = torch.special.ndtr(self.source.normal(shape, self.device))
        return drawn.float().clamp_(max=1.0 - 1.0 / _STEPS)

    def order(self, count: int) -> Tensor:
        return torch.argsort(self.source.normal((count,), self.device))


def between(numbers: Numbers, low: float, high: float, *shape: int) -> Tensor:
    """Independent numbers in [low, high)."""
    return low + (high - low) * numbers.uniform(*shape)


def turns(numbers: Numbers, *shape: int, most: float = math.pi) -> tuple[Tensor, Tensor]:
    """Cosines and sines of angles in [-most, most), as multiples of 1 / GRID."""
    return cosine_and_sine((2.0 * numbers.uniform(*shape) - 1.0).double() * most)


def cosine_and_sine(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Of angles in double precision, on the grid and in single precision."""
    return on_grid(torch.cos(angles)), on_grid(torch.sin(angles))


def on_grid(values: Tensor) -> Tensor:
    """``values`` as multiples of 1 / GRID, in single precision."""
    return (torch.round(values * GRID) / GRID).float()


def chosen_with(numbers: Numbers, chance: float, *shape: int) -> Tensor:
    """True with probability ``chance``."""
    return numbers.uniform(*shape) < chance


def places(size: int, device: torch.device) -> Tensor:
    """The middles of a row of ``size`` pixels, from -1 to 1."""
    return on_grid((2.0 * torch.arange(size, dtype=torch.float64, device=device) + 1.0) / size - 1.0)
