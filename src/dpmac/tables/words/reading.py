"""Word vectors from files, within limits and without running anything; and the lists that this process knows.

``.npz`` holds an array of words and one of vectors, in whatever names. Any other file is text, as GloVe, fastText and
word2vec write it (also ``.gz``): a line for each word, which is followed by its numbers; a first line with two numbers
is skipped. Words must stand in order of frequency, as they do in such files.
"""

from __future__ import annotations

import gzip
import os
import stat
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib import format as npy

from dpmac.checks import ArgumentError
from dpmac.limits import TENSOR_BYTES
from dpmac.tables.words.vectors import WIDEST, Array, WordVectors

LINE = 2**16  # bytes of a line
_SPARE = 2  # lines that are read for each word wanted: some words cannot be used
_SMALL = 2**26  # bytes of an array that may be packed ever so tightly
_PACKED = 200  # times: words are padded, which packs well; vectors hardly pack at all
_KEPT = 4  # lists that a process remembers
_ENDINGS = "give an .npz file of words and vectors, or a text file: a word and its numbers a line"
_known: WeakValueDictionary[str, WordVectors] = WeakValueDictionary()
_recent: OrderedDict[Any, WordVectors] = OrderedDict()


def remembered(vectors: WordVectors) -> WordVectors:
    """These vectors, or the equal ones that this process has already; found from now on by their digest."""
    same = _known.setdefault(vectors.digest, vectors)
    _keep(same.digest, same)
    return same


def known(digest: str) -> WordVectors | None:
    """The vectors with that digest, if this process has them."""
    return _known.get(digest)


def read_vectors(path: str | Path, most: int) -> WordVectors:
    """The first ``most`` usable words of a file, and their vectors; read once while the file does not change."""
    where = Path(path)
    try:
        found = where.stat()
    except (OSError, ValueError):
        raise ArgumentError("vectors", str(path), "there is no such file of word vectors: give its path") from None
    if not stat.S_ISREG(found.st_mode):
        raise ArgumentError("vectors", str(path), f"this is no file: {_ENDINGS}")
    key = (os.path.realpath(where), found.st_mtime_ns, found.st_size, most)
    if key not in _recent:
        words, numbers = _read(where, most)
        try:
            made = WordVectors.of(words, numbers, where.name, most)
        except ArgumentError as error:
            raise ArgumentError(f"vectors {where.name}", error.value, error.fix) from None
        _keep(key, remembered(made))
    _recent.move_to_end(key)
    return _recent[key]


def _keep(key: Any, vectors: WordVectors) -> None:
    _recent[key] = vectors
    while len(_recent) > 2 * _KEPT:
        _recent.popitem(last=False)


def _read(path: Path, most: int) -> tuple[list[str], Array]:
    try:
        if path.suffix.lower() == ".npz":
            return _arrays(path)
        opened: Any = open
        if path.suffix.lower() == ".gz":
            opened = gzip.open
        with opened(path, "rb") as lines:
            return _lines(lines, most)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, ValueError, KeyError, NotImplementedError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError("vectors", str(path), f"it cannot be read ({error}): {_ENDINGS}") from None


def _arrays(path: Path) -> tuple[list[str], Array]:
    words, numbers = None, None
    with zipfile.ZipFile(path) as packed:
        for member in packed.infolist():
            if member.file_size > max(
                _SMALL, _PACKED * member.compress_size
            ):  # megabytes of zeros take a few kilobytes
                raise ValueError(f"{member.filename!r:.60} unpacks to more than {_PACKED} times its size")
            with packed.open(member) as content:
                array = _array(content, member.file_size)
            if array.ndim == 1 and array.dtype.kind in "US":
                words = array
            elif array.ndim == 2 and array.dtype.kind in "fiu":
                numbers = array
    if words is None or numbers is None:
        raise ValueError("it has no array of texts beside a table of numbers")
    return [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words.tolist()], numbers


def _array(content: IO[bytes], size: int) -> Array:
    """One array, never of Python objects, and no larger than what the file says that it unpacks to."""
    version = npy.read_magic(content)
    reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if reader is None:
        raise ValueError(f"an array of version {version}")
    shape, by_columns, dtype = reader(content)
    count = 1
    for side in shape:
        count *= side
    if dtype.hasobject or count * dtype.itemsize > min(size, TENSOR_BYTES):
        raise ValueError("an array of objects, or one that is larger than its file")
    flat: Array = np.frombuffer(content.read(count * dtype.itemsize), dtype=dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _lines(lines: IO[bytes], most: int) -> tuple[list[str], Array]:
    words: list[str] = []
    rows: list[Array] = []
    for word, numbers in islice(_parsed(lines), _SPARE * most):
        if rows and len(numbers) != len(rows[0]):
            raise ValueError(f"line {len(rows) + 1} has {len(numbers)} numbers, and others have {len(rows[0])}")
        if len(numbers) > WIDEST or len(rows) * len(numbers) * 4 > TENSOR_BYTES:
            raise ValueError("it has more numbers than such a file may have")
        words.append(word)
        rows.append(numbers)
    if not rows:
        raise ValueError("it has no words")
    return words, np.stack(rows)


def _parsed(lines: IO[bytes]) -> Iterator[tuple[str, Array]]:
    """Word and numbers of every line. A word may hold spaces in some files: numbers are counted from the end."""
    width = 0
    for place, line in enumerate(iter(lambda: lines.readline(LINE + 1), b"")):
        if len(line) > LINE:
            raise ValueError(f"line {place + 1} is longer than {LINE:,} bytes")
        parts = line.decode("utf-8", errors="replace").rstrip().split(" ")
        if place == 0 and len(parts) == 2 and all(part.isdecimal() for part in parts):
            continue
        width = width or len(parts) - 1
        if len(parts) <= width or not width:
            raise ValueError(f"line {place + 1} has too few numbers")
        yield " ".join(parts[:-width]), np.array(parts[-width:], dtype=np.float32)
