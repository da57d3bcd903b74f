"""The one door: the only function of the package that turns private numbers into public ones.

    rows -> sampler -> front -> coordinates -> expansion -> bound -> RELEASE -> weights -> model

What it guarantees, if the two things below hold: releasing a Poisson sample of rate q adds exactly one event
"Poisson-sampled Gaussian mechanism, sampling probability q, noise multiplier sigma" to the ledger, under blanking or
filling in one row of a table whose number of rows is public.

1. The query treats every row by itself (a test changes one row and sees only that row's parts change).
2. The bound keeps its promise; this is checked here, on every row, before anything is summed.

Floating point. Sums are made over blocks of bounded length, and the bounds leave room for their rounding (see
``bounds.SLACK`` and, for single precision, ``parts.SINGLE_ROOM``). A row's own numbers are rounded too, and matrix
kernels round by shape and by spot: a row that moved because another came or went could change, by much where it sits on
a discontinuity (ReLU's f' at 0, a row scaled to length 1). So nothing is ever computed on a whole table whose shape its
rows could change: fronts, coordinates and parts are computed in blocks of public shape, at spots drawn at random by a
law under which no row's spot depends on the others (:meth:`Batch.spend`). What is assumed of the kernels is only that
the numbers at one spot do not depend on the *values* at other spots; a test changes one row, outrageously, and sees no
bit of another change.

The noisy sum is snapped to a grid of about a millionth of the noise's standard deviation, which removes the low bits in
which floating-point Gaussians are known to betray their argument. This is a mitigation, not a proof: an exact one
would need a discrete Gaussian. The statement lists it among what is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.bounds import SLACK, joint_norms
from dpmac.privacy.ledger import Entry, Ledger
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import SINGLE_ROOM, DensePart, GramPart, OuterPart, Part
from dpmac.privacy.positions import PositionPart
from dpmac.privacy.precision import full_precision
from dpmac.privacy.query import Query
from dpmac.privacy.sampling import MAX_BLOCK, Batch, block_size
from dpmac.randomness import NoiseSource

MAX_ROWS = 4_000_000  # expected rows in a release: the rounding argument in bounds.SLACK counts on it
LEAST = 1e-20  # a scale below which sums are made in double precision whatever the parts are: underflow is absolute
PART_TYPES = (OuterPart, DensePart, GramPart, PositionPart)
_CACHED = 1 << 16  # numbers that a core perturbs at a time, from the draw to the grid: its cache holds them
_GRID_BITS = 20  # the released grid is 2**-20 of the noise's standard deviation


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
) -> dict[str, Tensor]:
    """The answer to ``query``: the noisy sum of every partition under its name, float64, over a public constant.

    Independent Gaussian noise of standard deviation ``noise_multiplier * partition.scale`` is added to every coordinate
    (and symmetric partitions are then averaged with their transpose). The event is in the ledger (and on disk, if the
    ledger has a file) before any noise is drawn, so what raises earlier releases and charges nothing, and what raises
    later is charged all the same. An empty batch gives pure noise. ``micro_batch`` is the number of rows taken at a
    time at most, rounded up to a multiple of 32; the query always gets full blocks (see :meth:`Batch.spend`), which
    hold zeros where there is no row.

    With ``noise_multiplier=0`` the sums are exact, and the ledger says that nothing is private any more.
    """
    sigma = check_multiplier(noise_multiplier)
    scales = _checked_scales(query.partitions, sigma)
    _check_arguments(batch, divisor, micro_batch)
    with full_precision():
        totals = _sums(batch, query, scales, source, micro_batch)
    ledger.append(
        Entry(
            label=query.label,
            noise_multiplier=sigma,
            sample_rate=batch.sample_rate,
            overflow=batch.overflow,
            seeded=source.seeded or batch.seeded,
            scales={p.name: scale for p, scale in zip(query.partitions, scales, strict=True)},
        )
    )
    return {
        p.name: _perturb(total, sigma * scale if sigma else 0.0, source, p.symmetric, float(divisor))
        for p, scale, total in zip(query.partitions, scales, totals, strict=True)
    }


def _sums(
    batch: Batch, query: Query, scales: Sequence[float], source: NoiseSource, micro_batch: int | None
) -> list[Tensor]:
    """Exact sums of the checked parts, in blocks of at most MAX_BLOCK rows whatever the micro-batch is."""

    size = block_size(batch.capacity, micro_batch)
    totals: list[Tensor] | None = None
    block: list[Tensor] | None = None
    filled = 0
    for rows, real in batch.spend(size, source.spawn("places")):
        if filled + size > MAX_BLOCK:
            totals, block, filled = _added(totals, block), None, 0
        raw = query.parts(*rows)
        _check_kinds(raw, query.partitions, size)
        exact = [p.doubled() if isinstance(p, OuterPart) and s < LEAST else p for p, s in zip(raw, scales, strict=True)]
        mask = real.double()
        parts = [part.scaled(mask) for part in exact]  # what empty spots contributed is dropped
        _check_promise(parts, query.partitions, scales)
        block = _added(block, [part.total() for part in parts])
        filled += size
    sums = _added(totals, block)
    assert sums is not None  # a batch has one block at least
    return sums


def _added(one: list[Tensor] | None, other: list[Tensor] | None) -> list[Tensor] | None:
    """The sums of both, in place; either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return [a.add_(b) for a, b in zip(one, other, strict=True)]


