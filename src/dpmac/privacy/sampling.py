"""Poisson samples of private rows, each of which can be spent once.

The accountant's amplification theorem is about batches that contain every place independently with probability q.
:class:`Batch` carries the q it was drawn with, refuses to change it, and
:func:`dpmac.privacy.gaussian_release.release` writes *that* q to the ledger. A batch can be released once: a second
release of the same rows would need another theorem. Both protect against mistakes only. Code that means harm can reach
everything in its own Python process (``object.__setattr__``, the private attributes of a table).
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
MIN_OVERFLOW = 2.0**-80  # the chance that a sample is full, unless a plan sets aside more delta
ROW = "row"  # the unit of privacy of a table whose places hold one row each
_CHUNK = 1 << 22  # uniforms drawn at a time: 32 MiB for any n
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PoissonSampler:
    """Draws each of ``n`` places independently with probability ``rate``, whether it holds a row or is blank.

    Valid for rates from 1e-9 to 1. With the operating system's randomness the probability is exact (by
    :mod:`dpmac.kernels.gaps` below 1/32, by ``gaussian.places`` above); a seeded source compares 53 bits, so a rate of
    1e-6 has a relative error of at most 1e-10. A rate of 1 takes every place. A sample may be empty; it is reproducible
    only if the source is seeded. ``overflow`` bounds the probability that a sample is *full*: so many of the n - 1
    other places are drawn that the capacity has no spot left for one more row (``padding.capacity_for``). The ledger
    records this probability, which is above that of a sample larger than its capacity. It is 0 at a rate of 1.
    """

    n: int
    rate: float
    source: NoiseSource
    overflow: float = MIN_OVERFLOW

    def __post_init__(self) -> None:
        integer("n", self.n, "give the number of rows, at least 1")
        rate = number("rate", self.rate, "give a sampling rate from 1e-9 to 1", low=MIN_RATE, high=1.0)
        object.__setattr__(self, "rate", rate)
        fix = "give the chance that a sample is full, from 2**-200 to 2**-10"
        overflow = number("overflow", self.overflow, fix, low=2.0**-200, high=2.0**-10)
        if rate == 1:
            overflow = 0.0
        object.__setattr__(self, "overflow", overflow)

    def draw(self, first: int = 0, count: int | None = None) -> Tensor:
        """The sorted places of a fresh Poisson sample: all, or ``count`` from ``first`` on, relative to ``first``.

        Such a shard is drawn independently of all others, as places are. Only a seeded source draws all places and
        keeps the shard, so that several processes draw the same sample as one.
        """
        if count is None:
            count = self.n - first
        if count == self.n or not self.source.seeded:
            return self._drawn(count)
        places = self._drawn(self.n)
        return places[(places >= first) & (places < first + count)] - first

    def _drawn(self, count: int) -> Tensor:
        if type(self.source) is SystemNoise and self.rate < RARE:
            return self.source.places(count, self.rate)  # time and memory proportional to the sample
        if count <= _CHUNK:
            return self._drawn_chunk(count)
        starts = range(0, count, _CHUNK)
        return torch.cat([start + self._drawn_chunk(min(_CHUNK, count - start)) for start in starts])

    def _drawn_chunk(self, count: int) -> Tensor:
        if type(self.source) is SystemNoise:  # faster, and exact
            return self.source.places(count, self.rate)
        return torch.nonzero(self.source.uniform(count) < self.rate).flatten()


class Places(Protocol):
    """Which rows are at the places of a table. ``spots_per_place`` and ``unit`` are public."""

    def __len__(self) -> int:
        """The number of places: public."""

    @property
    def spots_per_place(self) -> int:
        """The number of neighbouring spots reserved for one place, a power of two."""

    @property
    def unit(self) -> str:
        """The unit of privacy, as the ledger records it."""

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:
        """The rows at these places (None: at all places), (places, spots_per_place); -1 for no row."""

    def without(self, place: int) -> tuple[Any, Tensor]:
        """The places of the neighbouring table in which ``place`` is blank, and a mask of the rows that are kept."""


@dataclass(frozen=True, eq=False)
class OneRowEach:
    """Places that hold one row each: ``rows`` has the row numbers, -1 for a blank place; there are ``count`` rows."""

    rows: Tensor
    count: int

    spots_per_place, unit = 1, ROW

    def __len__(self) -> int:
        return len(self.rows)

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:  # noqa: ARG002 - nothing is drawn
        if places is None:
            return self.rows.unsqueeze(1)
        return self.rows.index_select(0, places).unsqueeze(1)

    def without(self, place: int) -> tuple[OneRowEach, Tensor]:
        row = int(self.rows[place])
        if row < 0:
            raise ArgumentError("place", place, "it is blank already")
        rows = torch.where(self.rows == row, -1, self.rows - (self.rows > row).long())
        return OneRowEach(rows, self.count - 1), torch.arange(self.count) != row


class Fetcher(Protocol):
    """Columns whose rows are not in memory: see :mod:`dpmac.extensions.stores`."""

    def each(self, blocks: Iterator[Tensor]) -> Iterator[tuple[Columns, Tensor]]:
        """For each block of row numbers: columns in memory, and the row numbers within these."""

    def prefetched(self, rows: Tensor) -> Fetcher:
        """A fetcher for a sample of these rows; it starts to fetch them in the background."""


class Batch:
    """Private rows drawn with a known rate, to be spent in exactly one release. Its attributes are set once.

    How many rows were drawn is private, and no release shows it. So there is no ``len``.
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
        self._columns, self._rows, self._places = columns, rows, places
        self._unspent = [True]  # emptied by the release
        self._feature_map = feature_map  # applied to every block, unless the rows were mapped beforehand
        self.origin = origin  # the releases that the feature map was computed from
        self.sample_rate, self.overflow = sample_rate, overflow
        self.seeded = seeded  # amplification by sampling needs a sample that nobody can reproduce
        self.world = world  # the processes that hold shards of the table; None for one
        self.rank = 0 if world is None else world.rank  # this process's number among them
        self._shards = shards or (len(rows),)  # number of places in each process
        self.spots_per_place, self.unit = rows.spots_per_place, rows.unit
        # public, unlike the actual number of rows; for persons with fewer rows than spots, an upper bound
        self.n = sum(self._shards)
        self.expected_rows = sample_rate * self.n * self.spots_per_place
        if isinstance(columns, tuple):
            device = columns[0].device
        self.device = device or torch.device("cpu")

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{name} of a batch cannot be changed: the ledger records what it was drawn with")
        super().__setattr__(name, value)

    def paddings(self, noise_multiplier: float) -> tuple[Padding, ...]:
        """The capacity for the sample in every process, if it is released with this much noise: public."""
        if self.device.type == "cuda":  # a recorded graph has a fixed shape
            return paddings(self._shards, self.sample_rate, self.overflow, 0.0)
        return paddings(self._shards, self.sample_rate, self.overflow, noise_multiplier)

    def most_rows(self, paddings: Sequence[Padding]) -> list[int]:
        """The maximal number of rows that each process can contribute to a release: public."""
        return [self.spots_per_place * padding.most for padding in paddings]

    @property
    def steady(self) -> bool:
        """Whether :meth:`take` only gathers rows, always from the same memory."""
        return self._feature_map is None and isinstance(self._columns, tuple)

    @torch.no_grad()
    def take(self, columns: Columns, row_at: Tensor) -> tuple[Columns, Tensor]:
        """The block of the rows ``row_at``, and the weight of every row in it; see :func:`gathered`."""
        (first, *others), weights = gathered(columns, row_at)
        if self._feature_map is not None:
            first = self._feature_map(first)
        return (first, *others), weights

    def spend(self, padding: Padding, micro_batch: int | None, source: NoiseSource) -> Iterator[tuple[Columns, Tensor]]:
        """The sample, once: blocks of row numbers at random spots, each with the columns that they index.

        The number of blocks and their shape follow from public numbers, or from a noisy count in the account
        (``padding``); spots without a row hold -1. Matrix kernels may round a row differently at another spot or in
        another shape, so neither may depend on other rows. A row's spot does not: the spots of m drawn places are drawn
        from all spots without replacement. Ignore any one of them: the spots of the other m - 1 are distributed exactly
        as if only those had been drawn. So a row that appears or disappears leaves all others in place. A sample larger
        than its capacity is cut to it at random (with probability at most ``overflow``). Then a row that appears may
        take the spot of another one, which is dropped, and the sum changes by the shares of two rows instead of one. In
        :meth:`PrivateRows.everything` each place has the spot of its own number. In a table of persons the same holds
        with ``spots_per_place`` neighbouring spots for one spot. Only :func:`release` calls this.
        """
        try:
            self._unspent.pop()  # atomic: of several threads, one succeeds
        except IndexError:
            raise RuntimeError(
                "this batch was already released once; a second release of the same rows is not what the accountant "
                "assumes: draw a fresh batch, or put all parts into one release"
            ) from None
        places = source.spawn("places")
        drawn = self._rows.drawn(self._places, places)
        if padding.deviation > 0.0:  # a blank place is not counted and takes no spot, as if it had not been drawn
            drawn = drawn[(drawn >= 0).any(dim=1)]
        wanted = max(1, padding.spots(len(drawn), source.spawn("room")))
        if micro_batch is None and self.device.type == "cuda":  # where every block costs kernel launches
            micro_batch = MAX_BLOCK
        size = block_size(self.spots_per_place * wanted, micro_batch, self.spots_per_place)
        return self._blocks(drawn, wanted, size, places)

    def __reduce__(self) -> str:
        raise TypeError("a batch cannot be copied or pickled: its rows may be released only once")

    def _blocks(self, drawn: Tensor, wanted: int, size: int, source: NoiseSource) -> Iterator[tuple[Columns, Tensor]]:
        """The rows of at most ``wanted`` drawn places at random spots, in just enough blocks of ``size`` rows."""
        each = size // self.spots_per_place
        spots = each * math.ceil(wanted / each)
        if len(drawn) > wanted:
            drawn = drawn[(drawn >= 0).any(dim=1)]  # a blank place must not take the spot of a row
            drawn = drawn[shuffled(len(drawn), source)[:wanted]]
        at = torch.full((spots, self.spots_per_place), -1)
        order = torch.arange(spots) if self._places is None else shuffled(spots, source)
        at.index_copy_(0, order[: len(drawn)], drawn)
        for columns, block in self._found(torch.split(at, each)):
            yield columns, block.to(self.device)

    def _found(self, blocks: tuple[Tensor, ...]) -> Iterator[tuple[Columns, Tensor]]:
        """Every block of row numbers with the columns that it indexes, on this batch's device."""
        if isinstance(self._columns, tuple):
            yield from ((self._columns, block) for block in blocks)
            return
        for columns, block in self._columns.each(iter(blocks)):
            yield tuple(column.to(self.device) for column in columns), block
