"""The one door: the only function of the package that turns private numbers into public ones.

    rows -> sampler -> feature map -> coordinates -> expansion -> bound -> RELEASE -> weights -> model

What it guarantees, if the two things below hold: releasing a Poisson sample of rate q adds exactly one event
"Poisson-sampled Gaussian mechanism, sampling probability q, noise multiplier sigma" to the ledger, under blanking or
filling in one row of a table whose number of rows is public; or one person with all their rows, where the table is of
persons and their number is public (:mod:`dpmac.extensions.persons`).

1. The query treats every row by itself (a test changes one row and sees only that row's parts change).
2. The bound keeps its promise; this is checked here, on every row, before anything is charged or released.

Floating point. Sums are made over blocks of bounded length, and the bounds leave room for their rounding (see
``bounds.SLACK`` and, for single precision, ``chunks.SINGLE_MARGIN``); the sums of blocks are added up exactly
(:mod:`dpmac.privacy.noise`), and so are those of several processes that hold parts of one table
(:mod:`dpmac.extensions.processes`). A row's own numbers are rounded too, and matrix kernels round by shape and by spot:
a row that moved because another came or went could change, by much where it sits on a discontinuity (ReLU's f' at 0, a
row scaled to length 1). So nothing is ever computed on a whole table whose shape its rows could change: feature maps,
coordinates and parts are computed in blocks of public shape, at spots drawn at random by a law under which no row's
spot depends on the others (:meth:`Batch.spend`). What is assumed of the kernels is only that the numbers at one spot do
not depend on the *values* at other spots; a test changes one row, outrageously, and sees no bit of another change.

The noise is exact: the sum is rounded to a grid first, and the noise is a whole number of its steps, drawn with exactly
the law of a rounded Gaussian (:mod:`dpmac.privacy.noise` has the proof). So what is released is a function of the
Gaussian mechanism on real numbers, and the low bits in which floating-point noise betrays its argument do not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.built import BuiltPart
from dpmac.kernels.dense import DensePart
from dpmac.kernels.gathering import Columns
from dpmac.kernels.gram import GramPart
from dpmac.kernels.outer import OuterPart
from dpmac.kernels.padding import Padding
from dpmac.kernels.positions import PositionPart
from dpmac.kernels.precision import full_precision
from dpmac.kernels.recording import Sums, Work
from dpmac.kernels.tokens import TokenPart
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.entry import Entry
from dpmac.privacy.ledger import Releases
from dpmac.privacy.noise import Grid, perturbed
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import KEPT, Part, joint_norms
from dpmac.privacy.query import Query
from dpmac.privacy.sampling import Batch
from dpmac.randomness import NoiseSource

MAX_ROWS = 2**28  # expected rows in a release: with noise of any use, their sum has room on the grid
LEAST_SINGLE = 1e-20  # a smaller scale is summed in double precision: single precision underflows near it
PART_TYPES = (OuterPart, DensePart, GramPart, PositionPart, BuiltPart, TokenPart)


class BrokenPromiseError(RuntimeError):
    """Some example's parts exceed what their bound promised: a bug in a bound, so nothing is released."""


