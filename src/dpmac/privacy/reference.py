"""The mechanism and its proof, as short as possible. Start here.

This file is a complete private release: slow, one row at a time, in whole numbers. The package never calls it. Tests
compare the package's releases with this one, for every query there is (tests/privacy/test_reference.py).

**Setting.** A table has n places, and n is public. A place holds one row, or it is blank. Two tables are neighbours if
they differ in one place: it holds a row in one of them and is blank in the other. A query computes D numbers from
every row, its *share*. They are divided into partitions, and partition i has a public scale c_i.

**Mechanism.** Each place enters the sample independently with probability q (:func:`poisson`). :func:`release` computes
the share of each sampled row from that row alone, divides partition i by c_i, and raises an error if the result is
longer than 1. It rounds the share to whole steps of a grid, adds up the whole numbers, writes (q, sigma) to the ledger,
and only then draws D independent whole numbers, each with exactly the distribution of round(s N), where N is a standard
normal variable. It adds these to the sum and multiplies by public constants.

**Claim.** This is the Gaussian mechanism of noise multiplier sigma on a Poisson sample of rate q, followed by
post-processing. So the epsilon that an accountant computes from the ledger's list of (q, sigma) holds for everything
that was released.

**Proof.** Let g be the step of the grid. The standard deviation of the noise is s = 2**bits steps.

1. *Sensitivity.* Let k be the sum of the sampled rows' vectors of whole numbers. Blanking or filling in a row changes k
   by that row's own rounded share, because no other row's share depends on it. Before rounding, this share has a length
   of at most 1/g steps. Rounding moves each of its D numbers by at most half a step, and the vector by at most
   sqrt(D)/2. So k changes by at most 1/g + sqrt(D)/2 steps.
2. *Noise.* The grid is chosen so that s >= sigma (1/g + sqrt(D)) (:class:`~dpmac.privacy.noise.Grid`): the standard
   deviation is at least sigma times the sensitivity.
3. *Rounded noise is no less private.* k is whole, so k + round(s N) = round(k + s N): a function of k + s N, which is
   the Gaussian mechanism on real numbers. There are no low-order bits through which floating-point noise could leak.
4. *Sampling.* Each row is in the sample with probability q, independently of the others. So the release is a
   Poisson-sampled Gaussian mechanism, which is what ``Entry(sample_rate=q, noise_multiplier=sigma)`` records.
5. *Composition.* The ledger lists every release before any of its numbers is seen. A plan fixes rates, multipliers
   and the number of releases beforehand. The accountant composes this list (:mod:`dpmac.privacy.accounting`).

Whatever the package computes faster must be proved correct: :mod:`dpmac.kernels` lists the five obligations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dpmac.privacy.entry import Entry
from dpmac.privacy.ledger import Releases
from dpmac.privacy.noise import Grid
from dpmac.privacy.query import Query
from dpmac.randomness import NoiseSource

Row = tuple[Tensor, ...]  # one value for every column of the table


def poisson(n: int, rate: float, source: NoiseSource) -> list[int]:
    """The places in one sample: each of ``n`` is drawn independently with probability ``rate``."""
    return [place for place, coin in enumerate(source.uniform(n).tolist()) if coin < rate]


def release(
    table: Sequence[Row | None],
    sample: Sequence[int],
    query: Query,
    *,
    sample_rate: float,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Releases,
    divisor: float = 1.0,
) -> dict[str, Tensor]:
    """The noisy sum of every partition over the rows of ``sample``, divided by a public constant."""
    grid = Grid.of(noise_multiplier, query.partitions, rows=len(table))
    scales = {partition.name: float(partition.scale or math.nan) for partition in query.partitions}
    rows = [row for row in (table[place] for place in sample) if row is not None]
    size = sum(math.prod(partition.shape) for partition in query.partitions)
    total = [0] * size
    for row in rows:
        total = [a + b for a, b in zip(total, whole_steps(query, row, grid), strict=True)]
    ledger.append(Entry(query.label, noise_multiplier, sample_rate, source.seeded, scales))
    (noise,) = source.steps([size], grid.bits)
    noisy = torch.tensor([k + int(n) for k, n in zip(total, noise.tolist(), strict=True)], dtype=torch.float64)
    pieces = torch.split(noisy, [math.prod(partition.shape) for partition in query.partitions])
    answer = {}
    for partition, piece in zip(query.partitions, pieces, strict=True):
        numbers = piece.reshape(partition.shape) * (grid.step * scales[partition.name] / divisor)
        if partition.symmetric:
            numbers = (numbers + numbers.transpose(-1, -2)) / 2
        answer[partition.name] = numbers
    return answer


def whole_steps(query: Query, row: Row, grid: Grid) -> list[int]:
    """One row's share in whole grid steps. Raises ValueError if the share exceeds its bound."""
    parts = query.parts(*(value.unsqueeze(0) for value in row))
    pairs = zip(parts, query.partitions, strict=True)
    share = [float(x) / float(p.scale or math.nan) for part, p in pairs for x in part.explicit().flatten().tolist()]
    if not math.sqrt(math.fsum(x * x for x in share)) <= 1.0:
        raise ValueError(f"a row of {query.label!r} exceeds its bound")
    return [round(x / grid.step) for x in share]
