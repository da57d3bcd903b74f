"""Files that are on the disk whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal


@contextmanager
def whole_file(path: str | Path, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when all of it is on the disk; an error leaves what was there.

    Text is UTF-8 with the line ends that are written. A process that is killed leaves ``.NAME.PID.part`` at most.
    """
    where = Path(path)
    part = where.with_name(f".{where.name}.{os.getpid()}.part")
    text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
    try:
        with part.open(mode, **text) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(where)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names where the system can, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