@torch.no_grad()  # a graph would lead from what is released back to the rows
def release(
    batch: Batch,
    query: Query,
    *,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Releases,
    divisor: float = 1.0,
    micro_batch: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """The answer to ``query``: the noisy sum of every partition under its name, over a public constant.

    Independent Gaussian noise of standard deviation ``noise_multiplier * partition.scale``, and what the grid and a
    count of the sample cost (:mod:`dpmac.kernels.padding`, half of 1 % where there is one), is added to every
    coordinate (and symmetric partitions are then averaged with their transpose). The event is in the ledger (and on
    disk, if the ledger has a file) before any noise on sums is drawn, so what raises earlier releases and charges
    nothing, and what raises later is charged all the same. An empty batch gives pure noise. ``micro_batch`` is the
    number of rows taken at a time at most, rounded up to a multiple of 32; the query always gets full blocks (see
    :meth:`Batch.spend`), which hold zeros where there is no row. ``dtype`` is what the answer is rounded to, noise and
    all.

    With ``noise_multiplier=0`` the sums are exact, and the ledger says that nothing is private any more.
    """
    asked = Asked.of(batch, query, noise_multiplier, source, divisor, micro_batch)
    asked.check_ledger(ledger)
    if batch.world is not None:
        answer = batch.world.released(asked, source, ledger)
        return {name: numbers.to(dtype) for name, numbers in answer.items()}
    sums, on_grid = asked.sums(source)
    ledger.append(asked.entry)
    return asked.perturbed(sums, source, dtype, on_grid)


@dataclass(frozen=True, eq=False)
class Asked:
    """One release, checked: what is asked of which rows, on which grid, and the entry that will be paid for it.

    Everything in it but the batch is public. :func:`release` takes its three steps in order, in one process; where
    several hold the table, they take them together (:mod:`dpmac.extensions.processes`).
    """

    batch: Batch
    query: Query
    scales: list[float]
    grid: Grid
    entry: Entry
    paddings: tuple[Padding, ...]  # of every process
    divisor: float
    micro_batch: int | None

    @classmethod
    def of(
        cls,
        batch: Batch,
        query: Query,
        noise_multiplier: float,
        source: NoiseSource,
        divisor: float,
        micro_batch: int | None,
    ) -> Asked:
        """Raises :class:`ArgumentError` for what cannot be released."""
        sigma = check_multiplier(noise_multiplier)
        scales = _checked_scales(query.partitions, sigma)
        _check_arguments(batch, divisor, micro_batch)
        paddings = batch.paddings(sigma)
        grid = Grid.of(sigma * paddings[0].widening, query.partitions, sum(batch.most_rows(paddings)))
        entry = Entry(
            label=query.label,
            noise_multiplier=sigma,
            sample_rate=batch.sample_rate,
            overflow=batch.overflow,
            seeded=source.seeded or batch.seeded,
            scales={p.name: scale for p, scale in zip(query.partitions, scales, strict=True)},
            unit=batch.unit,
        )
        return cls(batch, query, scales, grid, entry, paddings, float(divisor), micro_batch)

    def check_ledger(self, ledger: Releases) -> None:
        """Raise unless this release may go into ``ledger``."""
        ledger.check_unit(self.batch.unit)
        if self.batch.origin:
            self.batch.origin.check(ledger)

    def sums(self, source: NoiseSource) -> tuple[list[Tensor], bool]:
        """Step 1: the sums of this process' rows, and whether they are in whole steps of the grid.

        Those of several blocks are: each block's are rounded, and then added up exactly. One block's are left as they
        are, to be rounded when the noise is added. Spends the batch. Raises :class:`BrokenPromiseError` if any row
        exceeds its bound.
        """
        work: Work = partial(_block_sums, self.query, self.scales, self.batch.take)
        if self.query.reads is not None and self.batch.steady and self.batch.device.type == "cuda":
            work = partial(self.query.recording.sums, work, self.query.reads)
        blocks, kept, total = 0, list[Tensor](), list[Tensor]()
        with full_precision():
            for columns, row_at in self.batch.spend(self.paddings[self.batch.rank], self.micro_batch, source):
                sums, within = work(columns, row_at)
                if blocks == 1:
                    total = self.grid.whole(total, self.scales)
                total = sums if blocks == 0 else _added(total, self.grid.whole(sums, self.scales))
                kept.append(within)
                blocks += 1
        if not bool(torch.stack(kept).all()):  # asked once: a GPU is waited for
            raise BrokenPromiseError(
                f"an example exceeds the bound promised for {[p.name for p in self.query.partitions]}; nothing was "
                "released. This is a bug in the bound, not in your data: please report it"
            )
        return total, blocks > 1

    def perturbed(
        self, sums: list[Tensor], source: NoiseSource, dtype: torch.dtype = torch.float64, on_grid: bool = True
    ) -> dict[str, Tensor]:
        """Step 3, after the entry is in the ledger: the answer, with fresh noise."""
        return perturbed(sums, self.query.partitions, self.scales, self.grid, source, self.divisor, dtype, on_grid)


def _added(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a.add_(b) for a, b in zip(one, other, strict=True)]


def _block_sums(query: Query, scales: Sequence[float], take: Any, columns: Columns, row_at: Tensor) -> Sums:
    """The sums over one block, and whether all its rows keep the promise: no number may leave if they do not.

    Every share is measured here, on the numbers that are then summed, whoever made it and whatever was measured before.
    Asks no tensor on a GPU for its value, so that it can be recorded (:mod:`dpmac.kernels.recording`).
    """
    rows, weights = take(columns, row_at)
    raw = query.parts(*rows)
    _check_kinds(raw, query.partitions, row_at.numel())
    # single precision only if all parts are: its rounding is set aside in every norm, or in none
    if not all(part.single for part in raw) or min(scales) < LEAST_SINGLE:
        raw = [part.doubled() for part in raw]
    parts = [part.scaled(weights) for part in raw]  # new objects, not measured yet; what empty spots gave is dropped
    together = row_at.shape[1]
    return [part.total(together) for part in parts], _keep_promise(parts, scales, together)


def _checked_scales(partitions: Sequence[Partition], noise_multiplier: float) -> list[float]:
    """The scales that a bound has promised; infinite ones (no bound) only without noise."""
    scales = []
    for p in partitions:
        fix = "noise needs a bound between 1e-30 and 1e30: choose a Bound"
        if p.scale is None:
            raise ArgumentError(f"scale of partition {p.name!r}", p.scale, "no bound has promised one: choose a Bound")
        if not 1e-30 <= p.scale <= 1e30 and not (noise_multiplier == 0 and math.isinf(p.scale)):
            raise ArgumentError(f"scale of partition {p.name!r}", p.scale, fix)
        scales.append(p.scale)
    return scales


def _check_arguments(batch: Batch, divisor: float, micro_batch: int | None) -> None:
    if batch.expected_rows > MAX_ROWS:
        raise ArgumentError(
            "batch", f"{batch.expected_rows:.0f} expected rows", f"release at most {MAX_ROWS} at a time"
        )
    number("divisor", divisor, "give a public constant above 0, such as the expected batch size", low=1e-99, high=1e99)
    if micro_batch is not None:
        integer("micro_batch", micro_batch, "give a number of rows, at least 1, or None")


def _check_kinds(parts: Sequence[Part], partitions: Sequence[Partition], rows: int) -> None:
    """Raise unless there is one part of ours per partition, with one share of the right shape for every row."""
    if len(parts) != len(partitions):
        raise BrokenPromiseError(f"{len(parts)} parts were given for {len(partitions)} partitions")
    for part, p in zip(parts, partitions, strict=True):
        if type(part) not in PART_TYPES:  # the norms must be ours, not a stranger's word
            raise BrokenPromiseError(f"partition {p.name!r} was given a {type(part).__name__}, not one of {PART_TYPES}")
        if p.symmetric and not isinstance(part, GramPart):  # averaging with the transpose must not change the sum
            raise BrokenPromiseError(f"partition {p.name!r} is symmetric: its parts must be GramParts")
        if part.shape != p.shape or part.rows != rows:
            raise BrokenPromiseError(
                f"partition {p.name!r} promised a share of shape {p.shape} for each of its examples; "
                f"got shares of shape {part.shape}"
            )


def _keep_promise(parts: Sequence[Part], scales: Sequence[float], together: int) -> Tensor:
    """Whether every example's shares together stay within the promise (see :mod:`dpmac.bounds.clipping`).

    Of persons, whose rows lie at ``together`` neighbouring spots: whether the *sum* of their rows' norms does, which is
    no less than the norm of the sum.
    """
    if all(math.isinf(scale) for scale in scales):
        return torch.tensor(True)  # nothing was promised
    norms = joint_norms(parts, scales).reshape(-1, together).sum(dim=1)
    return ((norms >= 0.0) & (norms <= KEPT)).all()  # also catches NaN
