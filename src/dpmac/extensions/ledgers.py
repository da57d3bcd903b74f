"""The ledger as users hold it: the releases from one data set, with dates, purposes, models and runs.

It is kept in memory and, if it has a file, as lines on disk (:mod:`dpmac.extensions.ledger_file`), which are flushed
*before* the release returns anything. So a crash can lose a result that was paid for, but never the record of the
payment. A ledger belongs to a data set, not to a run: everything that is ever released from the same rows goes into one
ledger, with its date, its purpose and the model it went into.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError, how_many
from dpmac.extensions.accounts import Account
from dpmac.extensions.entries import from_dict, published, to_dict, today
from dpmac.extensions.ledger_file import LedgerFile
from dpmac.extensions.ledger_header import check_line
from dpmac.extensions.ledger_places import check_place
from dpmac.extensions.splits import Divided, Splits
from dpmac.extensions.turns import Turns
from dpmac.extensions.writers import sole_writer
from dpmac.kernels.streams import fresh_name
from dpmac.limits import check_kept
from dpmac.old_names import OldAttribute
from dpmac.privacy.accounting import Mechanism
from dpmac.privacy.entry import Entry
from dpmac.privacy.sampling import ROW


class Ledger(Divided):
    """Append-only releases. ``Ledger(path)`` starts a new one; ``Ledger.load(path)`` continues the one in a file.

    A new file is created with the first release, not before. ``data_set`` is the user's name for the rows; nothing is
    ever derived from the rows themselves. :meth:`Ledger.init` opens an account: a total that holds ever after.
    :meth:`Ledger.divide` divides the data set into splits, which have nobody in common.
    """

    def __init__(self, path: str | Path | None = None, data_set: str = "") -> None:
        if not isinstance(data_set, str):
            raise ArgumentError("data_set", data_set, "give the name of the data set as a text")
        super().__init__()
        self._data_set = data_set
        self._run = fresh_name()  # this object's entries have their own name, unless a run is noted
        self._noted: dict[int, dict[str, str]] = {}
        self._checked: dict[str, Any] = {}  # the last line that was found to be one that can be read again
        self._first_thread = threading.get_ident()
        self._copied, self._process, self._turns = False, os.getpid(), Turns()
        self._file: LedgerFile | None = None
        if path is not None:
            self._file = _begun(path, data_set)

    @classmethod
    def init(
        cls,
        path: str | Path | None = None,
        *,
        total_epsilon: float,
        delta: float = 1e-5,
        unit: str = ROW,
        data_set: str = "",
    ) -> Ledger:
        """Open an account: all releases in this ledger together never exceed ``total_epsilon`` at ``delta``.

        Its file is there from now on. A ledger that has no account yet and holds no more than the total gets one; what
        it has released counts. (A training of it that was interrupted can then not be resumed: finish it before.)
        """
        account = Account(total_epsilon, delta, unit)
        ledger = cls.at(path, data_set, new=True)
        with ledger.exclusive():  # nothing is released between the check and the account
            ledger.check_account(account)
            if ledger._file is not None:
                ledger._file.open_account(account)
            ledger._set_account(account)
        return ledger

    def _seal(self, splits: Splits) -> None:
        if self._file is not None:
            self._file.divide(splits)

    @property
    def data_set(self) -> str:
        """The user's name for the rows that all entries are about."""
        return self._data_set

    @property
    def path(self) -> Path | None:
        """The file that contains every release before it returns; None if there is none. The first one creates it."""
        if self._file is None:
            return None
        return self._file.path

    @property
    def begun(self) -> bool:
        """Whether anything was recorded, here or in the file."""
        return bool(self._entries) or (self._file is not None and self._file.begun)

    def append(self, entry: Entry) -> None:
        """Record a release, with the day (UTC). The line is on the disk when this returns."""
        if self._copied or (self._file is None and self._process != os.getpid()):
            raise RuntimeError(
                "this ledger came out of a pickle or a fork (another process, a saved model): what it recorded would "
                "be lost to the one it was copied from. Give the path of a file as the ledger, or work in one process"
            )
        with self.exclusive():  # what is checked, such as the unit, is still true when it is recorded
            super().append(entry)

    def _keep(self, entry: Entry) -> None:
        noted = {word: said for word, said in self._words().items() if not getattr(entry, word)}
        dated = replace(entry, date=today(), **noted)  # type: ignore[arg-type]
        line = to_dict(dated)
        if line != self._checked:  # (a training's releases have one line)
            check_line(line)
            self._checked = line
        self._check_total(entry)
        if self._file is not None:
            self._file.append(line)
        self._entries.append(dated)

    def check_plan(self, own: Sequence[Mechanism], run: str = "") -> None:
        """Raise unless all that is going to be released fits into the account, if there is one."""
        with self._turns.taken(self.path):  # no other thread releases anything before it is known what still fits
            super().check_plan(own, run)

    @contextmanager
    def exclusive(self, *, refusing: bool = False) -> Iterator[None]:
        """Make other threads wait before they record anything. So checking a budget and spending it is one atomic step.
        Another *process* that writes to the file is an error here, and not after half of a training.

        With ``refusing``, for what takes long, other threads get that error as well: a fit takes the ledger so.
        """
        path = self.path
        alone: AbstractContextManager[None] = nullcontext()
        if path is not None:
            alone = sole_writer(path, refusing=refusing)
        with alone, self._turns.taken(path, refusing=refusing):
            if self._file is not None:
                self._file.check_unchanged()
            yield

    alone = OldAttribute("exclusive")

    @contextmanager
    def noting(self, *, purpose: str | None = None, model: str | None = None, run: str | None = None) -> Iterator[None]:
        """Record the purpose, the model and the run with everything that is released inside.

        Each thread has its own notes; those of the thread that created the ledger apply where others noted nothing.
        """
        thread, said = threading.get_ident(), {"purpose": purpose, "model": model, "run": run}
        for word, text in said.items():
            if text is not None and not isinstance(text, str):
                raise ArgumentError(word, text, "give a text, or None")
            check_kept(word, text)
        before = self._noted.get(thread, {})
        self._noted[thread] = {**before, **{word: text for word, text in said.items() if text is not None}}
        try:
            yield
        finally:
            self._noted[thread] = before

    def _words(self) -> dict[str, str]:
        first, own = (self._noted.get(thread, {}) for thread in (self._first_thread, threading.get_ident()))
        return {"run": self._run, **first, **own}

    def until(self, count: int) -> Ledger:
        """A read-only ledger of the first ``count`` entries."""
        return self._view(self._entries[:count])

    def of_others(self, run: str) -> Ledger:
        """A read-only ledger of everything except the releases of one run."""
        return self._view([entry for entry in self._entries if entry.run != run])

    def _view(self, entries: list[Entry]) -> Ledger:
        view = Ledger(data_set=self.data_set)
        view._entries, view._copied = entries, True
        view._set_account(self._account)
        return view

    def head(self, count: int) -> str | None:
        """The digest of the first ``count`` lines of the file; None if it has fewer, or there is no file."""
        if self._file is None or count >= len(self._file.heads):
            return None
        return self._file.heads[count]

    def replaying(self, run: str, done: int) -> Ledger:
        """For a seeded run that repeats its releases after the first ``done``: these are not recorded twice.

        The same seed on the same rows gives the same numbers, so nothing new is learned from them. Each must be a
        seeded release of that ``run`` and equal the recorded one; further releases are recorded as usual. The caller
        must ensure that the rows are the same; a seeded run protects nobody anyway.
        """
        from dpmac.extensions.replayed import Replayed

        return Replayed(self, [entry for entry in self._entries if entry.run == run][done:])

    def save(self, path: str | Path) -> None:
        """Write the whole ledger to a new file, in the format that :meth:`load` reads, with dates to the day."""
        copy = _begun(path, self.data_set, self._account, self._splits and self._splits.published())
        copy.guarded = False  # a copy to read: only the ledger itself is continued
        copy.append(*(published(entry) for entry in self._entries))

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger and continue to append to its file.

        A last line that a crash cut short is dropped (its release never returned). Any other damage, an edited line or
        missing lines raise a ValueError that says where.
        """
        file, lines = LedgerFile.open(Path(path))
        ledger = cls(data_set=file.header.data_set)
        ledger._set_account(file.header.account)
        ledger._splits = file.header.splits
        for place, line in enumerate(lines, start=2):
            try:
                entry = from_dict(line)
                ledger.check_unit(entry.unit)
                ledger.check_split(entry)
                ledger._entries.append(entry)
            except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
                raise ValueError(f"{path}, line {place}: not a ledger entry ({error})") from error
        ledger._file = file
        return ledger

    @property
    def run(self) -> str:
        """The name of the run under which releases are recorded now."""
        return self._words()["run"]

    @classmethod
    def of(
        cls, entries: Sequence[Mapping[str, Any]], data_set: str, run: str, account: Account | None = None
    ) -> Ledger:
        """A ledger in memory with these entries, continued as ``run``: for a process without the file."""
        ledger = cls(data_set=data_set)
        ledger._run = run
        ledger._entries = [from_dict(entry) for entry in entries]
        ledger._set_account(account)
        return ledger

    @classmethod
    def read(cls, path: str | Path) -> Ledger:
        """A read-only ledger: its file is not continued, and it refuses to record anything."""
        ledger = cls.load(path)
        ledger._file, ledger._copied = None, True
        return ledger

    @classmethod
    def at(cls, where: Ledger | str | Path | None, data_set: str = "", new: bool = False) -> Ledger:
        """The ledger at ``where``: the given one, the one in a file (continued or new), or a new one in memory.

        A new one is for ``data_set``; an existing one must be for that data set, if a name is given. A path where there
        is no ledger, beside one of nearly the same name, is refused unless ``new`` says that it is meant.
        """
        if where is None:
            return cls(data_set=data_set)
        if not isinstance(where, Ledger | str | Path):
            raise ArgumentError("ledger", where, "give a Ledger, the path of one, or None")
        if isinstance(where, str | Path):
            check_place(Path(where), new=new)
            if not Path(where).exists() or not Path(where).stat().st_size:  # empty: a crash before the first line
                return cls(where, data_set)
            where = cls.load(where)
        found = where
        if data_set and found.data_set not in ("", data_set):
            fix = f"the ledger is of the data set {found.data_set!r}: give that name, or another ledger"
            raise ArgumentError("data_set", data_set, fix)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """A ledger in memory that was unpickled is a copy, and raises if anyone tries to record with it."""
        left_out = ("_turns", "_noted", "_first_thread", "_checked")
        kept = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return {**kept, "_run": self.run, "_copied": self._copied or self._file is None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fresh = {"_noted": {}, "_checked": {}, "_first_thread": threading.get_ident()}
        self.__dict__.update(state, _turns=Turns(), **fresh)

    def __copy__(self) -> Ledger:
        return self  # two objects writing to one file would not know about each other's lines

    def __deepcopy__(self, _memo: dict[int, Any]) -> Ledger:
        """Itself: spending is recorded once, and a copy of an object with a ledger (``clone``) shares the ledger."""
        return self

    def __repr__(self) -> str:
        count = how_many(len(self), "release")
        if self.path is None:
            return f"Ledger({count})"
        return f"Ledger({str(self.path)!r}, {count})"


def _begun(path: str | Path, data_set: str, account: Account | None = None, splits: Splits | None = None) -> LedgerFile:
    return LedgerFile.begin(Path(path), data_set, today(), account, splits)