def _perturb(total: Tensor, deviation: float, source: NoiseSource, symmetric: bool, divisor: float) -> Tensor:
    """``total`` plus fresh independent Gaussian noise, snapped to a grid far finer than the noise, over ``divisor``.

    For symmetric matrices the noise is (N + N^T) / 2 with N independent in every coordinate: a function of
    ``total + N``, so no less private, with half the variance off the diagonal.
    """
    if deviation == 0.0:
        return total / divisor
    grid = 2.0 ** (math.floor(math.log2(deviation)) - _GRID_BITS)  # a power of two, so that 1 / grid is exact
    if total.device.type == "cpu":
        snapped = total.contiguous()
        for piece in torch.split(snapped.view(-1), _CACHED * torch.get_num_threads()):
            piece.add_(source.normal(piece.shape), alpha=deviation).mul_(1.0 / grid).round_().mul_(grid / divisor)
    else:
        snapped = torch.add(total, source.normal(total.shape, total.device), alpha=deviation)
        snapped.mul_(1.0 / grid).round_().mul_(grid / divisor)
    return (snapped + snapped.transpose(-1, -2)) / 2 if symmetric else snapped


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


def _check_promise(parts: Sequence[Part], partitions: Sequence[Partition], scales: Sequence[float]) -> None:
    """Raise unless every example's shares together stay within the promise (see :mod:`dpmac.privacy.bounds`).

    Room for rounding is part of it. Sums of single precision can be off by as much as the largest share of *any* row of
    the block there allows (``parts.SINGLE_ROOM`` of it, which the norms of that row carry): so where some shares are
    single and others are not, that much is added to every row's single ones.
    """
    if all(math.isinf(scale) for scale in scales):
        return
    norms = joint_norms(parts, scales)
    single = [isinstance(part, OuterPart) and part.single for part in parts]
    if any(single) and not all(single):
        near, exact = (
            joint_norms(
                [p for p, s in zip(parts, single, strict=True) if s is kind],
                [c for c, s in zip(scales, single, strict=True) if s is kind],
            )
            for kind in (True, False)
        )
        true = near / (1.0 + SINGLE_ROOM)
        norms = torch.maximum(norms, torch.hypot(true + SINGLE_ROOM * true.max(), exact))
    if not bool(((norms >= 0.0) & (norms <= 1.0 - SLACK / 2)).all()):  # also catches NaN
        raise BrokenPromiseError(
            f"an example exceeds the bound promised for {[p.name for p in partitions]}; nothing was released. "
            "This is a bug in the bound, not in your data: please report it"
        )
