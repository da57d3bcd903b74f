"""Persons: which rows belong to whom, if the unit of privacy is a person with any number of rows.

A table of persons has a *place* for every person, and the number of persons, n, is public. The number of rows of a
person is private, and so is the total number of rows: nothing that is released, and no shape of any computation,
depends on them. Neighbouring tables differ in one place: it holds all rows of a person, or none.

A sampled person contributes at most ``max_rows`` of their rows. If there are more, a subset of that size is drawn anew
for every release, without replacement, all subsets being equally likely. The m contributed rows are weighted by 1 / m.
So the norm of their sum is at most one row's bound, for any bound and any rows (by the triangle inequality), the noise
is that of a table of n rows, and the estimate is an average over persons. Which rows are drawn is a function of this
person's rows and of fresh random numbers only. Given the random numbers, a release is the plain mechanism; and mixing
over random numbers with the same distribution for both tables does not make the tables easier to distinguish than in
the worst case.

The rows of a person are at ``spots_per_place`` neighbouring spots: a power of two, at most ``chunks.CHUNK``, so that
they never straddle two blocks, or two chunks of a block that are summed in single precision. Two neighbouring tables
then differ inside one chunk, as tables of rows do. A chunk holds the shares of at most CHUNK / spots_per_place persons,
each within one bound, so :func:`dpmac.kernels.chunks.in_chunks` rounds by less than its margin. Sums in double
precision add no more than those of as many rows as there are spots, which is what ``parts.SLACK`` counts.
"""

from __future__ import annotations

import hashlib
import math
import re
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

MOST = 256  # maximal number of rows of a person: they fit in one chunk of chunks.CHUNK rows
USUAL = 4
_DIGEST = 16  # bytes: long enough that no two ids collide by chance
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FIX = "give the id of a person for each row: a column, a list or an array"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """``order[starts[p] : starts[p + 1]]`` are the rows of person p. The number of persons is public, the rest is not.

    ``name`` is the public name of the ids, such as the name of their column.
    """

    order: Tensor
    starts: Tensor
    max_rows: int
    name: str = ""
    world: World = SINGLE_PROCESS  # the processes that were checked to have no rows of these persons

    @classmethod
    def of(cls, ids: Any, max_rows: int = USUAL, name: str = "") -> Persons:
        """Rows with equal ``ids`` belong to one person. Ids may be numbers, strings or anything that can be compared.

        A row without an id is rejected, because its owner cannot be guessed. The ids themselves are not kept.
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
        """The total number of rows: private."""
        return len(self.order)

    def of_rows(self) -> Tensor:
        """The number of its person for every row: private."""
        found = torch.empty_like(self.order)
        found[self.order] = torch.repeat_interleave(torch.arange(len(self)), self.starts.diff())
        return found

    @property
    def spots_per_place(self) -> int:
        """The number of spots for one person: ``max_rows``, rounded up to a power of two."""
        return 1 << (self.max_rows - 1).bit_length()

    together = OldAttribute("spots_per_place")

    @property
    def unit(self) -> str:
        """The unit of privacy, as the ledger records it."""
        if not self.name:
            return PERSON
        return f"{PERSON} by {self.name}"

    def drawn(self, places: Tensor | None, source: NoiseSource) -> Tensor:
        """The rows of the persons at ``places`` (None: all): (places, spots_per_place), -1 for no row.

        A person with no rows takes as many random numbers as one with thousands, and none are shared.
        """
        first, last = self.starts[:-1], self.starts[1:]
        if places is not None:
            first, last = first[places], last[places]
        count = last - first
        chosen = _subset(count, self.max_rows, source.uniform(len(count) * self.max_rows).reshape(-1, self.max_rows))
        rows = torch.full((len(count), self.spots_per_place), -1)
        if self.rows:
            found = self.order[(first.unsqueeze(1) + chosen).clamp(max=self.rows - 1)]
            present = torch.arange(self.max_rows) < count.unsqueeze(1)
            rows[:, : self.max_rows] = torch.where(present, found, -1)
        return rows

    def whole_in(self, world: World, ids: Any) -> Persons:
        """The same persons, if no other process of ``world`` has rows of any of them; otherwise every process raises.

        ``ids`` are those of the persons here, each at least once. The guarantee is for all rows of a person, and a
        person in two processes would have two places. The processes compare digests under a key drawn for this purpose.
        """
        if world is not SINGLE_PROCESS:
            check_whole(world, flat(ids, "groups", _FIX))
        return replace(self, world=world)

    def without(self, person: int) -> tuple[Persons, Tensor]:
        """The persons of the neighbouring table, in which this one's place is blank, and a mask of the rows kept."""
        first, last = int(self.starts[person]), int(self.starts[person + 1])
        if first == last:
            raise ArgumentError("place", person, "it is blank already")
        kept = torch.ones(self.rows, dtype=torch.bool)
        kept[self.order[first:last]] = False
        rank = kept.long().cumsum(dim=0) - 1  # the row numbers after the others are deleted
        order = torch.cat([self.order[:first], self.order[last:]])
        starts = self.starts.clone()
        starts[person + 1 :] -= last - first
        return replace(self, order=rank[order], starts=starts), kept


