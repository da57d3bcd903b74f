"""The ledger of a data set as the rows of one split see it.

It holds what was released from all rows and from this split, and nothing of the others: so a plan, a budget and a
statement made with it are about the rows of this split. What is released into it is recorded in the whole ledger, under
the name of the split. Whatever goes into a copy of it, such as a model's folder, is this split's, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.extensions.accounts import Account
from dpmac.extensions.ledger_file import LONGEST
from dpmac.extensions.ledgers import Ledger
from dpmac.extensions.splits import Divided, Splits
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.entry import Entry
from dpmac.privacy.sampling import ROW


class SplitLedger(Ledger):
    """What :meth:`Ledger.split` gives. ``rows`` and ``persons`` are how many ids were checked; both are public."""

    def __init__(self, whole: Ledger, name: str, rows: int, persons: int) -> None:
        self._read: tuple[int, list[Entry]] = 0, []
        self._whole, self.name, self.rows, self.persons = whole, name, rows, persons
        super().__init__()

    @classmethod
    def for_ids(cls, whole: Divided, name: str, ids: Any, world: World = SINGLE_PROCESS) -> SplitLedger:
        """Raises in every process unless all ids are of the split ``name``."""
        if not isinstance(whole, Ledger) or whole.splits is None:
            fix = "the data set is not divided: dpmac split, or Ledger.divide({'train': 0.8, 'test': 0.2})"
            raise ArgumentError("split", name, fix)
        splits = whole.splits
        counts = world.everyone(list(world.everywhere(lambda: splits.checked(name, ids))))
        return cls(whole, name, sum(rows for rows, _ in counts), sum(persons for _, persons in counts))

    @property
    def _entries(self) -> list[Entry]:
        """What has touched these rows, as it would stand in a ledger of theirs."""
        seen, mine = self._read
        new = self._whole._entries[seen:]
        if new:  # both in one assignment: another thread, or a signal's handler, may read in between
            mine = [*mine, *(replace(entry, split="") for entry in new if entry.split in ("", self.name))]
            self._read = seen + len(new), mine
        return mine

    @_entries.setter
    def _entries(self, entries: list[Entry]) -> None:
        pass  # they are the whole ledger's

    @property
    def _account(self) -> Account | None:
        """That of the whole ledger, be it opened later."""
        return self._whole.account

    @_account.setter
    def _account(self, account: Account | None) -> None:
        pass

    @property
    def data_set(self) -> str:
        named = f"{self._whole.data_set} (split {self.name})".lstrip()
        if len(json.dumps(named)) > LONGEST:  # a copy's header has no room for it
            return f"(split {self.name})"
        return named

    @property
    def path(self) -> Path | None:
        return self._whole.path

    @property
    def begun(self) -> bool:
        return self._whole.begun

    def append(self, entry: Entry) -> None:
        self._whole.append(replace(entry, split=self.name, run=entry.run or self.run))

    def check_unit(self, unit: str, places: int | None = None) -> None:
        """Raise for another unit, and for another number of rows or persons than those whose ids were checked."""
        self._whole.check_unit(unit)
        splits = self._whole.splits
        assert splits is not None
        splits.check_unit(unit)
        checked, what = (self.rows, "rows") if unit == ROW else (self.persons, "persons")
        if places is not None and places != checked:
            fix = (
                f"{checked:,} {what} were said to be in the split {self.name!r}: give these, or the ledger of the "
                "split that yours are in (dpmac.split(...)[name].ledger, or Ledger.split(name, ids))"
            )
            raise ArgumentError("ledger", f"{places:,} {what}", fix)

    def check_account(self, account: Account) -> None:
        raise ArgumentError("ledger", account, f"this is the ledger of the split {self.name!r}: give that of all rows")

    def check_plan(self, own: Sequence[Mechanism], run: str = "") -> None:
        self._whole.check_plan([replace(m, split=self.name) for m in own], run)

    @contextmanager
    def exclusive(self, *, refusing: bool = False) -> Iterator[None]:
        with self._whole.exclusive(refusing=refusing):
            yield

    @contextmanager
    def noting(self, *, purpose: str | None = None, model: str | None = None, run: str | None = None) -> Iterator[None]:
        with self._whole.noting(purpose=purpose, model=model, run=run):
            yield

    def _words(self) -> dict[str, str]:
        """Those of the whole ledger, but a run that nobody has named is this split's own: what two splits have released
        must never look like one run (:class:`~dpmac.extensions.provenance.Origin`)."""
        words = self._whole._words()
        if words["run"] == self._whole._run:
            words["run"] = self._run
        return words

    def head(self, count: int) -> str | None:
        """The digest of the whole file up to this split's entry ``count``."""
        if count == 0:
            return self._whole.head(0)
        mine = [k for k, entry in enumerate(self._whole.entries, start=1) if entry.split in ("", self.name)]
        if count > len(mine):
            return None
        return self._whole.head(mine[count - 1])

    def _seal(self, splits: Splits) -> None:
        raise ArgumentError("shares", dict(splits.shares), f"the ledger is that of the split {self.name!r}: divide all")

    def __repr__(self) -> str:
        return f"Ledger({len(self)} releases, split {self.name!r} of {self.rows:,} rows)"
