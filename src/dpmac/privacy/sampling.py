"""Rows go in here, and come out only as Poisson samples that can be spent once.

The accountant's amplification theorem speaks of batches in which every row stands independently with probability q.
:class:`Batch` carries the q it was really drawn with, and :func:`dpmac.privacy.door.release` writes *that* q into
the ledger, so sampling and accounting cannot disagree. A batch can be released once: a second release of the same
rows would need another theorem.

The table has n places, and n is public. Neighbouring tables differ in one place: a row stands there, or it is blank.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from scipy.special import betainc
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.randomness import NoiseSource, SystemNoise, shuffled

MIN_RATE = 1e-9
MAX_BLOCK = 4096  # rows in a block, at most: the rounding argument in bounds.SLACK counts on it
NO_ROOM = 2.0**-80  # the chance that a sample finds no room, unless a plan sets more of its delta aside
MULTIPLE = 32  # rows of a block come in multiples of it: matrix kernels have no remainders to treat apart
_CHUNK = 1 << 22  # uniforms drawn at a time: 32 MiB, whatever n is


@dataclass(frozen=True)
class PoissonSampler:
    """Draws places: each of ``n`` independently with probability ``rate``, whether a row stands there or not.

    Right for any rate from 1e-9 to 1: the comparison is made on 53 random bits at least, so a rate of 1e-6 is off by
    1e-10 of itself at most, and a rate of 1 takes every place. A draw may be empty. Reproducible only if the source is
    seeded. ``overflow`` is the chance with which a sample may find no room (:func:`room_for`): the less room, the less
    work, and the ledger says what it was. It is 0 at a rate of 1.
    """

    n: int
    rate: float
    source: NoiseSource
    overflow: float = NO_ROOM

    def __post_init__(self) -> None:
        integer("n", self.n, "give the number of rows, at least 1")
        rate = number("rate", self.rate, "give a sampling rate from 1e-9 to 1", low=MIN_RATE, high=1.0)
        object.__setattr__(self, "rate", rate)
        fix = "give the chance that a sample finds no room, from 2**-200 to 2**-10"
        overflow = number("overflow", self.overflow, fix, low=2.0**-200, high=2.0**-10)
        object.__setattr__(self, "overflow", 0.0 if rate == 1 else overflow)

    def draw(self) -> Tensor:
        """Sorted places of one fresh Poisson sample."""
        starts = range(0, self.n, _CHUNK)
        return torch.cat([start + self._standing(min(_CHUNK, self.n - start)) for start in starts])

    def _standing(self, count: int) -> Tensor:
        if type(self.source) is SystemNoise:  # quicker, and by no more than 2**-69 different
            return self.source.places(count, self.rate)
        return torch.nonzero(self.source.uniform(count) < self.rate).flatten()


class Batch:
    """Private rows drawn with a known rate, to be spent in exactly one release.

    How many rows it holds is private too (the noise does not hide it), so there is no ``len``.
    """

    def __init__(
        self,
        columns: tuple[Tensor, ...],
        rows: Tensor,
        places: Tensor | None,
        sample_rate: float,
        seeded: bool,
        overflow: float = 0.0,
    ) -> None:
        self._columns, self._rows, self._places, self._spent = columns, rows, places, False
        self.sample_rate, self.overflow = sample_rate, overflow
        self.seeded = seeded  # amplification by sampling needs a sample that nobody can replay
        self.expected_rows = sample_rate * len(rows)  # public, unlike the number of rows really drawn

    @property
    def device(self) -> torch.device:
        return self._columns[0].device

    @property
    def capacity(self) -> int:
        """Rows there is room for, a public number; see :func:`room_for`."""
        return room_for(len(self._rows), self.sample_rate, self.overflow)

    def spend(self, size: int, source: NoiseSource) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """The rows at random spots in blocks of exactly ``size``, each block with a mask of what is real.

        How many blocks there are, and their shape, follows from public numbers; spots without a row hold zeros. Matrix
        kernels may round a row differently at another spot or in another shape, so neither may depend on other rows.
        A row's spot does not: the spots of m drawn places are drawn from all spots without replacement, and those of
        any m - 1 of them have the very law they would have without the last. So the row that comes or goes finds
        all others where they are. A sample of more rows than there are spots (its chance is ``overflow`` at most)
        loses some of them, drawn at random: then the row that comes may take the spot of another, which goes, and the
        sum moves by two rows' shares instead of one; the accountant reads the chance in the ledger. Only
        :func:`release` calls this, and it drops what empty spots contribute.
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
        drawn = self._rows if self._places is None else self._rows[self._places]  # -1 where the place is blank
        spots = size * math.ceil(max(self.capacity, 1) / size)
        if len(drawn) > spots:
            drawn = drawn[drawn >= 0]  # a blank place must not take a spot from a row
            drawn = drawn[shuffled(len(drawn), source)[:spots]]
        row_at = torch.full((spots,), -1)
        row_at[shuffled(spots, source)[: len(drawn)]] = drawn
        row_at = row_at.to(self.device)
        for start in range(0, spots, size):
            yield _gathered(self._columns, row_at[start : start + size])


