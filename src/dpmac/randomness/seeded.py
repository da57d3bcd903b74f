"""A source that anybody with the seed can replay: for research, never for privacy. No argument rests on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import integer
from dpmac.randomness.sources import NoiseSource, SystemNoise


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

    def steps(self, sizes: Sequence[int], bits: int, device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """The normals that :meth:`normal` would give, rounded: whoever knows the seed knows them anyway."""
        return (self.normal((size,), device).mul_(2.0**bits).round_() for size in sizes)

    def spawn(self, purpose: str) -> SeededNoise:
        return SeededNoise(self.seed, f"{self._path}/{purpose}")

    def state(self) -> dict[str, Any]:
        """How far the draws have come, in plain values and tensors: for :meth:`restore`."""
        numpy = self._on_cpu().bit_generator.state
        words = {name: [int(word) for word in numpy["state"][name]] for name in ("counter", "key")}
        rest = {name: int(numpy[name]) for name in ("buffer_pos", "has_uint32", "uinteger")}
        buffer = [int(word) for word in numpy["buffer"]]
        return {"numpy": {"state": words, "buffer": buffer, **rest}, "torch": self._torch_states()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state` was taken."""
        known = state["numpy"]
        words = {name: np.array(value, dtype=np.uint64) for name, value in known["state"].items()}
        buffer = np.array(known["buffer"], dtype=np.uint64)
        self._on_cpu().bit_generator.state = {"bit_generator": "Philox", **known, "state": words, "buffer": buffer}
        for device, generator in state["torch"].items():
            self._on_device(torch.device(device)).set_state(generator)

    def _torch_states(self) -> dict[str, Tensor]:
        return {device: generator.get_state() for device, generator in self._torch.items()}

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


@contextmanager
def torch_draws_from(source: NoiseSource) -> Iterator[None]:
    """Around code that draws from torch's own CPU generator, such as a layer's initial weights: ``source`` seeds it.

    For public numbers alone. Afterwards torch's generator is as it was before.
    """
    seed = int(float(source.uniform(1)) * 2.0**53)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
