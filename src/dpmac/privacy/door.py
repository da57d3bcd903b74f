"""The one door: the only function of the package that turns private numbers into public ones.

    rows -> sampler -> front -> coordinates -> expansion -> bound -> RELEASE -> weights -> model

What it guarantees, if the two things below hold: releasing a Poisson sample of rate q adds exactly one event
"Poisson-sampled Gaussian mechanism, sampling probability q, noise multiplier sigma" to the ledger, under blanking or
filling in one row of a table whose number of rows is public; or one person with all their rows, where the table is of
persons and their number is public (:mod:`dpmac.privacy.groups`).

1. The query treats every row by itself (a test changes one row and sees only that row's parts change).
2. The bound keeps its promise; this is checked here, on every row, before anything is charged or released.

Floating point. Sums are made over blocks of bounded length, and the bounds leave room for their rounding (see
``bounds.SLACK`` and, for single precision, ``chunks.SINGLE_ROOM``); the sums of blocks are added up exactly
(:mod:`dpmac.privacy.noise`), and so are those of several processes that hold parts of one table
(:mod:`dpmac.privacy.world`). A row's own numbers are rounded too, and matrix
kernels round by shape and by spot: a row that moved because another came or went could change, by much where it sits on
a discontinuity (ReLU's f' at 0, a row scaled to length 1). So nothing is ever computed on a whole table whose shape its
rows could change: fronts, coordinates and parts are computed in blocks of public shape, at spots drawn at random by a
law under which no row's spot depends on the others (:meth:`Batch.spend`). What is assumed of the kernels is only that
the numbers at one spot do not depend on the *values* at other spots; a test changes one row, outrageously, and sees no
bit of another change.

The noise is exact: the sum is rounded to a grid first, and the noise is a whole number of its steps, drawn with exactly
the law of a rounded Gaussian (:mod:`dpmac.privacy.noise` has the proof). So what is released is a function of the
Gaussian mechanism on real numbers, and the low bits in which floating-point noise betrays its argument do not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.alike import joint_norms, scaled, totals
from dpmac.privacy.bounds import KEPT
from dpmac.privacy.chunks import SINGLE_ROOM
from dpmac.privacy.ledger import Entry, Ledger
from dpmac.privacy.noise import Grid, perturbed
from dpmac.privacy.origin import check_origin
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import DensePart, GramPart, OuterPart, Part
from dpmac.privacy.positions import PositionPart
from dpmac.privacy.precision import full_precision
from dpmac.privacy.query import Query
from dpmac.privacy.recording import Sums, Work
from dpmac.privacy.room import Room
from dpmac.privacy.sampling import MAX_BLOCK, Batch, Take, block_size
from dpmac.privacy.store import Columns
from dpmac.randomness import NoiseSource

MAX_ROWS = 2**28  # expected rows in a release: with noise of any use, their sum has room on the grid
LEAST = 1e-20  # a scale below which sums are made in double precision whatever the parts are: underflow is absolute
PART_TYPES = (OuterPart, DensePart, GramPart, PositionPart)


class BrokenPromiseError(RuntimeError):
    """Some example's parts exceed what their bound promised: a bug in a bound, so nothing is released."""


@torch.no_grad()  # a graph would lead from what is released back to the rows
def release(
    batch: Batch,
    query: Query,
    *,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    divisor: float = 1.0,
    micro_batch: int | None = None,
    dtype: torch.dtype = torch.float64,
    apart: bool = False,
) -> dict[str, Tensor]:
    """The answer to ``query``: the noisy sum of every partition under its name, over a public constant.

    Independent Gaussian noise of standard deviation ``noise_multiplier * partition.scale``, and what the grid and a
    count of the sample cost (:mod:`dpmac.privacy.room`, half of 1 % where there is one), is added to every coordinate
    (and symmetric partitions are then averaged with their transpose). The event is in the ledger (and on disk, if the
    ledger has a file) before any noise on sums is drawn, so what raises earlier releases and charges nothing, and what
    raises later is charged all the same. An empty batch gives pure noise. ``micro_batch`` is the number of rows taken
    at a time at most, rounded up to a multiple of 32; the query always gets full blocks (see
    :meth:`Batch.spend`), which hold zeros where there is no row. ``dtype`` is what the answer is rounded to, noise and
    all; with ``apart``, a dense layer's matrix comes as one vector, the weights row by row and then the biases.

    With ``noise_multiplier=0`` the sums are exact, and the ledger says that nothing is private any more.
    """
    sigma = check_multiplier(noise_multiplier)
    scales = _checked_scales(query.partitions, sigma)
    _check_arguments(batch, divisor, micro_batch)
    rooms = batch.rooms(sigma)
    most = batch.most_rows(rooms)
    grid = Grid.of(sigma * rooms[0].widening, query.partitions, sum(most))
    ledger.check_unit(batch.unit)
    if batch.origin:
        check_origin(ledger, front=batch.origin)
    entry = Entry(
        label=query.label,
        noise_multiplier=sigma,
        sample_rate=batch.sample_rate,
        overflow=batch.overflow,
        seeded=source.seeded or batch.seeded,
        scales={p.name: scale for p, scale in zip(query.partitions, scales, strict=True)},
        unit=batch.unit,
    )

    # what processes tell each other is always a double, and a matrix
    form: dict[str, Any] = {"dtype": dtype, "apart": apart} if batch.world.size == 1 else {}

    def summed(everywhere: bool) -> tuple[list[Tensor], bool]:
        # code that is not known to be ours may keep what it was given, and what was recorded reads where it was
        alike = query.reads is not None and batch.device.type == "cpu"
        with full_precision(), batch.lent() if alike else nullcontext(batch.take) as take:
            room = rooms[batch.world.rank]
            return _sums(batch, query, scales, source, micro_batch, grid, everywhere, room, take)

    def paid(totals: list[Tensor], on_grid: bool) -> dict[str, Tensor]:
        ledger.append(entry)
        return perturbed(totals, query.partitions, scales, grid, source, float(divisor), on_grid, **form)

    def about() -> dict[str, Any]:
        words = ("label", "noise_multiplier", "sample_rate", "overflow", "seeded", "scales", "unit")
        shapes = {p.name: (p.shape, p.symmetric) for p in query.partitions}
        said = {**{word: getattr(entry, word) for word in words}, "shapes": shapes, "grid": grid, "divisor": divisor}
        return {f"the release's {word}": repr(value) for word, value in said.items()}

    limits = [grid.most_steps(rows) for rows in most]
    answer = batch.world.released(summed, paid, lambda: ledger.append(entry), query.partitions, about, limits)
    return {name: numbers.to(dtype) for name, numbers in answer.items()}


