"""The one door: the only function of the package that turns private numbers into public ones.

    rows -> sampler -> coordinates -> expansion -> bound -> RELEASE -> weights -> model

What it guarantees, if the two things below hold: releasing a Poisson sample of rate q adds exactly one event
"Poisson-sampled Gaussian mechanism, sampling probability q, noise multiplier sigma" to the ledger, under adding or
removing one example.

1. ``contribute`` treats every row by itself (a test changes one row and sees only that row's parts change).
2. The bound keeps its promise; this is checked here, on every example, before anything is summed.

Floating point. Sums are made in double precision over blocks of bounded length and the bounds leave room for their
rounding (see ``bound.SLACK``). A row's own numbers are rounded too, and matrix kernels round by shape and by place: a
row that moved because another came or went could change, by much where it sits on a discontinuity (ReLU's f' at 0). So
shapes are public and places are drawn at random, by a law under which no row's place depends on the others
(:meth:`Batch.spend`). What is assumed of the kernels is only that the numbers at one place do not depend on the
*values* at other places; a test changes one row, outrageously, and sees no bit of another change.

The noisy sum is snapped to a grid of about a millionth of the noise's standard deviation, which removes the low bits in
which floating-point Gaussians are known to betray their argument. This is a mitigation, not a proof: an exact one
would need a discrete Gaussian. The statement lists it among what is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.bound import SLACK, Partition, joint_norms
from dpmac.privacy.ledger import Entry, Ledger
from dpmac.privacy.noise import NoiseSource
from dpmac.privacy.parts import PART_TYPES, GramPart, Part
from dpmac.privacy.sampling import Batch

MAX_BLOCK = 4096  # rows in a block of the sum, and
MAX_ROWS = 4_000_000  # expected rows in a release: the rounding argument in bound.SLACK counts on both
_GRID_BITS = 20  # the released grid is 2**-20 of the noise's standard deviation

Contribute = Callable[..., Sequence[Part]]


class BrokenPromiseError(RuntimeError):
    """Some example's parts exceed what their bound promised: a bug in a bound, so nothing is released."""


@torch.no_grad()  # a graph would lead from what is released back to the rows
def release(
    batch: Batch,
    contribute: Contribute,
    partitions: Sequence[Partition],
    *,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    label: str,
    divisor: float = 1.0,
    micro_batch: int | None = None,
) -> list[Tensor]:
    """Noisy sums of the bounded parts of ``batch``, one float64 tensor per partition, divided by a public constant.

    ``contribute(*rows)`` gets a micro-batch and returns its bounded parts, one per partition, row by row. Independent
    Gaussian noise of standard deviation ``noise_multiplier * partition.scale`` is added to every coordinate (and
    symmetric partitions are then averaged with their transpose). The event is in the ledger (and on disk, if the ledger
    has a file) before any noise is drawn, so what raises earlier releases and charges nothing, and what raises later is
    charged all the same. An empty batch gives pure noise. ``micro_batch`` is the number of rows taken at a time at
    most, rounded up to a multiple of 64; ``contribute`` always gets full blocks (see :meth:`Batch.spend`), which hold
    zeros where there is no row.

    With ``noise_multiplier=0`` the sums are exact, and the ledger says that nothing is private any more.
    """
    sigma = check_multiplier(noise_multiplier)
    _check_arguments(batch, partitions, sigma, divisor, micro_batch)
    totals = _sums(batch, contribute, partitions, source, micro_batch)
    ledger.append(
        Entry(
            label=label,
            noise_multiplier=sigma,
            sample_rate=batch.sample_rate,
            seeded=source.seeded or batch.seeded,
            scales={p.name: p.scale for p in partitions},
        )
    )
    return [
        _perturb(total, sigma * p.scale if sigma else 0.0, source, p.symmetric) / float(divisor)
        for total, p in zip(totals, partitions, strict=True)
    ]


