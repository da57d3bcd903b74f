"""One process per training: a second one that tries to continue it gets an error before it spends anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpmac.checks import ArgumentError


@contextmanager
def exclusive_access(folder: Path, name: str) -> Iterator[None]:
    """Lock ``folder`` against other processes; raises :class:`ArgumentError` for ``name`` if another one holds it.

    The system releases the lock when the process ends, however it ends (a process that was forked inside holds it until
    it ends, too). On a system or a disk without such locks there is none: only the ledger, which detects every other
    writer, protects then.
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