def _sums(
    batch: Batch,
    query: Query,
    scales: Sequence[float],
    source: NoiseSource,
    micro_batch: int | None,
    grid: Grid,
    everywhere: bool = False,
    room: Room | None = None,
    take: Take | None = None,
) -> tuple[list[Tensor], bool]:
    """Sums of the checked parts over blocks of at most MAX_BLOCK rows, added up on the grid.

    One block's sums are left as they are, unless those of other processes will be added to them (``everywhere``);
    whether they are on the grid comes beside them.
    """
    on_gpu = batch.device.type == "cuda"  # where every block costs launches
    places = source.spawn("places")
    capacity = batch.capacity if room is None else batch.rows_in(room, source.spawn("room"), places)
    size = block_size(capacity, MAX_BLOCK if on_gpu and micro_batch is None else micro_batch, batch.together)
    totals: list[Tensor] | None = None
    block: list[Tensor] | None = None
    kept: list[Tensor] = []
    filled = 0
    work: Work = partial(_block_sums, query, scales, batch.take if take is None else take)
    if query.reads is not None and batch.steady and on_gpu:
        work = partial(query.recording.sums, work, query.reads)
    for columns, *spots in batch.spend(size, places, lambda *where: where, capacity):
        if filled + size > MAX_BLOCK and block is not None:
            totals, block, filled = _added(totals, grid.rounded(block, scales)), None, 0
        more, fine = work(columns, *spots)
        kept.append(fine)
        block = _added(block, more)
        filled += size
    if not bool(torch.stack(kept).all() if len(kept) > 1 else kept[0]):  # asked once: a GPU is waited for
        raise BrokenPromiseError(
            f"an example exceeds the bound promised for {[p.name for p in query.partitions]}; nothing was released. "
            "This is a bug in the bound, not in your data: please report it"
        )
    assert block is not None  # a batch has one block at least
    if totals is None and not everywhere:
        return block, False
    sums = _added(totals, grid.rounded(block, scales))
    assert sums is not None
    return sums, True


def _block_sums(query: Query, scales: Sequence[float], take: Take, columns: Columns, row_at: Tensor) -> Sums:
    """The sums over one block, and whether all its rows keep the promise: no number may leave if they do not.

    Asks no tensor on a GPU for its value, so that it can be recorded (:mod:`dpmac.privacy.recording`).
    """
    rows, weights = take(columns, row_at)
    raw = query.parts(*rows)
    if query.reads is None:  # code that is not known to be ours may have written where no count of writes sees it
        raw = [part.afresh() if isinstance(part, OuterPart) else part for part in raw]
    _check_kinds(raw, query.partitions, row_at.numel())
    exact = [p.doubled() if isinstance(p, OuterPart) and s < LEAST else p for p, s in zip(raw, scales, strict=True)]
    parts = scaled(exact, weights)  # what empty spots contributed is dropped
    kept = _keep_promise(parts, scales, row_at.shape[1])  # first: sums may overwrite shares
    return totals(parts, row_at.shape[1]), kept


def _added(one: list[Tensor] | None, other: list[Tensor] | None) -> list[Tensor] | None:
    """The sums of both, in double precision, where it can be in place; either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return [a.double().add_(b.double()) for a, b in zip(one, other, strict=True)]


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
    """Whether every example's shares together stay within the promise (see :mod:`dpmac.privacy.bounds`).

    Of persons, whose rows lie at ``together`` neighbouring spots: whether the *sum* of their rows' norms does.

    Room for rounding is part of it. Sums of single precision can be off by as much as the largest share of *any* row of
    the block there allows (``chunks.SINGLE_ROOM`` of it, which the norms of that row carry): so where some shares are
    single and others are not, that much is added to every row's single ones.
    """
    if all(math.isinf(scale) for scale in scales):
        return torch.tensor(True)  # nothing was promised
    norms = _of_places(joint_norms(parts, scales), together)
    single = [isinstance(part, OuterPart) and part.single for part in parts]
    if any(single) and not all(single):
        near, exact = (
            _of_places(
                joint_norms(
                    [p for p, s in zip(parts, single, strict=True) if s is kind],
                    [c for c, s in zip(scales, single, strict=True) if s is kind],
                ),
                together,
            )
            for kind in (True, False)
        )
        true = near / (1.0 + SINGLE_ROOM)
        norms = torch.maximum(norms, torch.hypot(true + SINGLE_ROOM * true.max(), exact))
    return ((norms >= 0.0) & (norms <= KEPT)).all()  # also catches NaN


def _of_places(norms: Tensor, together: int) -> Tensor:
    """The sum of the norms at each place: no less than the norm of what stands there."""
    return norms if together == 1 else norms.reshape(-1, together).sum(dim=1)
