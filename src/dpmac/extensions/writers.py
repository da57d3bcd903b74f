"""Who may write a ledger's file: one thread of one process at a time, from before its first release to after its last.

Threads of one process take turns (:mod:`dpmac.extensions.turns`): they wait for single releases, and are refused while
a fit runs. Another process is refused at once, and told who writes: a small file beside the ledger, ``NAME.writer``, is
locked for as long as someone writes, and says the process, its computer and since when. The system releases the lock
when the process ends, however it ends; a file that a killed process left behind is in nobody's way. It is removed after
the last release.

This lets a second writer fail before it has spent anything. Nothing depends on it: on a disk without such locks, every
other writer is still detected at its next release, by the ledger's size (:mod:`dpmac.extensions.ledger_file`).
"""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dpmac.checks import ArgumentError
from dpmac.extensions.turns import ONE_WRITER, Turns, now
from dpmac.limits import parsed

_BEGINS = b'{"process": '  # every writer's file, once its writer is named
_LONGEST = 1024  # bytes that are read of what somebody else has written
_TRIES = 100  # times that the file may be gone when it is locked, because its writer has just ended


@dataclass(eq=False)
class _Right:
    """Of this process to write one ledger: of the thread whose turn it is, ``depth`` times."""

    turns: Turns = field(default_factory=Turns)
    depth: int = 0
    handle: int | None = None


_RIGHTS: dict[Path, _Right] = {}
_MAKING = threading.Lock()


def writer_file_of(ledger: Path) -> Path:
    """The path of the file that says who writes a ledger, whether it exists or not."""
    place = ledger.resolve()  # a link has none of its own
    return place.with_name(f"{place.name}.writer")


@contextmanager
def sole_writer(ledger: Path, *, refusing: bool = False) -> Iterator[None]:
    """Inside, nobody else writes the ledger at this path. Raises if another process writes it, or another thread does
    with ``refusing``; waits for any other thread."""
    place = writer_file_of(ledger)
    with _MAKING:
        right = _RIGHTS.setdefault(place, _Right())
    with right.turns.taken(ledger, refusing=refusing):
        if not right.depth:
            right.handle = _locked(place, ledger)
        right.depth += 1
        try:
            yield
        finally:
            right.depth -= 1
            if not right.depth and right.handle is not None:
                _given_back(right.handle, place)
                right.handle = None


def _locked(place: Path, ledger: Path) -> int | None:
    """The locked file; None where there are no locks or no such file can be made."""
    try:
        import fcntl
    except ImportError:  # not POSIX
        return None
    for _ in range(_TRIES):
        try:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError:  # a folder that is not there or not ours; a link
            return None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # a second name of somebody's file, or a pipe
            os.close(handle)
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _who(handle)
            os.close(handle)
            raise ArgumentError("ledger", str(ledger), f"{who}, {ONE_WRITER}") from None
        except OSError:  # a disk without locks
            os.close(handle)
            return None
        if not _is_of_a_writer(handle):  # somebody's file, which is not ours to write to or to remove
            os.close(handle)
            return None
        if _is_at(handle, place):
            _note(handle)
            return handle
        os.close(handle)  # its writer has ended meanwhile, and removed it
    return None


def _given_back(handle: int, place: Path) -> None:
    with suppress(OSError):  # while it is locked: nobody else's is removed
        if _is_at(handle, place):
            place.unlink()
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)  # a process that was forked inside has the same lock
    os.close(handle)


def _is_at(handle: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(place, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _is_of_a_writer(handle: int) -> bool:
    """Whether a file is new, or what a writer that was killed has left."""
    try:
        found = os.pread(handle, len(_BEGINS), 0)
    except OSError:
        return False
    return found in (b"", _BEGINS)


def _note(handle: int) -> None:
    """Say who writes. An aid: errors are ignored."""
    known = {"process": os.getpid(), "host": socket.gethostname()[:200], "since": now()}
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(known).encode() + b"\n", 0)


def _who(handle: int) -> str:
    """What the writer's file says of its writer, in words."""
    try:
        known = parsed(os.pread(handle, _LONGEST, 0))
        process, host, since = int(known["process"]), str(known["host"]), str(known["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process is writing to it"
    return f"process {process} on {ascii(host)[1:-1]} has been writing to it since {ascii(since)[1:-1]}"


def _after_fork() -> None:
    """In a forked process: it has none of its parent's rights, and must not wait for threads that it does not have."""
    global _MAKING
    for right in _RIGHTS.values():
        if right.handle is not None:
            os.close(right.handle)  # the parent still holds its lock
            right.handle = None  # whoever is inside has nothing to give back: the number may be another file's by then
    _RIGHTS.clear()
    _MAKING = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
