"""Persons: whose row is whose, where the unit of privacy is a person with any number of rows.

A table of persons has a *place* for every person, and the number of persons, n, is public. How many rows a person has
is not, nor is the number of rows in all: nothing that is released, and no shape of anything that is computed, depends
on them. Neighbouring tables differ in one place: all rows of a person stand there, or none does.

A person that a sample takes brings at most ``max_rows`` of its rows; of more, so many are drawn anew for every release,
without replacement, each set equally likely. The m rows that it brings are weighed by 1 / m. So their shares together
are no longer than one row's bound, whatever the bound and whatever the rows (the triangle inequality), the noise is
what it is for a table of n rows, and what is estimated is an average over persons. Which rows are drawn is a function
of this person's rows and of fresh draws alone: given the draws, a release is the plain mechanism, and a mixture over
draws that have the same law for both tables is no easier to tell apart than its worst part.

The rows of a person are at ``spots_per_place`` neighbouring spots: a power of two, at most ``chunks.CHUNK``, so that
they never straddle two blocks, or two chunks of a block that are summed in single precision. Two neighbouring tables
then differ inside one chunk, as tables of rows do. A chunk holds the shares of at most CHUNK / spots_per_place persons,
each within one bound, so :func:`dpmac.kernels.chunks.in_chunks` rounds by less than its margin. Sums in double
precision add no more than those of as many rows as there are spots, which is what ``parts.SLACK`` counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.cells import flat, is_missing
from dpmac.checks import ArgumentError, integer
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.old_names import OldAttribute
from dpmac.privacy.entry import PERSON
from dpmac.randomness import NoiseSource, SystemNoise

MOST = 256  # rows that a person may bring: all lie in one chunk of chunks.CHUNK rows
USUAL = 4
_DIGEST = 16  # bytes: no two of all ids that there are share one by chance
_FIX = "give the id of a person for each row: a column, a list or an array"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """``order[starts[p] : starts[p + 1]]`` are the rows of person p. The number of persons is public, the rest is not.

    ``name`` is what the ids are called, the name of their column: public.
    """

    order: Tensor
    starts: Tensor
    max_rows: int
    name: str = ""
    world: World = SINGLE_PROCESS  # the processes that were asked whether they have rows of these persons, too

    @classmethod
    def of(cls, ids: Any, max_rows: int = USUAL, name: str = "") -> Persons:
        """Rows with equal ``ids`` are one person's. Ids may be numbers, texts or anything that can be told apart.

        A row without an id is refused: whose it is cannot be guessed. Ids themselves are forgotten.
        """
        fix = f"give the number of rows that a person brings at most, from 1 to {MOST}"
        most = integer("max_rows", max_rows, fix, low=1, high=MOST)
        codes, count = _codes(flat(ids, "groups", _FIX))
        starts = torch.zeros(count + 1, dtype=torch.int64)
        starts[1:] = torch.bincount(codes, minlength=count).cumsum(dim=0)
        return cls(torch.argsort(codes, stable=True), starts, most, name or _name_of(ids))

    def __len__(self) -> int:
        """The number of persons: public."""
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"Persons(n={len(self)}, max_rows={self.max_rows}, name={self.name!r})"

    @property
    def rows(self) -> int:
        """The number of rows in all: private."""
        return len(self.order)

    @property
    def spots_per_place(self) -> int:
        """Spots for one person: ``max_rows``, up to a power of two."""
        return 1 << (self.max_rows - 1).bit_length()

    together = OldAttribute("spots_per_place")

    @property
    def unit(self) -> str:
        """The unit of privacy, as the ledger records it."""
        return f"{PERSON} by {self.name}" if self.name else PERSON

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:
        """The rows that the persons at ``places`` (None: all) bring: (places, spots_per_place), -1 where there is none.

        As many numbers are drawn for a person with no rows as for one with thousands, and no draw is shared.
        """
        first = self.starts[:-1] if places is None else self.starts[places]
        count = (self.starts[1:] if places is None else self.starts[places + 1]) - first
        chosen = _subset(count, self.max_rows, source.uniform(len(count) * self.max_rows).reshape(-1, self.max_rows))
        rows = torch.full((len(count), self.spots_per_place), -1)
        if self.rows:
            found = self.order[(first.unsqueeze(1) + chosen).clamp(max=self.rows - 1)]
            brought = torch.arange(self.max_rows) < count.unsqueeze(1)
            rows[:, : self.max_rows] = torch.where(brought, found, -1)
        return rows

    def whole_in(self, world: World, ids: Any) -> Persons:
        """The same, if no other process of ``world`` has rows of anybody here; else everyone raises.

        ``ids`` are those of the persons here, each once or more often. The guarantee is for all rows of a person, and a
        person in two processes would have two places. Digests are compared, under a key that is drawn for this alone.
        """
        if world is not SINGLE_PROCESS:
            check_whole(world, flat(ids, "groups", _FIX))
        return replace(self, world=world)

    def without(self, person: int) -> tuple[Persons, Tensor]:
        """The neighbour's persons, this one's place left blank; and which of the rows are kept."""
        first, last = int(self.starts[person]), int(self.starts[person + 1])
        if first == last:
            raise ArgumentError("place", person, "it is blank already")
        kept = torch.ones(self.rows, dtype=torch.bool)
        kept[self.order[first:last]] = False
        rank = kept.long().cumsum(dim=0) - 1  # where a row is when the others have gone
        order = torch.cat([self.order[:first], self.order[last:]])
        starts = self.starts.clone()
        starts[person + 1 :] -= last - first
        return replace(self, order=rank[order], starts=starts), kept


def persons_in(world: World | None, groups: Any, max_rows: int, rows: int) -> Persons:
    """The persons that ``groups`` says, of whom no other process of ``world`` may have rows."""
    world = SINGLE_PROCESS if world is None else world
    persons: Persons = groups if isinstance(groups, Persons) else Persons.of(groups, max_rows).whole_in(world, groups)
    if persons.world is not world:
        fix = "whether others have rows of these persons was not asked: persons.whole_in(world, ids)"
        raise ArgumentError("groups", persons, fix)
    if persons.rows != rows:
        raise ArgumentError("groups", f"{persons.rows} ids", f"there are {rows} rows: give one for each")
    return persons


def check_whole(world: World, ids: Iterable[Any]) -> None:
    """Raise in every process of ``world`` if some id is in more than one of them."""
    said = world.everywhere(lambda: {_said(one) for one in ids})
    key = shared_key(world)
    mine = "".join(sorted(hashlib.blake2b(one.encode(), digest_size=_DIGEST, key=key).hexdigest() for one in said))
    width = 2 * _DIGEST
    every = [text[at : at + width] for text in world.everyone(mine) for at in range(0, len(text), width)]
    if len(set(every)) < len(every):
        fix = "some persons have rows in more than one, and the guarantee is for all rows of a person: give them to one"
        raise ArgumentError("groups", f"{world.size} processes", fix)


def shared_key(world: World) -> bytes:
    """A key that all processes of ``world`` have, drawn now: for digests that they compare and nobody keeps."""
    return bytes.fromhex(world.leaders(SystemNoise().uniform(4).numpy().tobytes().hex()))


def _said(one: Any) -> str:
    """An id in words that are the same for all ids that are equal: 1, 1.0, True, Decimal(1) and NumPy's are one."""
    plain = one.item() if isinstance(one, np.generic) else one
    if isinstance(plain, str | bytes):
        return repr(plain)
    if isinstance(plain, int | float | Decimal | Fraction) and plain == plain:
        return str(float(plain) if math.isinf(plain) else Fraction(plain))
    if isinstance(plain, tuple):
        return f"({','.join(map(_said, plain))})"
    raise ArgumentError("groups", plain, "ids of several processes are compared: give whole numbers or texts")


