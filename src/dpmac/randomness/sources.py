"""The source of all random numbers of a private release, which nobody can predict or replay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dpmac.kernels.chacha import gaussians_on, steps_on
from dpmac.kernels.gaps import RARE, rare_places
from dpmac.kernels.gaussian import gaussians, places, uniforms
from dpmac.kernels.mixture import steps
from dpmac.kernels.streams import AESStream


class NoiseSource(Protocol):
    """Independent random numbers in double precision. Every call gives fresh ones: a source never repeats itself."""

    @property
    def seeded(self) -> bool:
        """True if someone who knows a seed could replay the draws."""

    def uniform(self, count: int) -> Tensor:
        """``count`` independent draws from [0, 1), on the CPU."""

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        """A tensor of independent draws from N(0, 1)."""

    def steps(self, sizes: Sequence[int], bits: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """Independent draws of round(2**bits N), N from N(0, 1), in lots of these sizes: whole numbers in float64.

        ``bits`` is at most 48. The next lot may overwrite the memory of this one.
        """

    def spawn(self, purpose: str) -> NoiseSource:
        """A source whose draws are independent of this one's and of any other purpose's."""


class SystemNoise:
    """The default: a cipher keyed by the operating system's cryptographic generator. Cannot be seeded or replayed.

    Every draw uses a fresh key of 256 bits and forgets it: AES in counter mode on the CPU, ChaCha20 on a CUDA device
    (:mod:`dpmac.kernels.streams`, ``chacha``). The source has no state, so threads and forked processes may share it,
    and a copy or a pickle is as good as a new one. The noise is exact (:mod:`dpmac.kernels.rounded`).
    """

    @property
    def seeded(self) -> bool:
        return False

    def uniform(self, count: int) -> Tensor:
        return uniforms(count, AESStream())

    def places(self, count: int, rate: float) -> Tensor:
        """A sorted sample of ``count`` places, each drawn independently with probability ``rate``."""
        return (rare_places if rate < RARE else places)(count, rate, AESStream())

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        count, kind = math.prod(shape), torch.device(device)
        if kind.type == "cuda":
            return gaussians_on(kind, count).reshape(tuple(shape))
        return gaussians(count, AESStream()).reshape(tuple(shape)).to(kind)

    def steps(self, sizes: Sequence[int], bits: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """Exactly distributed: the rounding of doubles does not affect the distribution at all."""
        kind = torch.device(device)
        if kind.type == "cuda":
            return (steps_on(kind, size, bits) for size in sizes)
        return (lot.to(kind) for lot in steps(sizes, bits, AESStream()))

    def spawn(self, purpose: str) -> SystemNoise:  # noqa: ARG002 - every draw is independent already
        return self

    def __repr__(self) -> str:
        return "SystemNoise()"


def shuffled(count: int, source: NoiseSource) -> Tensor:
    """A uniformly random permutation of 0 .. ``count`` - 1. (If two keys are equal, all are drawn again.)"""
    while True:
        # the system's random words serve as keys: there is no need to convert them to numbers in [0, 1)
        keys = AESStream().words(count).numpy() if type(source) is SystemNoise else source.uniform(count).numpy()
        order = np.argsort(keys)  # vectorised, unlike torch's sort; need not be stable, because no two keys are equal
        ranked = keys[order]
        if bool((ranked[1:] > ranked[:-1]).all()):
            return torch.from_numpy(order)
