"""Rows go in here, and come out only as Poisson samples that can be spent once.

The accountant's amplification theorem speaks of batches in which every row stands independently with probability q.
:class:`Batch` carries the q it was really drawn with, and :func:`dpmac.privacy.release.release` writes *that* q into
the ledger, so sampling and accounting cannot disagree. A batch can be released once: a second release of the same
rows would need another theorem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.noise import NoiseSource

MIN_RATE = 1e-9
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
        number("rate", self.rate, "give a sampling rate from 1e-9 to 1", low=MIN_RATE, high=1.0)

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

    def spend(self, size: int) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """The rows in blocks of exactly ``size``, each with a mask of what is real; nothing at all for an empty batch.

        The last block is filled up with zero rows, so that every block has one public shape: matrix kernels choose
        their order of summation by shape, and the number of rows must not reach any other row's rounding. Only
        :func:`release` calls this, and it drops what the filling contributes.
        """
        if self._spent:
            raise RuntimeError(
                "this batch was already released once; a second release of the same rows is not what the accountant "
                "assumes: draw a fresh batch, or put all parts into one release"
            )
        self._spent = True
        return self._blocks(size)

    def __reduce__(self) -> str:
        raise TypeError("a batch cannot be copied or pickled: its rows may be released only once")

    def _blocks(self, size: int) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        total = len(self._columns[0]) if self._indices is None else len(self._indices)
        for start in range(0, total, size):
            chosen = slice(start, start + size) if self._indices is None else self._indices[start : start + size]
            block = tuple(column[chosen] for column in self._columns)
            real = torch.arange(size, device=self.device) < len(block[0])
            yield tuple(_filled(column, size) for column in block), real


def _filled(column: Tensor, size: int) -> Tensor:
    """``column`` with zero rows added at the end, up to ``size`` rows."""
    if len(column) == size:
        return column
    return torch.cat([column, column.new_zeros(size - len(column), *column.shape[1:])])


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
        indices = sampler.draw().to(self._columns[0].device)
        return Batch(self._columns, indices, sampler.rate, sampler.source.seeded)

    def everything(self) -> Batch:
        """All rows, unsampled (rate 1): for one-shot releases such as DP-PCA."""
        return Batch(self._columns, None, 1.0, seeded=False)
