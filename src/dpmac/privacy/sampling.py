"""Poisson samples of private rows, each of which can be spent once.

The accountant's amplification theorem speaks of batches in which every row stands independently with probability q.
:class:`Batch` carries the q it was really drawn with, and :func:`dpmac.privacy.gaussian_release.release` writes *that*
q into the ledger, so sampling and accounting cannot disagree. A batch can be released once: a second release of the
same rows would need another theorem.

The table has n places, and n is public. Neighbouring tables differ in one place: a row stands there, or it is blank.
A place may also be a person's, with any number of rows (:mod:`dpmac.extensions.persons`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.gaps import RARE
from dpmac.kernels.gathering import Columns, gathered
from dpmac.kernels.padding import MAX_BLOCK, Padding, block_size, paddings
from dpmac.randomness import NoiseSource, SystemNoise, shuffled

if TYPE_CHECKING:
    from dpmac.extensions.provenance import Origin
    from dpmac.extensions.world import World

MIN_RATE = 1e-9
MIN_OVERFLOW = 2.0**-80  # the chance that a sample finds no room, unless a plan sets more of its delta aside
ROW = "row"  # the unit of privacy of a table whose places hold one row each
_CHUNK = 1 << 22  # uniforms drawn at a time: 32 MiB, whatever n is
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PoissonSampler:
    """Draws places: each of ``n`` independently with probability ``rate``, whether a row stands there or not.

    Right for any rate from 1e-9 to 1. From the operating system's draws it is exact to 2**-69, and exact where places
    are rare (:mod:`dpmac.kernels.gaps`); a seeded comparison is made on 53 bits, so a rate of 1e-6 is off by 1e-10 of
    itself at most. A rate of 1 takes every place. A draw may be empty. Reproducible only if the source is seeded.
    ``overflow`` is the chance with which a sample may find no room (:func:`capacity_for`): the less room, the less
    work, and the ledger says what it was. It is 0 at a rate of 1.
    """

    n: int
    rate: float
    source: NoiseSource
    overflow: float = MIN_OVERFLOW

    def __post_init__(self) -> None:
        integer("n", self.n, "give the number of rows, at least 1")
        rate = number("rate", self.rate, "give a sampling rate from 1e-9 to 1", low=MIN_RATE, high=1.0)
        object.__setattr__(self, "rate", rate)
        fix = "give the chance that a sample finds no room, from 2**-200 to 2**-10"
        overflow = number("overflow", self.overflow, fix, low=2.0**-200, high=2.0**-10)
        object.__setattr__(self, "overflow", 0.0 if rate == 1 else overflow)

    def draw(self, first: int = 0, count: int | None = None) -> Tensor:
        """Sorted places of one fresh Poisson sample; or those among ``count`` from ``first`` on, counted from there.

        A part is drawn by itself, as independently of all others as places are. Only a seeded source draws all places
        and keeps the part, so that several processes draw what one would.
        """
        last = self.n if count is None else first + count
        if last - first == self.n or not self.source.seeded:
            return self._drawn(last - first)
        places = self._drawn(self.n)
        return places[(places >= first) & (places < last)] - first

    def _drawn(self, count: int) -> Tensor:
        if type(self.source) is SystemNoise and self.rate < RARE:
            return self.source.places(count, self.rate)  # takes time and memory for those that stand alone
        if count <= _CHUNK:
            return self._standing(count)
        starts = range(0, count, _CHUNK)
        found = [start + self._standing(min(_CHUNK, count - start)) for start in starts]
        return torch.cat(found)

    def _standing(self, count: int) -> Tensor:
        if type(self.source) is SystemNoise:  # quicker, and by no more than 2**-69 different
            return self.source.places(count, self.rate)
        return torch.nonzero(self.source.uniform(count) < self.rate).flatten()


class Places(Protocol):
    """Which rows stand at the places of a table. ``together`` and ``unit`` are public."""

    def __len__(self) -> int:
        """The number of places: public."""

    @property
    def together(self) -> int:
        """Neighbouring spots that belong to one place, a power of two."""

    @property
    def unit(self) -> str:
        """Whose privacy it is, as the ledger writes it."""

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:
        """The rows at these places (None: at all), (places, together); -1 where there is none."""

    def without(self, place: int) -> tuple[Any, Tensor]:
        """The places of the neighbour that lacks what stands at ``place``, and which rows are kept."""


@dataclass(frozen=True, eq=False)
class OneRowEach:
    """Places that hold one row each: ``rows`` has its number, -1 at a blank place, among ``count`` rows in all."""

    rows: Tensor
    count: int

    together, unit = 1, ROW

    def __len__(self) -> int:
        return len(self.rows)

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:  # noqa: ARG002 - nothing is drawn
        return (self.rows if places is None else self.rows.index_select(0, places)).unsqueeze(1)

    def without(self, place: int) -> tuple[OneRowEach, Tensor]:
        row = int(self.rows[place])
        if row < 0:
            raise ArgumentError("place", place, "it is blank already")
        rows = torch.where(self.rows == row, -1, self.rows - (self.rows > row).long())
        return OneRowEach(rows, self.count - 1), torch.arange(self.count) != row


class Fetcher(Protocol):
    """Columns whose rows are not in memory: see :mod:`dpmac.extensions.stores`."""

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        """Block after block of row numbers, as columns in memory and row numbers in these."""

    def prefetched(self, rows: Tensor) -> Fetcher:
        """The same for a sample of these rows, which are fetched in the background from now on."""


class Batch:
    """Private rows drawn with a known rate, to be spent in exactly one release.

    How many rows it holds is private too (the noise does not hide it), so there is no ``len``.
    """

    def __init__(
        self,
        columns: Columns | Fetcher,
        rows: Places,
        places: Tensor | None,
        sample_rate: float,
        seeded: bool,
        overflow: float,
        feature_map: Map | None = None,
        origin: Origin | None = None,
        device: torch.device | None = None,
        world: World | None = None,
        shards: tuple[int, ...] | None = None,
    ) -> None:
        self._columns, self._rows, self._places, self._spent = columns, rows, places, False
        self._feature_map = feature_map  # of rows that did not go through it beforehand: applied to every block anew
        self.origin = origin  # what has shaped the rows' feature map
        self.sample_rate, self.overflow = sample_rate, overflow
        self.seeded = seeded  # amplification by sampling needs a sample that nobody can replay
        self.world = world  # the processes that hold parts of the table; None for one
        self._shards = (len(rows),) if shards is None else shards  # places in every process
        self.expected_rows = sample_rate * sum(self._shards) * self.together  # public, unlike what was really drawn
        self.device = columns[0].device if isinstance(columns, tuple) else device or torch.device("cpu")

    @property
    def together(self) -> int:
        return self._rows.together

    @property
    def unit(self) -> str:
        """Whose privacy it is, as the ledger writes it."""
        return self._rows.unit

    @property
    def rank(self) -> int:
        """This process' number among those that hold the table."""
        return 0 if self.world is None else self.world.rank

    def paddings(self, noise_multiplier: float) -> tuple[Padding, ...]:
        """The room for the sample in every process, if it is released with that much noise: public."""
        if self.device.type == "cuda":  # what is recorded has one shape
            return paddings(self._shards, self.sample_rate, self.overflow, 0.0)
        return paddings(self._shards, self.sample_rate, self.overflow, noise_multiplier)

    def most_rows(self, paddings: Sequence[Padding]) -> list[int]:
        """Rows that each process can bring to a release, at most: public.

        Where there are several, as others must be able to tell: more than there are spots, however a process divides
        its sample into blocks (:func:`block_size` rounds up to a multiple of 32, or of ``together``, or by a 64th).
        """
        rows = [self.together * room.most for room in paddings]
        return rows if len(rows) == 1 else [2 * each + 64 * self.together for each in rows]

    @property
    def steady(self) -> bool:
        """Whether :meth:`take` does nothing but fetch rows, always from the same memory."""
        return self._feature_map is None and isinstance(self._columns, tuple)

    @torch.no_grad()
    def take(self, columns: Columns, row_at: Tensor) -> tuple[Columns, Tensor]:
        """The block of the rows ``row_at``, and the weight of every row in it; see :func:`gathered`."""
        (first, *others), weights = gathered(columns, row_at)
        return (first if self._feature_map is None else self._feature_map(first), *others), weights

    def spend(self, room: Padding, micro_batch: int | None, source: NoiseSource) -> Iterator[tuple[Columns, Tensor]]:
        """The sample, once: row numbers at random spots, in blocks of one size, each with the columns they are rows of.

        How many blocks there are, and their shape, follows from public numbers, or from a noisy count that is paid for
        (``room``); spots without a row hold -1. Matrix kernels may round a row differently at another spot or in
        another shape, so neither may depend on other rows. A row's spot does not: the spots of m drawn places are drawn
        from all spots without replacement, and those of any m - 1 of them have the very law they would have without the
        last. So the row that comes or goes finds all others where they are. A sample of more rows than there are spots
        (its chance is ``overflow`` at most) loses some of them, drawn at random: then the row that comes may take the
        spot of another, which goes, and the sum moves by two rows' shares instead of one; the accountant reads the
        chance in the ledger. Of a release on all places there is a spot for each, and every place has its own: the one
        of its number.

        Of a table of persons all this holds with a person for a row, and ``together`` neighbouring spots for a spot.
        Only :func:`release` calls this.
        """
        if self._spent:
            raise RuntimeError(
                "this batch was already released once; a second release of the same rows is not what the accountant "
                "assumes: draw a fresh batch, or put all parts into one release"
            )
        self._spent = True
        places = source.spawn("places")
        drawn = self._rows.drawn(self._places, places)
        if room.deviation > 0.0:  # a blank place is not counted, and takes no spot: as if it had never been drawn
            drawn = drawn[(drawn >= 0).any(dim=1)]
        wanted = max(1, room.spots(len(drawn), source.spawn("room")))
        on_gpu = self.device.type == "cuda"  # where every block costs launches
        size = block_size(
            self.together * wanted, MAX_BLOCK if on_gpu and micro_batch is None else micro_batch, self.together
        )
        return self._blocks(drawn, wanted, size, places)

    def __reduce__(self) -> str:
        raise TypeError("a batch cannot be copied or pickled: its rows may be released only once")

    def _blocks(self, drawn: Tensor, wanted: int, size: int, source: NoiseSource) -> Iterator[tuple[Columns, Tensor]]:
        """The rows of each drawn place at a random spot, of at least ``wanted``, in blocks of ``size`` rows."""
        each = size // self.together
        spots = each * math.ceil(wanted / each)
        if len(drawn) > spots:
            drawn = drawn[(drawn >= 0).any(dim=1)]  # a blank place must not take a spot from a row
            drawn = drawn[shuffled(len(drawn), source)[:spots]]
        at = torch.full((spots, self.together), -1)
        order = torch.arange(spots) if self._places is None else shuffled(spots, source)
        at.index_copy_(0, order[: len(drawn)], drawn)
        for columns, block in self._found(torch.split(at, each)):
            yield columns, block.to(self.device)

    def _found(self, blocks: tuple[Tensor, ...]) -> Iterator[tuple[Columns, Tensor]]:
        """Every block of row numbers with the columns, on this batch's device, that they are rows of."""
        if isinstance(self._columns, tuple):
            yield from ((self._columns, block) for block in blocks)
            return
        for columns, block in self._columns.each(iter(blocks)):
            yield tuple(column.to(self.device) for column in columns), block
