"""The release: the only function of the package that turns private numbers into public ones.

    places -> sample -> blocks of rows -> a query's parts, one share per row -> RELEASE -> noisy sums

Guarantee: except with the probability that the entry records as ``overflow``, what is released is post-processing of
one Poisson-sampled Gaussian mechanism with the q and sigma of the one entry that is appended to the ledger; the account
takes the overflow from delta. Neighbouring tables have the same places and differ in one, which holds a row in one of
them and is blank in the other (or a person with all their rows: :mod:`dpmac.extensions.persons`). This holds for a
query that treats every row by itself and has a bound that every possible row keeps; docs/proof.md ("What a query
and its caller owe") has the full list. The bound is checked here, on every row, before anything is recorded.

Floating point. Bounds leave a margin for the rounding of a block's sum (``parts.SLACK``, in single precision
``chunks.SINGLE_MARGIN``). The sums of blocks, and of several processes, are added exactly, and the noise is exact
(:mod:`dpmac.privacy.noise`). A row's own numbers are rounded too, by kernels whose rounding depends on the shape and on
the position in the batch. If a row moved because another one appeared, its numbers could change, and by a lot at a
discontinuity (ReLU's f' at 0). So rows are computed in blocks of public shape, at random spots whose distribution does
not depend on other rows (:meth:`Batch.spend`), by kernels that satisfy K3 (:mod:`dpmac.kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
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

MAX_ROWS = 2**28  # expected rows in a release: their sum fits on the grid for any useful noise
MIN_SINGLE_SCALE = 1e-20  # smaller scales are summed in double precision: single precision would underflow
PART_TYPES = (OuterPart, DensePart, GramPart, PositionPart, BuiltPart, TokenPart)
DECLARED = {kind: [field.name for field in fields(kind) if field.init] for kind in PART_TYPES}


class BrokenPromiseError(RuntimeError):
    """A row's parts exceed the promised bound: a bug in the bound, which must not occur. Nothing is recorded, and no
    number is released; but the error itself shows that some row broke the bound."""


@torch.no_grad()  # a graph would lead from the released numbers back to the rows
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
    """Answer ``query``: the noisy sum of each partition, under its name, divided by a public constant.

    Every coordinate gets independent Gaussian noise of standard deviation ``noise_multiplier * partition.scale``, made
    slightly wider for the sake of the grid and of counting the sample (:mod:`dpmac.kernels.padding`; half of 1 % if the
    sample is counted). Symmetric partitions are then averaged with their transpose. The entry is in the ledger (and on
    disk, if the ledger has a file) before any noise on the sums is drawn: an error before that point releases and
    spends nothing, an error after it has spent all the same. An empty batch gives pure noise. ``micro_batch`` is the
    maximal number of rows in a block, rounded up to a multiple of 32, and never more than ``padding.MAX_BLOCK`` (the
    rounding argument of ``parts.SLACK`` needs this). The query always gets full blocks (see :meth:`Batch.spend`), with
    zeros where there is no row. The answer, noise included, is rounded to ``dtype``.

    With ``noise_multiplier=0`` the sums are exact, and the ledger records that nothing is private any more.
    """
    request = ReleaseRequest.of(batch, query, noise_multiplier, source, divisor, micro_batch)
    request.check_ledger(ledger)
    if batch.world is not None:
        answer = batch.world.released(request, source, ledger)
        return {name: numbers.to(dtype) for name, numbers in answer.items()}
    sums, on_grid = request.sums(source)
    ledger.append(request.entry)
    return request.perturbed(sums, source, dtype, on_grid)


@dataclass(frozen=True, eq=False)
class ReleaseRequest:
    """One release whose arguments were checked: the query, the rows, the grid, and the entry that the ledger will get.

    All of it is public but the batch, and what the query's code and recording see of rows. In one process
    :func:`release` takes the three steps (sum, record, perturb) in order; several processes that hold one table take
    them jointly (:mod:`dpmac.extensions.processes`).
    """

    batch: Batch
    query: Query
    scales: list[float]
    grid: Grid
    entry: Entry
    paddings: tuple[Padding, ...]  # one for each process
    divisor: float
    micro_batch: int | None

    @classmethod
    def of(
        cls, batch: Batch, query: Query, noise: float, source: NoiseSource, divisor: float, micro_batch: int | None
    ) -> ReleaseRequest:
        """Check the arguments; raises :class:`ArgumentError` if they cannot be released."""
        sigma = check_multiplier(noise)
        scales = _checked_scales(query.partitions, sigma)
        _check_arguments(batch, divisor, micro_batch)
        paddings = batch.paddings(sigma)
        # all processes count their samples, or none does: one widening for all
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
        """Raise if this release must not be recorded in ``ledger``."""
        ledger.check_unit(self.batch.unit, self.batch.n)
        if self.batch.origin:
            self.batch.origin.check(ledger)

    def sums(self, source: NoiseSource) -> tuple[list[Tensor], bool]:
        """Step 1: the sums over this process's rows, and whether they are whole numbers of grid steps.

        The sums of several blocks are: each block's sums are rounded, then added exactly. The sums of a single block
        are left unrounded until the noise is added. Every block's sums have memory of their own, even in a replay
        (:meth:`Recording.sums` copies them). Spends the batch. Raises :class:`BrokenPromiseError` after the last block
        if any row exceeds its bound.
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
                if blocks > 0:
                    sums = [a.add_(b) for a, b in zip(total, self.grid.whole(sums, self.scales), strict=True)]
                total = sums
                kept.append(within)
                blocks += 1
        if not bool(torch.stack(kept).all()):  # read once: this waits for the GPU
            raise BrokenPromiseError(
                f"a row exceeds the bound promised for {[p.name for p in self.query.partitions]}; nothing was "
                "released. This is a bug in the bound, not in your data: please report it"
            )
        return total, blocks > 1

    def perturbed(
        self, sums: list[Tensor], source: NoiseSource, dtype: torch.dtype = torch.float64, on_grid: bool = True
    ) -> dict[str, Tensor]:
        """Step 3, after the entry is in the ledger: the answer with fresh noise."""
        return perturbed(sums, self.query.partitions, self.scales, self.grid, source, self.divisor, dtype, on_grid)


