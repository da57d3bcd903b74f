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

_TO_UNIT = 2.0**-53  # a double in [0, 1) has 53 random bits: right for sampling rates down to 1e-9


class NoiseSource(Protocol):
    """Independent standard draws, in double precision. Every call is fresh: one source never repeats itself."""

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

    Gaussians come from the Box-Muller transform in double precision. The uniform behind the radius has 106 bits, so
    that it keeps full relative precision where it is tiny: the far tail is as fine as the middle, and ends only at 12
    standard deviations. (With 53 bits, radii beyond 7 would lie further apart than the grid that a release is
    rounded to, and a draw out there could rule a neighbouring table out.)
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
        tiny = self.uniform(half) + _TO_UNIT * (self.uniform(half) + _TO_UNIT)  # in (0, 1 + 2**-52): never log(0)
        radius = torch.sqrt(-2.0 * torch.log(torch.clamp(tiny, max=1.0)))
        angle = 2.0 * math.pi * self.uniform(half)
        both = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)])
        return both[:count].reshape(tuple(shape)).to(device)

    def spawn(self, purpose: str) -> SystemNoise:  # noqa: ARG002 - every draw is independent already
        return self

    def __repr__(self) -> str:
        return "SystemNoise()"


class SeededNoise:
    """For research: the same seed gives the same draws on the same kind of device. Never call such a run private.

    Besides being guessable, a seed replays: two runs with one seed on neighbouring tables share their noise, and the
    difference of the two models shows the row between them.
    """

    def __init__(self, seed: int, _path: str = "") -> None:
        self.seed = integer("seed", seed, "give a whole number from 0 to 2**63 - 1", low=0, high=2**63 - 1)
        self._path = _path
        self._numpy: np.random.Generator | None = None
        self._torch: dict[str, torch.Generator] = {}

    @property
    def seeded(self) -> bool:
        return True

    def uniform(self, count: int) -> Tensor:
        return torch.from_numpy(self._on_cpu().random(count))

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        kind = torch.device(device)
        if kind.type == "cpu":
            return torch.from_numpy(np.asarray(self._on_cpu().standard_normal(tuple(shape))))
        return torch.randn(tuple(shape), dtype=torch.float64, device=kind, generator=self._on_device(kind))

    def spawn(self, purpose: str) -> SeededNoise:
        return SeededNoise(self.seed, f"{self._path}/{purpose}")

    def _key(self) -> int:
        return int.from_bytes(hashlib.sha256(f"dpmac{self._path}:{self.seed}".encode()).digest(), "big")

    def _on_cpu(self) -> np.random.Generator:
        if self._numpy is None:  # torch's CPU generator keeps 32 bits of a seed; Philox takes a key of 128
            self._numpy = np.random.Generator(np.random.Philox(key=self._key() >> 128))
        return self._numpy

    def _on_device(self, device: torch.device) -> torch.Generator:
        if str(device) not in self._torch:
            generator = torch.Generator(device=device)
            generator.manual_seed(self._key() >> 193)
            self._torch[str(device)] = generator
        return self._torch[str(device)]

    def __repr__(self) -> str:
        return f"SeededNoise(seed={self.seed}{', path=' + self._path if self._path else ''})"


def noise_source(random_state: int | None) -> NoiseSource:
    """Operating-system entropy for ``None``, a replayable generator for a number."""
    return SystemNoise() if random_state is None else SeededNoise(random_state)


def shuffled(count: int, source: NoiseSource) -> Tensor:
    """0 .. ``count`` - 1 in an order drawn uniformly from all orders. (Keys that meet are drawn again, all of them.)"""
    while True:
        keys, order = torch.sort(source.uniform(count))
        if bool((keys[1:] > keys[:-1]).all()):
            return order
