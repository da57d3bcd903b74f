"""Splits: a data set that is divided, once and for all, so that nobody is in two of its parts.

A release from the rows of one split tells nothing about anybody in another. So the account composes, for each split,
what was released from it with what was released from all rows, and takes the largest (docs/proof.md, "Splits").

Which split a place belongs to is public, and the same for two neighbouring tables. It follows from the id of the row,
or of the person, by a hash under a key that is drawn when the data set is divided: nobody chooses it, a table with
further rows leaves all others where they were, and rows that are given as those of a split can be checked one by one
without keeping any. Ids that a file reader may confuse (7, 7.0, "7", "7e0") get the same hash: equal ids are never
apart, and different ones may well be in the same split.

The names, the shares and the key are in the header of the ledger's file. A copy to publish leaves the key out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmac.cells import flat
from dpmac.checks import ArgumentError, number
from dpmac.extensions.accounted import HeldToAccount
from dpmac.extensions.persons import Persons, same_id, shared_key
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.privacy.entry import PERSON, Entry
from dpmac.privacy.sampling import ROW

if TYPE_CHECKING:
    from dpmac.extensions.split_ledgers import SplitLedger

MOST = 20
LONGEST = 40
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
IDS = "give the id of every row, the values of the column by which the data set was divided"
_FIX = "give a share for each name, such as {'train': 0.8, 'test': 0.2}: 2 to 20 of them, which add up to 1"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Splits:
    """The names of the splits with their shares of the rows or persons, the name of the column of ids, and the key."""

    shares: tuple[tuple[str, float], ...]
    by: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.shares]
        sizes = [number(f"share of {name!r}", share, _FIX, low=1e-6, high=1.0) for name, share in self.shares]
        if not 2 <= len(names) <= MOST or len(set(names)) < len(names) or abs(sum(sizes) - 1.0) > 1e-9:
            raise ArgumentError("shares", dict(self.shares), _FIX)
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST:
                raise ArgumentError("shares", name, f"name it by at most {LONGEST} letters, digits, '-', '_' or '.'")
        if not isinstance(self.by, str) or len(self.by) > LONGEST:
            raise ArgumentError("by", self.by, f"give the name of the column of ids, of at most {LONGEST} characters")
        object.__setattr__(self, "shares", tuple(zip(names, sizes, strict=True)))

    @classmethod
    def drawn(cls, shares: Mapping[str, float], by: str = "") -> Splits:
        """With a fresh key."""
        if not isinstance(shares, Mapping):
            raise ArgumentError("shares", shares, _FIX)
        return cls(tuple(shares.items()), by, shared_key(SINGLE_PROCESS).hex())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.shares)

    def of(self, ids: Any) -> Array:
        """The number of the split of every id, in the order of ``names``."""
        if not self.key:
            raise ArgumentError("ledger", "a copy", "it has no key of the splits: use the ledger itself, not a copy")
        persons, cells = Persons.of(ids), flat(ids, "ids", IDS)
        first = persons.order[persons.starts[:-1]].numpy()  # a row of every distinct id
        edges = [*accumulate(share for _, share in self.shares)][:-1]
        places = np.searchsorted(edges, [self._place(one) for one in cells[first]], side="right")
        found = np.empty(len(cells), dtype=np.int64)
        found[persons.order.numpy()] = np.repeat(places, np.diff(persons.starts.numpy()))
        return found

    def _place(self, one: Any) -> float:
        """Where an id lies from 0 to 1."""
        made = hashlib.blake2b(same_id(one).encode(), digest_size=8, key=bytes.fromhex(self.key))
        return int.from_bytes(made.digest(), "big") / 2.0**64

    def checked(self, name: str, ids: Any) -> tuple[int, int]:
        """How many rows and how many persons these are; raises if any of them is not in the split ``name``."""
        self.check_name(name)
        found = self.of(ids)
        wrong = np.flatnonzero(found != self.names.index(name))
        if len(wrong):
            fix = (
                f"{len(wrong):,} of {len(found):,} rows are not in the split {name!r}, the first of them in "
                f"{self.names[found[wrong[0]]]!r}: give the rows that the data set was divided into, with their ids"
            )
            raise ArgumentError("ids, row", int(wrong[0]), fix)
        return len(found), len(Persons.of(ids))

    def check_name(self, name: str) -> None:
        if name not in self.names:
            raise ArgumentError("split", name, f"the data set was divided into {', '.join(self.names)}")

    def check_unit(self, unit: str) -> None:
        """Raise unless whoever a release protects is in one split with all their rows."""
        if unit not in (ROW, _person(self.by)):
            column = repr(self.by) if self.by else "an array without a name"
            fix = f"the data set was divided by {column}: such a {unit} may have rows in several splits"
            raise ArgumentError("groups", unit, fix)

    def published(self) -> Splits:
        """Without the key: a copy can be read, and no row assigned."""
        return replace(self, key="")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a header. Shares are pairs: their order, which the chain seals, says who is where."""
        return {"shares": [list(pair) for pair in self.shares], "by": self.by, "key": self.key}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Splits:
        """Read what :meth:`to_dict` wrote; a KeyError, TypeError or ValueError if it is anything else."""
        bytes.fromhex(raw["key"])
        return cls(tuple((name, share) for name, share in raw["shares"]), raw["by"], raw["key"])


class Divided(HeldToAccount):
    """Releases from a data set that may be divided; what users hold is a :class:`~dpmac.extensions.ledgers.Ledger`."""

    _splits: Splits | None = None

    @property
    def splits(self) -> Splits | None:
        """How the data set is divided; None if it is not."""
        return self._splits

    def divide(self, shares: Mapping[str, float], by: str = "") -> Splits:
        """Divide the data set into splits, once and for all; ``by`` is the name of the column of ids.

        What was released before was released from all rows. Dividing it again in the same way changes nothing, and
        in another way is refused: two divisions would have rows in common. (Like an account, this seals the ledger's
        file anew: a training that was interrupted before can then not be resumed.)
        """
        wanted = Splits.drawn(shares, by)
        if self._splits is None:
            with self.exclusive():
                if self._splits is None:  # still: of two threads one draws the key, and the other one takes it
                    self._seal(wanted)
                    self._splits = wanted
        if wanted.published() != self._splits.published():
            held = f"{dict(self._splits.shares)} by {self._splits.by!r}"
            raise ArgumentError("shares", dict(shares), f"the data set was divided into {held}, and stays so")
        return self._splits

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Inside, nobody else records anything."""
        yield

    def _seal(self, splits: Splits) -> None:
        """Put it into the ledger's file."""

    def split(self, name: str, ids: Any, world: World = SINGLE_PROCESS) -> SplitLedger:
        """The ledger for releases from the rows of one split, whose ``ids`` are given: every one must be in it.

        Use it in place of this ledger wherever these rows are released from. With several processes each gives the ids
        of its own rows.
        """
        from dpmac.extensions.split_ledgers import SplitLedger

        return SplitLedger.for_ids(self, name, ids, world)

    def append(self, entry: Entry) -> None:
        self.check_split(entry)
        super().append(entry)

    def check_split(self, entry: Entry) -> None:
        """Raise if an entry names a split that nobody has declared."""
        if entry.split:
            if self._splits is None:
                raise ArgumentError("split", entry.split, "the data set is not divided: Ledger.divide, or dpmac split")
            self._splits.check_name(entry.split)
            self._splits.check_unit(entry.unit)


def _person(by: str) -> str:
    if not by:
        return PERSON
    return f"{PERSON} by {by}"
