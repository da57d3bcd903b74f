"""How many spots a sample gets: a public number, or a noisy count of its rows, whichever is less work.

K3: the number of spots and the shape of a block follow from public numbers, or from a count that is paid for.

What is computed for a row may depend on how many rows are computed together (kernels round by shape), so the number of
spots must not tell how many rows were drawn. A public number has to be large: 1,248 spots for an expected 1,000 of
60,000 rows. The other way is to count the drawn rows, add Gaussian noise, and a margin that the noise exceeds once in
2**40 or so. The noisy count is then *one more coordinate of the release*: never shown to anybody, but paid for as if it
were. With sums of noise multiplier s and a count of multiplier c, a row that comes or goes moves both by 1 at most, and
together they are one Gaussian mechanism of multiplier sigma if

    1 / s**2 + 1 / c**2 <= 1 / sigma**2

With c = RATIO sigma, the noise on the sums is wider by half of 1 %. The proof is in ``docs/guarantee.md``; in short:
given the noisy count, the number of spots is as good as public, and two neighbours' sums differ by one row's share.

Nothing is counted where that would save less than SAVES of the work, nor on all rows (rate 1), nor on a GPU, which
replays what was recorded for one shape.
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

MAX_BLOCK = 8192  # rows in a block, at most: the rounding argument of parts.SLACK counts on it
DEFAULT_BLOCK = 4608  # unless another number is asked for: room for a batch of 4,096, and what caches hold is quicker
MULTIPLE = 32  # rows of a block come in multiples of it: matrix kernels have no remainders to treat apart
RATIO = 10.0  # of the count's noise multiplier to that of the whole release
SAVES = 0.04  # of the spots, at least, or a count is not worth its noise
_BITS = 30  # steps in the deviation of the noise on the count
_UP = 1.0 + 2.0**-40  # far above the rounding of a few operations


@dataclass(frozen=True)
class Padding:
    """Spots for a sample: ``most``, or fewer by a noisy count of the rows in it, of noise multiplier ``deviation``."""

    most: int
    deviation: float = 0.0  # 0: there is no count, and always room for ``most``
    chance: float = 0.0  # that the noise exceeds the margin, at most

    @property
    def widening(self) -> float:
        """What the sums' noise multiplier is to be times that of the release."""
        return 1.0 if self.deviation == 0.0 else _UP / math.sqrt(1.0 - RATIO**-2)

    @property
    def margin(self) -> int:
        """Steps that are added to the noisy count, of which the last makes room for one row more than were counted."""
        return math.ceil(-float(ndtri(self.chance)) * 2.0**_BITS) + 1

    @property
    def _steps(self) -> int:
        """Steps of one row: at most so many that the noise has its multiplier."""
        return math.floor(2.0**_BITS / self.deviation)

    def spots(self, count: int, source: NoiseSource) -> int:
        """Spots for ``count`` rows. A function of count + deviation N, N from N(0, 1), and of public numbers alone.

        Less than ``count`` + 1 with a chance of at most ``chance``, apart from samples beyond ``most``.
        """
        if self.deviation == 0.0:
            return self.most
        (noise,) = source.steps([1], _BITS)
        noisy = count * self._steps + int(noise[0])
        return max(1, min(self.most, -(-(noisy + self.margin) // self._steps)))


@functools.lru_cache(maxsize=1024)
def paddings(shards: tuple[int, ...], rate: float, overflow: float, noise_multiplier: float) -> tuple[Padding, ...]:
    """The room of every shard of a table, of which there are so many places in each: all are counted, or none.

    A release without noise counts nothing: no noise would hide it. Nor does one that has room for all places, as one
    on all rows has (``overflow`` 0).
    """
    public = tuple(Padding(capacity_for(n, rate, overflow)) for n in shards)
    if noise_multiplier == 0.0 or overflow == 0.0:
        return public
    deviation = RATIO * noise_multiplier * _UP
    half = overflow / 2
    counted = tuple(Padding(capacity_for(n, rate, half), deviation, half) for n in shards)
    expected = sum(
        min(room.most, n * rate + room.margin * deviation / 2.0**_BITS) for room, n in zip(counted, shards, strict=True)
    )
    return counted if expected <= (1.0 - SAVES) * sum(room.most for room in public) else public


@functools.lru_cache(maxsize=1024)
def capacity_for(n: int, rate: float, overflow: float) -> int:
    """The least c such that of n - 1 places c or more stand with a chance of at most ``overflow``; n at most.

    n - 1, because the question is whether one more row, the one that comes or goes, still finds a spot. That number of
    *other* places has one law whatever the tables hold. By the binomial tail itself, an incomplete beta function:
    scipy's, good to ten digits, asked for half the chance.
    """
    low, high = math.floor((n - 1) * rate), n  # low is too little, and high is enough: all places there are
    while high - low > 1:
        middle = (low + high) // 2
        enough = float(betainc(float(middle), float(n - middle), rate)) < overflow / 2
        low, high = (low, middle) if enough else (middle, high)
    return high


def block_size(capacity: int, micro_batch: int | None, together: int = 1) -> int:
    """Rows in a block: all there is room for in as few equal blocks as the micro-batch (or DEFAULT_BLOCK) allows.

    Depends on public numbers only. A multiple of MULTIPLE, and of ``together``, a power of two; or, of rows alone, so
    many that they are chunks of one length (:func:`~dpmac.kernels.chunks.chunk_of`).
    """
    capacity, multiple = max(capacity, 1), max(MULTIPLE, together)
    most = min(multiple * math.ceil((DEFAULT_BLOCK if micro_batch is None else micro_batch) / multiple), MAX_BLOCK)
    each = math.ceil(capacity / math.ceil(capacity / most))
    chunks = math.ceil(each / CHUNK)
    alike = 4 * chunks * math.ceil(each / (4 * chunks))
    return alike if chunks > 1 and together == 1 and alike <= most else multiple * math.ceil(each / multiple)