def _sums(
    batch: Batch,
    contribute: Contribute,
    partitions: Sequence[Partition],
    source: NoiseSource,
    micro_batch: int | None,
) -> list[Tensor]:
    """Exact sums of the checked parts, in blocks of at most MAX_BLOCK rows whatever the micro-batch is."""

    def zeros() -> list[Tensor]:
        return [torch.zeros(p.shape, dtype=torch.float64, device=batch.device) for p in partitions]

    size = block_size(batch.capacity, micro_batch)
    totals, block, filled = zeros(), zeros(), 0
    for rows, real in batch.spend(size, source.spawn("places")):
        if filled + size > MAX_BLOCK:
            totals, block, filled = [t + b for t, b in zip(totals, block, strict=True)], zeros(), 0
        raw = contribute(*rows)
        _check_kinds(raw, partitions, size)
        parts = [part.scaled(real.double()) for part in raw]  # what empty places contributed is dropped
        _check_promise(parts, partitions)
        block = [b + part.total() for b, part in zip(block, parts, strict=True)]
        filled += size
    return [t + b for t, b in zip(totals, block, strict=True)]


def block_size(capacity: int, micro_batch: int | None) -> int:
    """Rows in a block: all there is room for in as few equal blocks as the micro-batch and MAX_BLOCK allow.

    Depends on public numbers only. A multiple of 64, where matrix kernels have no remainders to treat apart.
    """
    most = MAX_BLOCK if micro_batch is None else min(64 * math.ceil(micro_batch / 64), MAX_BLOCK)
    return 64 * math.ceil(capacity / math.ceil(capacity / most) / 64)


def _perturb(total: Tensor, deviation: float, source: NoiseSource, symmetric: bool) -> Tensor:
    """``total`` plus fresh independent Gaussian noise, snapped to a grid far finer than the noise.

    For symmetric matrices the noise is (N + N^T) / 2 with N independent in every coordinate: a function of
    ``total + N``, so no less private, with half the variance off the diagonal.
    """
    if deviation == 0.0:
        return total
    grid = 2.0 ** (math.floor(math.log2(deviation)) - _GRID_BITS)
    noisy = total + deviation * source.normal(total.shape, total.device)
    snapped = torch.round(noisy / grid) * grid
    return (snapped + snapped.transpose(-1, -2)) / 2 if symmetric else snapped


def _check_arguments(
    batch: Batch, partitions: Sequence[Partition], noise_multiplier: float, divisor: float, micro_batch: int | None
) -> None:
    if batch.expected_rows > MAX_ROWS:
        raise ArgumentError(
            "batch", f"{batch.expected_rows:.0f} expected rows", f"release at most {MAX_ROWS} at a time"
        )
    number("divisor", divisor, "give a public constant above 0, such as the expected batch size", low=1e-99, high=1e99)
    if micro_batch is not None:
        integer("micro_batch", micro_batch, "give a number of rows, at least 1, or None")
    names = [p.name for p in partitions]
    if not names or len(set(names)) != len(names):
        raise ArgumentError("partitions", names, "give at least one partition, each with its own name")
    for p in partitions:
        if not 1e-30 <= p.scale <= 1e30 and not (noise_multiplier == 0 and math.isinf(p.scale)):
            fix = "noise needs a bound between 1e-30 and 1e30: choose a Bound"
            raise ArgumentError(f"scale of partition {p.name!r}", p.scale, fix)


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


def _check_promise(parts: Sequence[Part], partitions: Sequence[Partition]) -> None:
    """Raise unless every example's shares together stay within the promise (see :mod:`dpmac.privacy.bound`)."""
    if all(math.isinf(p.scale) for p in partitions):
        return
    norms = joint_norms(parts, [p.scale for p in partitions])
    if not bool((norms <= 1.0 - SLACK / 2).all()):  # room for rounding is part of the promise; also catches NaN
        raise BrokenPromiseError(
            f"an example exceeds the bound promised for {[p.name for p in partitions]}; nothing was released. "
            "This is a bug in the bound, not in your data: please report it"
        )
