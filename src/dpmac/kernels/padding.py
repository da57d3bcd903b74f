"""How many spots a sample gets: a public number, or a noisy count of its rows, whichever is less work.

K3: the number of spots and the shape of a block follow from public numbers, or from a noisy count in the account.

The numbers computed for a row may depend on how many rows are computed at once (the rounding of kernels depends on the
shape), so the number of spots must not reveal how many rows were drawn. A public number has to be large: 1,236 spots
for 1,000 expected rows out of 60,000 (1,000 steps, delta 1e-5). The alternative is to count the drawn rows and to add
Gaussian noise and a margin that the noise exceeds with half of the chance that the ledger records. The noisy count is
then *one more coordinate of the release*: it is never shown to anybody, but the account covers it. If the sums
have noise multiplier sigma_s and the count has multiplier sigma_c, one row changes both by at most 1, and jointly they
are one Gaussian mechanism of multiplier sigma if

    1 / sigma_s**2 + 1 / sigma_c**2 <= 1 / sigma**2

With sigma_c = COUNT_NOISE_RATIO sigma, the noise on the sums is wider by half of 1 %. docs/kernels.md has the proof.
In short: given the noisy count, the number of spots is as good as public, and the sums of two neighbours differ by one
row's share.

Nothing is counted if that would save less than MIN_SAVING of the work, nor for a release of all rows (rate 1), nor on a
GPU, which replays a graph that was recorded for one shape.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import betainc, ndtri

from dpmac.kernels.chunks import CHUNK

if TYPE_CHECKING:
    from dpmac.randomness import NoiseSource

MAX_BLOCK = 8192  # maximal number of rows in a block: the rounding argument of parts.SLACK relies on it
DEFAULT_BLOCK = 4608  # default: enough for a batch of 4,096, and small enough for caches
MULTIPLE = 32  # the smallest block; of persons, all block sizes are multiples of it
COUNT_NOISE_RATIO = 10.0  # noise multiplier of the count divided by that of the release
MIN_SAVING = 0.04  # minimal fraction of the spots that a count must save to be worth its noise
_BITS = 30  # log2 of the number of steps in the standard deviation of the count's noise
_UP = 1.0 + 2.0**-40  # far above the rounding error of a few operations


@dataclass(frozen=True)
class Padding:
    """The spots for a sample: ``most``, or fewer by a noisy count of its rows with noise multiplier ``deviation``."""

    most: int
    deviation: float = 0.0  # 0: there is no count, and always ``most`` spots
    chance: float = 0.0  # bound on the probability that the noise exceeds the margin

    @property
    def widening(self) -> float:
        """The factor by which the sums' noise multiplier must exceed that of the release."""
        if self.deviation == 0.0:
            return 1.0
        return _UP / math.sqrt(1.0 - COUNT_NOISE_RATIO**-2)

    @property
    def margin(self) -> int:
        """Steps that are added to the noisy count; the last one provides a spot for one more row than were counted."""
        return math.ceil(-float(ndtri(self.chance)) * 2.0**_BITS) + 1

    @property
    def _steps(self) -> int:
        """The steps for one row, rounded down so that the noise has at least its multiplier."""
        return math.floor(2.0**_BITS / self.deviation)

    def spots(self, count: int, source: NoiseSource) -> int:
        """The spots for ``count`` rows: a function of count + deviation N, N from N(0, 1), and of public numbers.

        It is less than ``count`` + 1 with probability at most ``chance``, except for samples larger than ``most``.
        """
        if self.deviation == 0.0:
            return self.most
        (noise,) = source.steps([1], _BITS)
        noisy = count * self._steps + int(noise[0])
        return max(1, min(self.most, -(-(noisy + self.margin) // self._steps)))


@functools.lru_cache(maxsize=1024)
def paddings(shards: tuple[int, ...], rate: float, overflow: float, noise_multiplier: float) -> tuple[Padding, ...]:
    """The padding for every shard of a table, given the number of places in each: all shards are counted, or none.

    A release without noise counts nothing, because no noise would hide the count. Nor does a release with a spot for
    every place, such as one of all rows (``overflow`` 0).
    """
    public = tuple(Padding(capacity_for(n, rate, overflow)) for n in shards)
    if noise_multiplier == 0.0 or overflow == 0.0:
        return public
    deviation = COUNT_NOISE_RATIO * noise_multiplier * _UP
    half = overflow / 2
    counted = tuple(Padding(capacity_for(n, rate, half), deviation, half) for n in shards)
    expected = sum(
        min(padding.most, n * rate + padding.margin * deviation / 2.0**_BITS)
        for padding, n in zip(counted, shards, strict=True)
    )
    if expected <= (1.0 - MIN_SAVING) * sum(padding.most for padding in public):
        return counted
    return public


@functools.lru_cache(maxsize=1024)
def capacity_for(n: int, rate: float, overflow: float) -> int:
    """The smallest c such that c or more of n - 1 places are drawn with probability at most ``overflow``; at most n.

    n - 1, because the question is whether one more row, the one in which the neighbours differ, still finds a spot. The
    number of *other* drawn places has the same distribution for both tables. Computed from the binomial tail, which is
    an incomplete beta function: scipy's is accurate to ten digits, and we require half the probability.
    """
    low, high = math.floor((n - 1) * rate), n  # low is too small, and high, all places, is large enough
    while high - low > 1:
        middle = (low + high) // 2
        if float(betainc(float(middle), float(n - middle), rate)) < overflow / 2:
            high = middle
        else:
            low = middle
    return high


def block_size(capacity: int, micro_batch: int | None, spots_per_place: int = 1) -> int:
    """The number of rows in a block: the capacity in as few equal blocks as the micro-batch (or DEFAULT_BLOCK) allows.

    Depends on public numbers only, and is at least MULTIPLE. In tables of rows it is four times a number that divides
    into chunks of equal length (:func:`~dpmac.kernels.chunks.chunk_of`), if there is one; or else, and in tables of
    persons, a multiple of MULTIPLE and of ``spots_per_place``, a power of two.
    """
    if micro_batch is None:
        micro_batch = DEFAULT_BLOCK
    capacity, multiple = max(capacity, 1), max(MULTIPLE, spots_per_place)
    most = min(multiple * math.ceil(micro_batch / multiple), MAX_BLOCK)
    each = max(MULTIPLE, math.ceil(capacity / math.ceil(capacity / most)))
    chunks = math.ceil(each / CHUNK)
    equal_chunks = 4 * chunks * math.ceil(each / (4 * chunks))
    if spots_per_place == 1 and equal_chunks <= most:
        return equal_chunks
    return multiple * math.ceil(each / multiple)
