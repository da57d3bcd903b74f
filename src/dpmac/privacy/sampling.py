"""Rows go in here, and come out only as Poisson samples that can be spent once.

The accountant's amplification theorem speaks of batches in which every row stands independently with probability q.
:class:`Batch` carries the q it was really drawn with, and :func:`dpmac.privacy.release.release` writes *that* q into
the ledger, so sampling and accounting cannot disagree. A batch can be released once: a second release of the same
rows would need another theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.noise import NoiseSource, shuffled

MIN_RATE = 1e-9
_OVERFLOW = 80 * math.log(2)  # a sample finds no room with a chance below exp(-_OVERFLOW)
_CHUNK = 1 << 22  # uniforms drawn at a time: 32 MiB, whatever n is


@dataclass(frozen=True)
class PoissonSampler:
    """Draws row indices: each of ``n`` rows independently with probability ``rate``.

    Right for any rate from 1e-9 to 1: the comparison is made on 53-bit uniforms, so a rate of 1e-6 is off by 1e-10 of
    itself at most, and a rate of 1 takes every row. A draw may be empty. Reproducible only if the source is seeded.
    """

    n: int
    rate: float
    source: NoiseSource

    def __post_init__(self) -> None:
        integer("n", self.n, "give the number of rows, at least 1")
        rate = number("rate", self.rate, "give a sampling rate from 1e-9 to 1", low=MIN_RATE, high=1.0)
        object.__setattr__(self, "rate", rate)

    def draw(self) -> Tensor:
        """Sorted indices of one fresh Poisson sample."""
        found = [
            start + torch.nonzero(self.source.uniform(min(_CHUNK, self.n - start)) < self.rate).flatten()
            for start in range(0, self.n, _CHUNK)
        ]
        return torch.cat(found)


class Batch:
    """Private rows drawn with a known rate, to be spent in exactly one release.

    How many rows it holds is private too (the noise does not hide it), so there is no ``len``.
    """

    def __init__(self, columns: tuple[Tensor, ...], indices: Tensor | None, sample_rate: float, seeded: bool) -> None:
        self._columns, self._indices, self._spent = columns, indices, False
        self.sample_rate = sample_rate
        self.seeded = seeded  # amplification by sampling needs a sample that nobody can replay
        self.expected_rows = sample_rate * len(columns[0])  # public, unlike the number of rows really drawn

    @property
    def device(self) -> torch.device:
        return self._columns[0].device

    @property
    def capacity(self) -> int:
        """Rows there is room for, a public number. Less than one sample in 2**80 is larger (Bernstein's inequality)."""
        n, rate = len(self._columns[0]), self.sample_rate
        spread = _OVERFLOW / 3 + math.sqrt((_OVERFLOW / 3) ** 2 + 2 * _OVERFLOW * n * rate * (1 - rate))
        return n if rate == 1 else min(n, math.ceil(n * rate + spread))

    def spend(self, size: int, source: NoiseSource) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """The rows at random places in blocks of exactly ``size``, each block with a mask of what is real.

        How many blocks there are, and their shape, follows from public numbers; places without a row hold zeros. Matrix
        kernels may round a row differently at another place or in another shape, so neither may depend on other rows.
        A row's place does not: the places of m rows are drawn from all places without replacement, and the places
        of any m - 1 of them have the very law they would have without the last. So the row that comes or goes finds
        all others where they are. (A sample beyond the capacity gets more blocks; see :attr:`capacity`.) Only
        :func:`release` calls this, and it drops what empty places contribute.
        """
        if self._spent:
            raise RuntimeError(
                "this batch was already released once; a second release of the same rows is not what the accountant "
                "assumes: draw a fresh batch, or put all parts into one release"
            )
        self._spent = True
        return self._blocks(size, source)

    def __reduce__(self) -> str:
        raise TypeError("a batch cannot be copied or pickled: its rows may be released only once")

    def _blocks(self, size: int, source: NoiseSource) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        drawn = torch.arange(len(self._columns[0])) if self._indices is None else self._indices
        places = size * math.ceil(max(self.capacity, len(drawn), 1) / size)
        row_at = torch.full((places,), -1)
        row_at[shuffled(places, source)[: len(drawn)]] = drawn
        row_at = row_at.to(self.device)
        for start in range(0, places, size):
            chosen = row_at[start : start + size]
            real = chosen >= 0
            yield tuple(_gathered(column, chosen, real) for column in self._columns), real


def _gathered(column: Tensor, chosen: Tensor, real: Tensor) -> Tensor:
    """The ``chosen`` rows of ``column``, and zeros where there is none."""
    rows = column[chosen.clamp(min=0)]
    return torch.where(real.reshape(-1, *[1] * (rows.dim() - 1)), rows, 0)


class PrivateRows:
    """The private table: columns of equal length (inputs, targets). Its rows leave only as batches."""

    def __init__(self, *columns: Tensor) -> None:
        if not columns:
            raise ArgumentError("columns", columns, "give at least one tensor with a row per example")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ArgumentError("columns", lengths, "every column needs the same number of rows")
        self._columns = columns
        self.n = lengths[0]

    def sample(self, sampler: PoissonSampler) -> Batch:
        """A fresh Poisson sample, carrying the sampler's rate."""
        if sampler.n != self.n:
            raise ArgumentError("sampler.n", sampler.n, f"the table has {self.n} rows: build the sampler for them")
        return Batch(self._columns, sampler.draw(), sampler.rate, sampler.source.seeded)

    def everything(self) -> Batch:
        """All rows, unsampled (rate 1): for one-shot releases such as DP-PCA."""
        return Batch(self._columns, None, 1.0, seeded=False)
