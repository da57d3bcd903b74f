"""Many Gaussians rounded to whole numbers, exactly, by a table: draws of round(2**bits N) on the CPU.

K4: draws have exactly the distribution of round(2**bits N), to the last bit.

The real line from -6 to 6 is cut into cells of width 2**-7: x is in cell j if 2**bits x rounds to one of the
2**(bits - 7) whole numbers from j 2**(bits - 7) on. Inside a cell the normal density f is almost constant, so f is
written as a sum of two functions that are nowhere negative:

    f(x) = level_j + rest(x)       in cell j, where level_j = counts[j] * 2**-9 is at most f everywhere in the cell
    f(x) = rest(x)                 outside of all cells

A draw is from the first one with probability 2**-7 sum(level_j) = sum(counts) * 2**-16: 16 random bits choose an entry
of a table in which cell j stands ``counts[j]`` times, and bits - 7 further bits choose one of its whole numbers. These
are 99 % of all draws, and exact, because no number is rounded. If the 16 bits choose another entry, the draw is from
the rest, by rejection. A proposal picks one of 2**14 entries uniformly; each stands for a mass of 2**-20. ``caps[j]``
entries propose cell j, one proposes the tail, and the others are rejected.

*A cell.* A proposal is a uniform point x of the cell and a uniform height V in (0, 1). It is accepted if

    level_j + V cap_j < f(x)       where cap_j = caps[j] * 2**-13 is at least f - level_j everywhere in the cell     (*)

x and V have infinitely many binary digits; 63 of each are drawn, x's within its cell. In units of 2**-13 both sides are
below 3269, and the error of their difference, as it is computed, is below 2**-33: j + point is off by 2**-44 (half a
unit in the last place below 1024), so x is off by 2**-50 and x**2 / 2 by 2**-46. That changes f by 2**-46 f, and the
exponential function, for which we allow 4 units in the last place, with the products by 2**-49 f. The digits that were
not drawn change x by 2**-70 and V by 2**-63. If the two sides differ by no more than ``DOUBT``, 2**-32, more digits are
drawn until (*) is decided by :mod:`decimal`, in :func:`accepted`. They do not change what x rounds to.

*The tail*: whole numbers beyond all cells. If a Box-Muller pair (:mod:`dpmac.kernels.rounded`) has such a number, its
radius is above 5.999, so its U is below exp(-17.9), which is below 2**-20. The entry stands for U below 2**-20: it
makes a pair from a U whose first 20 digits are 0, and accepts its first number if that is beyond all cells.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpmac.kernels import rounded
from dpmac.kernels.exact import KNOWN, decided, further, pi
from dpmac.kernels.gaussian import LOW_63
from dpmac.kernels.streams import AESStream

Numbers = npt.NDArray[np.float64]
WIDTH = 7  # a cell is 2**-WIDTH wide
REACH = 6 << WIDTH  # cells -REACH to REACH - 1, which end at -6 and 6
FINEST = 20  # the least bits: the half step by which cells lie off the multiples of 2**-WIDTH is at most 2**-21
INDEX, PROPOSALS, UNIT = 16, 14, 20  # entries of the table, of the proposals, and a proposal's mass, as logarithms
PEAK = 2.0 ** (UNIT - WIDTH) / math.sqrt(2.0 * math.pi)  # the density at 0, in units of 2**(WIDTH - UNIT)
DOUBT = 2.0**-32
MANY = 1 << 16  # so many draws are faster by the table than by the transform
_UP = 1.0 + 2.0**-40  # far above the rounding error of the few operations that compute a table
_PIECE = 1 << 15  # draws per core at a time: they fit in its cache, with all temporaries
_LOT = 1 << 14  # maximal number of proposals at a time
_AT_ZERO = 1 << (INDEX - 1)  # where the table has the entry of the 16 bits 0, as a signed number


def steps(sizes: Sequence[int], bits: int, stream: AESStream) -> Iterator[Tensor]:
    """Independent draws of round(2**bits N) in lots of these sizes, float64; a lot is overwritten by the next one.

    ``bits`` is from 0 to 48. Coarse draws are transformed, and so are few, for which this is faster.
    """
    if sum(sizes) < MANY or bits < FINEST:
        yield from rounded.steps(sizes, bits, stream)
        return
    piece = _PIECE * torch.get_num_threads()
    out, spare = (torch.empty(size, dtype=torch.float64) for size in (max(sizes), min(piece, max(sizes))))
    rest = Rest(bits, sum(sizes), stream)
    for size in sizes:
        for part in torch.split(out[:size], piece):
            fill(part, spare[: len(part)], bits, rest, stream)
        yield out[:size]


def fill(out: Tensor, spare: Tensor, bits: int, rest: Rest, stream: AESStream) -> None:
    """Independent draws into ``out``; ``spare`` is memory of the same size."""
    count, per_cell = len(out), 2 ** (bits - WIDTH)
    chosen = stream.words(-(-count // 4)).view(torch.int16)[:count]
    found = np.flatnonzero(chosen.numpy() >= _tables().most - _AT_ZERO)
    at = spare.view(torch.int64).copy_(chosen).add_(_AT_ZERO)
    out.copy_(_tables().cells.index_select(0, at))
    kind = torch.int32 if per_cell <= 2**31 else torch.int64
    each = kind.itemsize
    low = stream.words(-(-count * each // 8)).view(kind)[:count].bitwise_and_(per_cell - 1)
    torch.add(spare.copy_(low), out, alpha=per_cell, out=out)
    out.numpy()[found] = rest.draws(len(found))


class Tables:
    """The cells of the table and of the proposals; the same for all bits from FINEST on."""

    def __init__(self) -> None:
        ends = np.abs(np.arange(-REACH, REACH + 1)) * 2.0**-WIDTH
        off = 2.0 ** -(FINEST + 1)
        least, most = (
            PEAK * np.exp(-(x**2) / 2)
            for x in (np.maximum(ends[:-1], ends[1:]) + off, np.maximum(np.minimum(ends[:-1], ends[1:]) - off, 0.0))
        )
        ratio = 2 ** (UNIT - INDEX)  # proposals have the finer mass
        self.counts = np.floor(least / _UP / ratio).astype(np.int64)
        self.levels = ratio * self.counts.astype(np.float64)
        self.caps = np.ceil(most * _UP - self.levels).astype(np.int64)
        self.most = int(self.counts.sum())  # entries from here on are the rest
        numbers = np.arange(-REACH, REACH)
        self.cells = torch.zeros(2**INDEX, dtype=torch.int16)  # small, to leave space for others in a core's cache
        self.cells[: self.most] = torch.from_numpy(np.repeat(numbers, self.counts))
        places = np.repeat(np.arange(2 * REACH), self.caps)
        assert len(places) < 2**PROPOSALS
        self.proposed = np.full(2**PROPOSALS, 2 * REACH)  # what is beyond all cells has an infinite level: not accepted
        self.proposed[: len(places)] = places
        self.tail = len(places)  # the entry that proposes the tail
        self.numbers = np.append(numbers, 0)
        self.level = np.append(self.levels, np.inf)
        self.cap = np.append(self.caps, 0).astype(np.float64)


@functools.cache
def _tables() -> Tables:
    return Tables()


class Rest:
    """Draws from the rest, for one stream; ``total`` draws are expected of both parts together."""

    def __init__(self, bits: int, total: int, stream: AESStream) -> None:
        self._bits, self._stream, self._kept = bits, stream, np.empty(0)
        expected = total * (1.0 - _tables().most * 2.0**-INDEX)
        self._ahead = math.ceil(expected + 3.0 * math.sqrt(expected))

    def draws(self, count: int) -> Numbers:
        """The next ``count`` draws."""
        while len(self._kept) < count:
            wanted = max(count - len(self._kept), self._ahead)
            more = self._proposals(min(_LOT, 3 * wanted // 2 + 16))  # two of three are accepted
            self._kept, self._ahead = np.concatenate([self._kept, more]), self._ahead - len(more)
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken

    def _proposals(self, count: int) -> Numbers:
        """The accepted ones of ``count`` proposals."""
        words, tables, bits = self._stream.words(3 * count).numpy().reshape(3, count).copy(), _tables(), self._bits
        entry, points, heights = words[0] & (2**PROPOSALS - 1), words[1] & LOW_63, words[2] & LOW_63
        place = tables.proposed[entry]
        cell = tables.numbers[place]
        x = (cell + points * 2.0**-KNOWN) * 2.0**-WIDTH - 2.0 ** -(bits + 1)
        above = PEAK * np.exp(-0.5 * x * x) - (tables.level[place] + heights * 2.0**-KNOWN * tables.cap[place])
        whole = ((cell << (bits - WIDTH)) + (points >> (KNOWN - bits + WIDTH))).astype(np.float64)
        kept = above > 0
        for n in np.flatnonzero((np.abs(above) <= DOUBT) & (place < 2 * REACH)).tolist():
            kept[n] = accepted(int(place[n]), int(points[n]), int(heights[n]), bits, self._stream)
        for n in np.flatnonzero(entry == tables.tail).tolist():
            whole[n] = tail(int(words[1, n]), int(words[2, n]), bits, self._stream)
            kept[n] = abs(whole[n] + 0.5) > REACH << (bits - WIDTH)
        found: Numbers = whole[kept]
        return found


def accepted(place: int, point: int, height: int, bits: int, stream: AESStream) -> bool:
    """Whether (*) holds for a point and a height of which 63 digits are known; draws as many more as necessary."""
    tables, known, more = _tables(), KNOWN, 64
    number, level, cap = place - REACH, Decimal(int(tables.levels[place])), Decimal(int(tables.caps[place]))
    while True:
        point, height = (digits << more | further(stream, more) for digits in (point, height))
        known, more = known + more, 2 * more
        digits = math.ceil(known * math.log10(2)) + 30
        with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            whole = Decimal(2) ** known
            x = (number + point / whole) / 2**WIDTH - Decimal(2) ** -(bits + 1)
            density = 2 ** (UNIT - WIDTH) * (-x * x / 2).exp() / (2 * pi(digits)).sqrt()
            above = density - level - cap * height / whole
            # the digits not drawn change x by 2**-7 / whole, where no slope is above 2**11, and V by 1 / whole
            if abs(above) > (16 + cap) / whole + Decimal(1).scaleb(10 - digits):
                return bool(above > 0)


def tail(lead: int, turn: int, bits: int, stream: AESStream) -> int:
    """A number that a pair whose U is below 2**-20 rounds to."""
    lead = (lead & LOW_63) >> UNIT
    return (rounded.certain(lead, turn, bits) or decided(lead, turn, bits, stream))[0]
