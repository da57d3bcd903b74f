"""The mechanism and its proof, as short as possible. Start here.

This file is a complete private release: slow, one row at a time, in whole numbers. The package never calls it. Tests
compare the package's releases with this one, for all queries of the package (tests/privacy/test_reference.py).

**Terms.** A *place* of a table holds one row, or it is blank. A *query* computes D numbers from a row, the row's
*share*. These are divided into *partitions* (the weights of a layer, say), and partition i has a public *scale* c_i.
The *scaled share* is the share with partition i divided by c_i. Rounded to a *grid* of *step* g, it is D whole numbers,
the row's *steps*. The *ledger* lists all releases, the *accountant* computes epsilon from it, and a *plan* says, before
the first release, how many there will be and with which q and sigma.

**Setting.** A table has n places, and n is public. Two tables are neighbours if they differ in one place: it holds a
row in one of them and is blank in the other. A row's share depends on that row and on public numbers only, and *every
possible* row has a scaled share of length at most 1. The source's random numbers are independent and have the stated
distributions (:mod:`dpmac.randomness`: against adversaries who cannot break a cipher).

**Mechanism.** Each place enters the sample independently with probability q (:func:`poisson`; q to 53 binary digits).
:func:`release` computes the steps of each sampled row and adds them up. It writes (q, sigma) to the ledger, and only
then draws D independent whole numbers, each with exactly the distribution of round(s N), where N is a standard normal
variable and s = 2**bits. It adds these to the sum, multiplies by public constants, and averages symmetric matrices with
their transpose. A scaled share longer than 1 is an error: a query with such a row is outside of the setting.

**Claim.** This is the Gaussian mechanism of noise multiplier sigma on a Poisson sample of rate q, followed by
post-processing. So the epsilon that an accountant computes from the ledger's list of (q, sigma) holds for everything
that was released.

**Proof.** The standard deviation of the noise is s steps.

1. *Sensitivity.* Let k be the sum of the sampled rows' steps. Blanking or filling in a row changes k by that row's own
   steps, because no other row's share depends on it. Before rounding, they have a length of at most 1/g. Rounding moves
   each of D numbers by at most 1/2, and the vector by at most sqrt(D)/2. So k changes by at most 1/g + sqrt(D)/2.
2. *Noise.* The grid is chosen so that s >= sigma (1/g + sqrt(D)) (:class:`~dpmac.privacy.noise.Grid`): the standard
   deviation is at least sigma times the sensitivity. (The proof needs only sqrt(D)/2 here. The package rounds whole
   blocks, in both tables, and needs sqrt(D). The unused half far exceeds the rounding of doubles in this file.)
3. *Rounded noise is no less private.* k is whole, so k + round(s N) = round(k + s N), except at ties, which have
   probability 0: a function of k + s N, the Gaussian mechanism on real numbers. Floating-point noise could reveal the
   sum through its low-order bits; here there are none.
4. *Sampling.* Each row is in the sample with probability q, independently of the others: this is a Poisson-sampled
   Gaussian mechanism, as ``Entry(sample_rate=q, noise_multiplier=sigma)`` records. (The caller must give this q.)
5. *Composition.* Whatever was released before, a release is dominated by the pair of (1 - q) N(0, sigma^2) +
   q N(1, sigma^2) and N(0, sigma^2), and for exchanged tables by the exchanged pair (docs/proof.md, "The account").
   A plan fixes all pairs beforehand. So their composition, which the accountant computes from the ledger, dominates the
   run, however the queries depend on earlier answers (Zhu, Dong and Wang, 2022, on adaptive composition).

The package computes the same in blocks, except that it cuts a sample larger than its capacity; that chance is taken
from delta. :mod:`dpmac.kernels` lists the five properties that its code needs; each file argues for its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
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
    grid, scales = Grid.of(noise_multiplier, query.partitions, rows=len(table)), scales_of(query)
    rows = [row for row in (table[place] for place in sample) if row is not None]
    sizes = [math.prod(partition.shape) for partition in query.partitions]
    total = [0] * sum(sizes)
    for row in rows:
        total = [a + b for a, b in zip(total, whole_steps(query, row, grid), strict=True)]
    ledger.append(Entry(query.label, noise_multiplier, sample_rate, source.seeded, scales))
    (noise,) = source.steps([len(total)], grid.bits)
    noisy = torch.tensor([k + int(n) for k, n in zip(total, noise.tolist(), strict=True)], dtype=torch.float64)
    answer = {}
    for partition, piece in zip(query.partitions, torch.split(noisy, sizes), strict=True):
        numbers = piece.reshape(partition.shape) * (grid.step * scales[partition.name] / divisor)
        if partition.symmetric:
            numbers = (numbers + numbers.transpose(-1, -2)) / 2
        answer[partition.name] = numbers
    return answer


def scales_of(query: Query) -> dict[str, float]:
    """The scale of every partition; raises unless a bound has promised a finite one above 0."""
    scales = {}
    for partition in query.partitions:
        if partition.scale is None or not 0.0 < partition.scale < math.inf:
            raise ArgumentError(f"scale of partition {partition.name!r}", partition.scale, "choose a Bound")
        scales[partition.name] = partition.scale
    return scales


def whole_steps(query: Query, row: Row, grid: Grid) -> list[int]:
    """One row's share in whole grid steps. Raises ValueError if the scaled share is longer than 1."""
    parts = query.parts(*(value.unsqueeze(0) for value in row))
    pairs = zip(parts, scales_of(query).values(), strict=True)
    share = [float(x) / scale for part, scale in pairs for x in part.explicit().flatten().tolist()]
    if not math.sqrt(math.fsum(x * x for x in share)) <= 1.0:
        raise ValueError(f"a row of {query.label!r} exceeds its bound")
    return [round(x / grid.step) for x in share]