def _block_sums(query: Query, scales: Sequence[float], take: Any, columns: Columns, row_at: Tensor) -> Sums:
    """The sums over one block, and whether all its rows keep the promise: if not, nothing may be released.

    Every share is measured here, on the very numbers that are summed, whoever computed it and whatever was measured
    before. Never reads a value of a GPU tensor, so that it can be recorded (:mod:`dpmac.kernels.recording`).
    """
    rows, weights = take(columns, row_at)
    raw = _rebuilt(query.parts(*rows), query.partitions, row_at.numel())
    # single precision only if all parts use it: every norm contains the margin for its rounding, or none does
    if not all(part.single for part in raw) or min(scales) < MIN_SINGLE_SCALE:
        raw = [part.doubled() for part in raw]
    parts = [part.scaled(weights) for part in raw]  # new objects, not measured yet; empty spots get weight 0
    spots_per_place = row_at.shape[1]
    return [part.total(spots_per_place) for part in parts], _keep_promise(parts, scales, spots_per_place)


def _checked_scales(partitions: Sequence[Partition], noise_multiplier: float) -> list[float]:
    """The scales that a bound has promised; infinite scales (no bound) are allowed only without noise."""
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
        found = f"{batch.expected_rows:.0f} expected rows"
        raise ArgumentError("batch", found, f"release at most {MAX_ROWS} at a time")
    number("divisor", divisor, "give a public constant above 0, such as the expected batch size", low=1e-99, high=1e99)
    if micro_batch is not None:
        integer("micro_batch", micro_batch, "give a number of rows, at least 1, or None")


def _rebuilt(given: Sequence[Any], partitions: Sequence[Partition], rows: int) -> list[Part]:
    """The parts again, made from their declared fields: nothing else that was attached to an instance is used.

    Raises unless each partition has one part, of a type of ours, with a share of the right shape for every row.
    """
    if len(given) != len(partitions):
        raise BrokenPromiseError(f"{len(given)} parts were given for {len(partitions)} partitions")
    parts: list[Part] = []
    for old, p in zip(given, partitions, strict=True):
        if type(old) not in PART_TYPES:  # we must compute the norms ourselves
            raise BrokenPromiseError(f"partition {p.name!r} was given a {type(old).__name__}, not one of {PART_TYPES}")
        part = type(old)(*[getattr(old, name) for name in DECLARED[type(old)]])
        if p.symmetric and not isinstance(part, GramPart):  # averaging with the transpose must not change the sum
            raise BrokenPromiseError(f"partition {p.name!r} is symmetric: its parts must be GramParts")
        if part.shape != p.shape or part.rows != rows:
            raise BrokenPromiseError(
                f"partition {p.name!r} promised a share of shape {p.shape} for each row of a block; "
                f"got shares of shape {part.shape}"
            )
        parts.append(part)
    return parts


def _keep_promise(parts: Sequence[Part], scales: Sequence[float], spots_per_place: int) -> Tensor:
    """Whether the joint norm of every row's shares stays within the promise (see :mod:`dpmac.bounds.clipping`).

    A person's rows are at ``spots_per_place`` neighbouring spots. For persons, this checks the *sum* of their rows'
    norms, which is at least the norm of the sum.
    """
    if all(math.isinf(scale) for scale in scales):
        return torch.tensor(True)  # nothing was promised
    norms = joint_norms(parts, scales).reshape(-1, spots_per_place).sum(dim=1)
    return ((norms >= 0.0) & (norms <= KEPT)).all()  # also catches NaN
