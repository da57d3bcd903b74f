"""Where every random number of the package comes from.

Two sources stand behind one small protocol. :class:`SystemNoise` turns the operating system's cryptographic generator
into uniforms and Gaussians; nobody can guess or replay it. :class:`SeededNoise` is a fast, replayable generator for
research; a run that uses it is *not* private against someone who knows (or can guess) the seed, and the ledger and the
statement say so. The sampler, the release and the weights' initial values all draw here and nowhere else.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import integer

_TO_UNIT = 2.0**-53  # a double in [0, 1) has 53 random bits: right for sampling rates far below 1e-6


class NoiseSource(Protocol):
    """Independent standard draws, in double precision. Every call is fresh: nothing is ever drawn twice."""

    @property
    def seeded(self) -> bool:
        """True if someone who knows a seed could replay the draws."""

    def uniform(self, count: int) -> Tensor:
        """``count`` independent draws from [0, 1), on the CPU."""

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        """A tensor of independent draws from N(0, 1)."""

    def spawn(self, purpose: str) -> NoiseSource:
        """A source whose draws are independent of this one's and of any other purpose's."""


class SystemNoise:
    """The default: ``os.urandom``, the kernel's cryptographic generator. Cannot be seeded or replayed.

    Gaussians come from the Box-Muller transform in double precision, so their support ends at
    sqrt(2 * 53 * ln 2) = 8.57 standard deviations; the missing tail has probability about 1e-16 per draw.
    """

    @property
    def seeded(self) -> bool:
        return False

    def uniform(self, count: int) -> Tensor:
        words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        return torch.from_numpy((words >> np.uint64(11)).astype(np.float64) * _TO_UNIT)

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        count = math.prod(shape)
        half = (count + 1) // 2
        radius = torch.sqrt(-2.0 * torch.log1p(-self.uniform(half)))  # 1 - u is in (0, 1]: never log(0)
        angle = 2.0 * math.pi * self.uniform(half)
        both = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)])
        return both[:count].reshape(tuple(shape)).to(device)

    def spawn(self, purpose: str) -> SystemNoise:  # noqa: ARG002 - every draw is independent already
        return self

    def __repr__(self) -> str:
        return "SystemNoise()"


class SeededNoise:
    """For research: the same seed gives the same draws on the same kind of device. Never call such a run private."""

    def __init__(self, seed: int, _path: str = "") -> None:
        self.seed = integer("seed", seed, "give a whole number from 0 to 2**63 - 1", low=0, high=2**63 - 1)
        self._path = _path
        self._generators: dict[str, torch.Generator] = {}

    @property
    def seeded(self) -> bool:
        return True

    def uniform(self, count: int) -> Tensor:
        return torch.rand(count, dtype=torch.float64, generator=self._generator("cpu"))

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        kind = torch.device(device)
        return torch.randn(tuple(shape), dtype=torch.float64, device=kind, generator=self._generator(str(kind)))

    def spawn(self, purpose: str) -> SeededNoise:
        return SeededNoise(self.seed, f"{self._path}/{purpose}")

    def _generator(self, device: str) -> torch.Generator:
        if device not in self._generators:
            digest = hashlib.sha256(f"dpmac{self._path}:{self.seed}".encode()).digest()
            generator = torch.Generator(device=device)
            generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
            self._generators[device] = generator
        return self._generators[device]

    def __repr__(self) -> str:
        return f"SeededNoise(seed={self.seed}{', path=' + self._path if self._path else ''})"


def noise_source(random_state: int | None) -> NoiseSource:
    """Operating-system entropy for ``None``, a replayable generator for a number."""
    return SystemNoise() if random_state is None else SeededNoise(random_state)
