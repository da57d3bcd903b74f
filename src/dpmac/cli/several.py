"""One command in several processes, started by ``torchrun``: what the others do while the first one speaks and writes.

Every process runs the same command and reads the same file, and keeps its own rows of it. The first makes the folder,
keeps the ledger and the checkpoint, prints and shows progress. The others write nothing but, to standard error, a line
about an error that is theirs alone; and the second, that some process has stopped.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError
from dpmac.cli.ending import Failed, Told, told

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job
    from dpmac.extensions.world import World


def leads_here() -> bool:
    """Whether this process is the one that prints; known before any has communicated with another."""
    return int(os.environ.get("RANK", 0)) == 0


@contextmanager
def several() -> Iterator[World]:
    """The processes of this command: those that torchrun has started, or this one alone."""
    from dpmac.extensions.world import WorldError
    from dpmac.training import together

    with together() as world:
        if world.size == 1:
            yield world
            return
        with _ended_as_interrupted():
            try:
                yield world
            except (Exception, KeyboardInterrupt) as error:
                known = told(error)
                if world.leads or known is None:
                    raise
                known_to_all = isinstance(error, WorldError) and world.rank > 1  # the first may be gone
                if not (known_to_all or isinstance(error, KeyboardInterrupt)):
                    sys.stderr.write(f"dpmac: process {world.rank}: {known[1]}\n")
                raise Told(known[0]) from error


@contextmanager
def said_once(world: World) -> Iterator[None]:
    """Around checks that every process makes by itself: if any fails, all processes end here.

    An error that all of them have is printed by the first one alone. An error of the first process only, which tries
    the paths, is printed by it, and all end with its code.
    """
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        failed = error
    if world.size > 1:
        code, said = None, ""
        if failed is not None:
            code = (told(failed) or (1, ""))[0]
            said = hashlib.sha256(ascii(str(failed)).encode()).hexdigest()
        heard = world.everyone([said, code])
        if failed is not None and not world.leads and heard[0] == heard[world.rank]:
            raise Told(code) from failed
        if failed is None and any(said for said, _ in heard):
            other = next(rank for rank, (said, _) in enumerate(heard) if said)
            if world.leads:
                raise Failed(f"process {other} could not begin: see its error")
            code = heard[0][1]
            if code is None:  # the first process has not failed itself
                code = 1
            raise Told(code)
    if failed is not None:
        raise failed


def rows_of(world: World, table: Any, job: Job) -> Any:
    """This process' rows of a table: a run of them or, of persons, all rows of every so many-th one, in memory."""
    from dpmac.tables import Files

    if world.size == 1:
        return table
    if job.pictures is not None:
        return table.part(world.rank, world.size)
    stored = isinstance(table, Files)
    if job.groups is None and stored:
        return table.part(world.rank, world.size)
    names = table
    if stored:
        names = (*job.schema["columns"], job.groups)
    columns = {name: table[name] for name in names}
    if job.groups is None:
        n = len(next(iter(columns.values())))
        mine: Sequence[int] = range(n * world.rank // world.size, n * (world.rank + 1) // world.size)
    else:
        known: dict[Any, int] = {}
        persons = [known.setdefault(one, len(known)) for one in columns[job.groups]]
        mine = [row for row, person in enumerate(persons) if person % world.size == world.rank]
    return {name: [cells[row] for row in mine] for name, cells in columns.items()}


def check_same(world: World, file: str, *, pictures: bool = False) -> None:
    """Raise in every process unless all see the same file or files, by their names and lengths: two tables in which the
    same people stand would count some of them twice. Only digests are compared, and none is kept."""
    from dpmac.tables.sources import parquet_files

    if world.size == 1:
        return
    path = Path(file)
    if pictures:
        files = sorted(one for one in path.rglob("*") if one.is_file())
    elif path.is_dir():
        files = parquet_files(path)
    else:
        files = [path]
    seen = [(one.relative_to(path.parent).as_posix(), one.stat().st_size) for one in files]
    heard = world.everyone(hashlib.sha256(repr(seen).encode()).hexdigest())
    other = next((rank for rank, one in enumerate(heard) if one != heard[0]), None)
    if other is not None:
        fix = f"process {other} sees another file under this name than process 0, or another name: give all the same"
        raise ArgumentError("file", file, fix)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM is Ctrl-C: torchrun sends it when another process has ended. One that is ending goes on to."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def ended(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if sys.exc_info()[0] is None:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is ended:
            signal.signal(signal.SIGTERM, before)