def persons_in(world: World | None, groups: Any, max_rows: int, rows: int) -> Persons:
    """The persons that ``groups`` defines; no other process of ``world`` may have rows of them."""
    if world is None:
        world = SINGLE_PROCESS
    persons = groups
    if not isinstance(persons, Persons):
        persons = Persons.of(groups, max_rows).whole_in(world, groups)
    if persons.world is not world:
        fix = "whether others have rows of these persons was not asked: persons.whole_in(world, ids)"
        raise ArgumentError("groups", persons, fix)
    if persons.rows != rows:
        raise ArgumentError("groups", f"{persons.rows} ids", f"there are {rows} rows: give one for each")
    return persons


def check_whole(world: World, ids: Iterable[Any]) -> None:
    """Raise in every process of ``world`` if some id is in more than one of them."""
    said = world.everywhere(lambda: {said_id(one) for one in ids})
    key = shared_key(world)
    mine = "".join(sorted(hashlib.blake2b(one.encode(), digest_size=_DIGEST, key=key).hexdigest() for one in said))
    width = 2 * _DIGEST
    every = [text[at : at + width] for text in world.everyone(mine) for at in range(0, len(text), width)]
    if len(set(every)) < len(every):
        fix = "some persons have rows in more than one, and the guarantee is for all rows of a person: give them to one"
        raise ArgumentError("groups", f"{world.size} processes", fix)


def shared_key(world: World) -> bytes:
    """A fresh key shared by all processes of ``world``, for digests that are compared and not kept."""
    return bytes.fromhex(world.leaders(SystemNoise().uniform(4).numpy().tobytes().hex()))


def said_id(one: Any) -> str:
    """An id as a string that is the same for all equal ids: 1, 1.0, True, Decimal(1) and NumPy's are one."""
    plain = one
    if isinstance(one, np.generic):
        plain = one.item()
    if isinstance(plain, str | bytes):
        return repr(plain)
    if isinstance(plain, int | float | Decimal | Fraction) and plain == plain:
        return str(float(plain) if math.isinf(plain) else Fraction(plain))
    if isinstance(plain, tuple):
        return f"({','.join(map(said_id, plain))})"
    raise ArgumentError("groups", plain, "ids are compared by what they say: give whole numbers or texts")


def same_id(one: Any) -> str:
    """An id as a string that is the same however a reader of files took it: 7, 7.0, " 7", "7e0", b"7"; 7.5 and "7.50".

    Equal ids are never apart. Some different ones are not either: numbers are compared as doubles.
    """
    plain = one
    if isinstance(one, np.generic):
        plain = one.item()
    if isinstance(plain, bytes):
        plain = plain.decode(errors="replace")
    if isinstance(plain, str):
        plain = plain.strip()
        if not _DECIMAL.fullmatch(plain):
            return plain
        plain = float(plain)
    if not isinstance(plain, int | float | Decimal | Fraction):
        return said_id(plain)
    try:
        return said_id(float(plain))
    except OverflowError:  # a whole number beyond all doubles
        return said_id(math.inf if plain > 0 else -math.inf)


def _subset(count: Tensor, most: int, uniforms: Tensor) -> Tensor:
    """For each c in ``count``, a uniformly random subset of ``most`` numbers below c; 0, 1, 2 ... if c <= ``most``.

    Floyd's algorithm: in turn i it takes a random number up to c - most + i, or that limit if the number is taken.
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
    """A number for each id, equal for equal ids, in order of first appearance, and how many distinct ids there are."""
    if ids.ndim != 1:
        raise ArgumentError("groups", f"shape {ids.shape}", _FIX)
    missing = _missing(ids)
    if missing.any():
        row = int(np.argmax(missing))
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
    """Where the id is missing, or any part of an id that is a tuple."""
    if ids.dtype.kind in "mM":
        return np.asarray(np.isnat(ids))
    if ids.dtype.kind in "fc":
        return np.asarray(np.isnan(ids))
    if ids.dtype.kind in "US":
        return np.asarray(np.char.str_len(np.char.strip(ids)) == 0)
    if ids.dtype != object:
        return np.zeros(ids.shape, dtype=bool)
    parts = (one if isinstance(one, tuple) else (one,) for one in ids)
    return np.fromiter((any(map(is_missing, few)) for few in parts), dtype=bool, count=len(ids))


def _name_of(ids: Any) -> str:
    """The name of a data frame's column, or "" if there is none."""
    name = getattr(ids, "name", None)
    if not isinstance(name, str):
        return ""
    return name
