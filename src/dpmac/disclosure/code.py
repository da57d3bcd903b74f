"""Which code made a model: its version, and one digest over all of its source files."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@functools.cache
def code_digest() -> str:
    """SHA-256 over the names and contents of the package's Python files, sorted by name, with Unix line ends.

    The same sources have the same digest on every machine; any change of a line is another.
    """
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: path.relative_to(PACKAGE).as_posix()):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{path.relative_to(PACKAGE).as_posix()}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()