def _subset(count: Tensor, most: int, uniforms: Tensor) -> Tensor:
    """For each c of ``count``, ``most`` numbers below c, each set of them equally likely; 0, 1, 2 ... if c is no more.

    Floyd's algorithm: at its i-th turn a number up to c - most + i, or that limit itself if the number is taken.
    """
    chosen = torch.arange(most).repeat(len(count), 1)
    many = count > most
    for turn in range(most):
        limit = count - most + turn
        number = torch.minimum((uniforms[:, turn] * (limit + 1)).long(), limit)
        taken = (chosen[:, :turn] == number.unsqueeze(1)).any(dim=1)
        chosen[:, turn] = torch.where(many, torch.where(taken, limit, number), chosen[:, turn])
    return chosen


def _codes(ids: Array) -> tuple[Tensor, int]:
    """A number for each id, equal for equal ids, in the order in which they first appear; and how many there are."""
    if ids.ndim != 1:
        raise ArgumentError("groups", f"shape {ids.shape}", _FIX)
    gone = _missing(ids)
    if gone.any():
        row = int(np.argmax(gone))
        fix = "the row has no id, and whose it is cannot be guessed: fill it in, or drop the row"
        raise ArgumentError(f"groups, row {row}", ids[row], fix)
    if ids.dtype != object:
        found, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        return torch.from_numpy(np.argsort(np.argsort(first))[codes].astype(np.int64)), len(found)
    known: dict[Any, int] = {}
    try:
        numbers = [known.setdefault(one, len(known)) for one in ids]
    except TypeError as error:
        raise ArgumentError("groups", str(error), _FIX) from None
    return torch.tensor(numbers, dtype=torch.int64), len(known)


def _missing(ids: Array) -> Array:
    """Where there is no id; of an id of several parts, where any of them is missing."""
    if ids.dtype.kind in "fcmM":
        return np.asarray(np.isnat(ids) if ids.dtype.kind in "mM" else np.isnan(ids))
    if ids.dtype.kind in "US":
        return np.asarray(np.char.str_len(np.char.strip(ids)) == 0)
    if ids.dtype != object:
        return np.zeros(ids.shape, dtype=bool)
    parts = (one if isinstance(one, tuple) else (one,) for one in ids)
    return np.fromiter((any(map(is_missing, few)) for few in parts), dtype=bool, count=len(ids))


def _name_of(ids: Any) -> str:
    """What a column of a data frame is called."""
    name = getattr(ids, "name", None)
    return name if isinstance(name, str) else ""
