"""One process at a time on a training: a second one that would go on with it is refused before it spends anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpmac.checks import ArgumentError


@contextmanager
def alone_with(folder: Path, name: str) -> Iterator[None]:
    """Inside, no other process is in here with the same ``folder``; an :class:`ArgumentError` of ``name`` if one is.

    The system lets go of the folder when the process ends, however it ends (and a process that was forked inside goes
    on holding it until it ends, too). A system or a disk without such locks has none: the ledger, which notices every
    other writer, then is all there is.
    """
    try:
        import fcntl
    except ImportError:  # not POSIX
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "another process is training with it: wait until that ends, or stop it"
            raise ArgumentError(name, str(folder), fix) from None
        except OSError:  # a disk without locks
            pass
        yield
    finally:
        os.close(handle)
