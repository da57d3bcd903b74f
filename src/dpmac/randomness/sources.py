"""Where every random number of a private release comes from: a source that nobody can guess or replay."""

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
from dpmac.kernels.rounded import steps
from dpmac.kernels.streams import AESStream


class NoiseSource(Protocol):
    """Independent standard draws, in double precision. Every call is fresh: one source never repeats itself."""

    @property
    def seeded(self) -> bool:
        """True if someone who knows a seed could replay the draws."""

    def uniform(self, count: int) -> Tensor:
        """``count`` independent draws from [0, 1), on the CPU."""

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        """A tensor of independent draws from N(0, 1)."""

    def steps(self, sizes: Sequence[int], bits: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """Independent draws of round(2**bits N), N from N(0, 1), in lots of these sizes: whole numbers, in float64.

        ``bits`` is 48 at most. A lot may lie in memory that the next one overwrites.
        """

    def spawn(self, purpose: str) -> NoiseSource:
        """A source whose draws are independent of this one's and of any other purpose's."""


class SystemNoise:
    """The default: a cipher keyed by the operating system's cryptographic generator. Cannot be seeded or replayed.

    Every draw takes a fresh key of 256 bits and forgets it: AES in counter mode on the CPU
    (:mod:`dpmac.kernels.streams`), ChaCha20 on a CUDA device, where the noise is then made in place
    (:mod:`dpmac.kernels.chacha`). The source itself holds nothing. So threads and forked processes may share it, and
    a copy or a pickle of it is as good as a new one. What a release adds is exact (:mod:`dpmac.kernels.rounded`).
    """

    @property
    def seeded(self) -> bool:
        return False

    def uniform(self, count: int) -> Tensor:
        return uniforms(count, AESStream())

    def places(self, count: int, rate: float) -> Tensor:
        """Those of ``count`` places that stand, each by itself with probability ``rate``, in order."""
        return (rare_places if rate < RARE else places)(count, rate, AESStream())

    def normal(self, shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
        count, kind = math.prod(shape), torch.device(device)
        if kind.type == "cuda":
            return gaussians_on(kind, count).reshape(tuple(shape))
        return gaussians(count, AESStream()).reshape(tuple(shape)).to(kind)

    def steps(self, sizes: Sequence[int], bits: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """Exactly distributed: not a bit of the law depends on how doubles are rounded."""
        kind = torch.device(device)
        if kind.type == "cuda":
            return (steps_on(kind, size, bits) for size in sizes)
        return (lot.to(kind) for lot in steps(sizes, bits, AESStream()))

    def spawn(self, purpose: str) -> SystemNoise:  # noqa: ARG002 - every draw is independent already
        return self

    def __repr__(self) -> str:
        return "SystemNoise()"


def shuffled(count: int, source: NoiseSource) -> Tensor:
    """0 .. ``count`` - 1 in an order drawn uniformly from all orders. (Keys that meet are drawn again, all of them.)"""
    while True:
        # the system's words as they are: nothing is gained by making them numbers between 0 and 1 first
        keys = AESStream().words(count).numpy() if type(source) is SystemNoise else source.uniform(count).numpy()
        order = np.argsort(keys)  # vectorised, unlike torch's sort; it need not be stable, for no two keys are equal
        ranked = keys[order]
        if bool((ranked[1:] > ranked[:-1]).all()):
            return torch.from_numpy(order)
