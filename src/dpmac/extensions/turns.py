"""Whose turn it is among the threads of one process, to write one ledger.

A single release waits for another one: that takes a moment. A fit, a search or an evaluation is long, plans what it
will release by what the ledger holds, and takes the ledger for itself: whatever else comes meanwhile is refused, before
it has spent anything, and told who writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dpmac.checks import ArgumentError

ONE_WRITER = "and a ledger has one writer: wait until that has ended, or stop it, and start this again"


class Turns:
    """The turns of threads; a thread that has one may take it again inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._process, self._owner, self._who = os.getpid(), 0, ""

    @contextmanager
    def taken(self, ledger: Path | None, *, refusing: bool = False) -> Iterator[None]:
        """Inside, it is this thread's turn; with ``refusing`` other threads are refused and do not wait.

        ``ledger`` is for the error, None for one in memory.
        """
        if self._process != os.getpid():  # forked: those that had the turn are the parent's threads
            self.__init__()  # type: ignore[misc]
        me = threading.get_ident()
        with self._changed:
            while self._owner not in (0, me):
                if self._who:
                    where = "in memory" if ledger is None else str(ledger)
                    raise ArgumentError("ledger", where, f"{self._who}, {ONE_WRITER}")
                self._changed.wait()
            before = self._owner, self._who
            self._owner = me
            if refusing and not self._who:
                self._who = _words()
        try:
            yield
        finally:
            with self._changed:
                self._owner, self._who = before
                self._changed.notify_all()


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _words() -> str:
    name = ascii(threading.current_thread().name)
    return f"the thread {name} of this process has been writing to it since {now()}"