class PrivateRows:
    """The private table: columns of equal length (inputs, targets). Its rows leave only as batches.

    It has ``n`` places, a public number; a place holds a row or is blank (:meth:`without`).
    """

    def __init__(self, *columns: Tensor) -> None:
        if not columns:
            raise ArgumentError("columns", columns, "give at least one tensor with a row per example")
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ArgumentError("columns", lengths, "every column needs the same number of rows")
        self._columns = columns
        self._rows = torch.arange(lengths[0])  # the row at every place, -1 for none

    @property
    def n(self) -> int:
        return len(self._rows)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one row of every column: public."""
        return [tuple(column.shape[1:]) for column in self._columns]

    @property
    def device(self) -> torch.device:
        return self._columns[0].device

    def to(self, device: torch.device) -> PrivateRows:
        """The table on another device."""
        return self._with(tuple(column.to(device) for column in self._columns), self._rows)

    def sample(self, sampler: PoissonSampler) -> Batch:
        """A fresh Poisson sample, carrying the sampler's rate."""
        if sampler.n != self.n:
            raise ArgumentError("sampler.n", sampler.n, f"the table has {self.n} rows: build the sampler for them")
        return Batch(self._columns, self._rows, sampler.draw(), sampler.rate, sampler.source.seeded, sampler.overflow)

    def everything(self) -> Batch:
        """All rows, unsampled (rate 1): for one-shot releases such as DP-PCA."""
        return Batch(self._columns, self._rows, None, 1.0, seeded=False)

    def without(self, place: int) -> PrivateRows:
        """The neighbouring table: the row at ``place`` deleted from every column, its place left blank; n stays."""
        row = int(self._rows[place])
        if row < 0:
            raise ArgumentError("place", place, "it is blank already")
        kept = torch.arange(len(self._columns[0])) != row
        return self._with(
            tuple(column[kept.to(column.device)] for column in self._columns),
            torch.where(self._rows == row, -1, self._rows - (self._rows > row).long()),
        )

    @torch.no_grad()
    def behind(self, front: Callable[[Tensor], Tensor]) -> PrivateRows:
        """The table with ``front`` of its first column in place of that column, computed once.

        For a front that is dear: the rows go through it in blocks of one public shape, each at its own place, and a
        blank place holds zeros there. So the row that comes or goes finds every other row's numbers as they were,
        bit for bit, exactly as if the front were applied anew in every release. What comes out is as private as what
        went in, and stays inside.
        """
        size = block_size(self.n, None)
        padded = torch.cat([self._rows, torch.full((-self.n % size,), -1)]).to(self._columns[0].device)
        blocks = [front(_gathered(self._columns[:1], at)[0][0]) for at in torch.split(padded, size)]
        inputs = torch.cat(blocks)[: self.n]
        others = _gathered(self._columns[1:], padded[: self.n])[0]
        return self._with((inputs, *others), torch.where(self._rows >= 0, torch.arange(self.n), -1))

    def _with(self, columns: tuple[Tensor, ...], rows: Tensor) -> PrivateRows:
        table = PrivateRows(*columns)
        table._rows = rows
        return table


def _gathered(columns: tuple[Tensor, ...], row_at: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """The rows ``row_at`` of every column, zeros where there is none, and the mask of those that are there."""
    real = row_at >= 0
    empty, chosen = ~real, row_at.clamp(min=0)

    def gather(column: Tensor) -> Tensor:
        if len(column) == 0:  # every place of the table is blank
            return column.new_zeros(len(row_at), *column.shape[1:])
        rows = column.index_select(0, chosen)
        if rows.device.type == "cpu":
            return rows.index_fill_(0, torch.nonzero(empty).flatten(), 0)
        return rows.masked_fill_(empty.reshape(-1, *[1] * (rows.dim() - 1)), 0)

    return tuple(gather(column) for column in columns), real


@functools.lru_cache(maxsize=1024)
def room_for(n: int, rate: float, overflow: float) -> int:
    """The least c such that of n - 1 places c or more stand with a chance of at most ``overflow``; n at most.

    n - 1, because the question is whether one more row, the one that comes or goes, still finds a spot. That number of
    *other* places has one law whatever the tables hold. By the binomial tail itself, an incomplete beta function:
    scipy's, good to ten digits, asked for half the chance.
    """
    if rate == 1:
        return n
    low, high = math.floor((n - 1) * rate), n  # low is too little, and high is enough: all places there are
    while high - low > 1:
        middle = (low + high) // 2
        enough = float(betainc(float(middle), float(n - middle), rate)) < overflow / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


def block_size(capacity: int, micro_batch: int | None) -> int:
    """Rows in a block: all there is room for in as few equal blocks as the micro-batch and MAX_BLOCK allow.

    Depends on public numbers only. A multiple of MULTIPLE.
    """
    capacity = max(capacity, 1)
    most = MAX_BLOCK if micro_batch is None else min(MULTIPLE * math.ceil(micro_batch / MULTIPLE), MAX_BLOCK)
    return MULTIPLE * math.ceil(capacity / math.ceil(capacity / most) / MULTIPLE)
