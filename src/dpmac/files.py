"""Files that are on the disk whole, or not at all, and that are never written through a link.

A folder may come from someone else: a model that was sent, a shared disk. It may hold links under names that this
package is about to write, and whoever writes through such a link changes a file elsewhere. So what is written is always
a new file (``O_CREAT | O_EXCL``, which no link satisfies) under a name that nobody can guess, and is moved to its place
when it is whole. The move replaces a link that is there, and leaves alone what the link points to.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal
from uuid import uuid4

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)  # not on every system


@contextmanager
def whole_file(path: str | Path, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when all of it is on the disk; an error leaves what was there.

    Text is UTF-8 with the line ends that are written. A process that is killed leaves one file of :func:`parts_of`.
    """
    where = Path(path)
    part = part_of(where)
    try:
        with created(part, "x" if mode == "w" else "xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(where)
    finally:
        part.unlink(missing_ok=True)


def created(path: Path, mode: Literal["x", "xb"] = "xb", permissions: int = 0o666) -> IO[Any]:
    """A new file to write to; FileExistsError if anything has its name already, be it a link that leads nowhere.

    ``permissions`` are those of a new file, less what the process's mask takes away.
    """
    text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "x" else {}
    return open(path, mode, opener=lambda name, flags: os.open(name, flags | _NO_LINK, permissions), **text)


def write_new(path: Path, content: bytes) -> None:
    """Write ``content`` to a new file."""
    with created(path) as handle:
        handle.write(content)


def opened_in_place(path: Path) -> IO[bytes]:
    """An existing file to overwrite in place, without a buffer.

    OSError unless it is a plain file with one name: whatever is written through a symbolic link, or to a file that has
    a second name (a hard link), may change a file in another folder.
    """
    handle = os.open(path, os.O_RDWR | _NO_LINK | getattr(os, "O_BINARY", 0))
    found = os.fstat(handle)
    if path.is_symlink() or not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(handle)
        raise OSError(errno.ELOOP, "not a plain file with one name", str(path))
    return os.fdopen(handle, "r+b", buffering=0)


def part_of(where: Path) -> Path:
    """A name beside ``where`` that nobody can guess, for what is not whole yet: ``.NAME.RANDOM.part``."""
    return where.with_name(f".{where.name}.{uuid4().hex}.part")


def parts_of(where: Path) -> list[Path]:
    """What killed processes have left of ``where``, and of nothing else: the leftovers of ``a.b`` are none of ``a``."""
    if not where.parent.is_dir():
        return []
    pattern = re.compile(rf"\.{re.escape(where.name)}\.[0-9a-f]{{32}}\.part")
    return [path for path in where.parent.iterdir() if pattern.fullmatch(path.name)]


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names where the system can, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
