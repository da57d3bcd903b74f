"""Rows on the disk while a fit runs: what was read once, in a file without a name, fetched by row number.

The file has no name (or loses it as it is opened), so that only this process can read it and nothing is left behind
when it ends, however it ends. It holds private rows: a folder on an encrypted disk keeps them as safe as the table.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.gathering import Columns
from dpmac.tables.kinds import Array

_AT_ONCE = 1024  # rows that are touched before their pages are let go: the system maps 64 KiB about each
_RUN = 1 << 24  # bytes of neighbouring rows that are read at once
SPARE = 64 * 2**20  # bytes that must be left free


class Scratch:
    """Takes the rows of a table, ``n`` in all, block after block, and then is the store of them."""

    def __init__(self, n: int, block: Sequence[Array], folder: Path) -> None:
        self._n, self._kinds = n, [np.empty((0, *column.shape[1:]), column.dtype) for column in block]
        self._sizes = [int(np.prod(kind.shape[1:], dtype=np.int64)) * kind.itemsize for kind in self._kinds]
        _check_space(folder, n * sum(self._sizes))
        try:
            self._files: list[IO[bytes]] = [tempfile.TemporaryFile(dir=folder, prefix="dpmac-") for _ in block]  # noqa: SIM115
        except OSError as error:
            fix = f"nothing can be written there ({error.strerror}): give another folder, or None to write nothing"
            raise ArgumentError("scratch", str(folder), fix) from None
        self._maps: list[mmap.mmap] = []
        self._close = weakref.finalize(self, _closed, self._files)  # whatever happens before all rows are there

    def add(self, block: Sequence[Array]) -> None:
        """The next rows."""
        for file, column in zip(self._files, block, strict=True):
            file.write(np.ascontiguousarray(column).data)

    def finished(self) -> Scratch:
        """All rows are there; from now on they are fetched."""
        for file, size in zip(self._files, self._sizes, strict=True):
            file.flush()
            self._maps.append(mmap.mmap(file.fileno(), self._n * size, access=mmap.ACCESS_READ))
        self._close()  # a map has a hold on its file
        return self

    def __len__(self) -> int:
        return self._n

    @property
    def blank(self) -> Columns:
        return tuple(torch.from_numpy(kind) for kind in self._kinds)

    def fetch(self, rows: Tensor) -> Columns:
        """The rows of these numbers, ascending. Pages are released at once: the system may still cache them."""
        wanted = rows.numpy()
        return tuple(torch.from_numpy(self._column(place, wanted)) for place in range(len(self._kinds)))

    def _column(self, place: int, rows: Array) -> Array:
        kind, mapped, size = self._kinds[place], self._maps[place], self._sizes[place]
        found = np.empty((len(rows), *kind.shape[1:]), kind.dtype)
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and found.nbytes <= _RUN:  # neighbours: one read
            start = int(rows[0]) * size
            flat = np.frombuffer(mapped[start : start + found.nbytes], kind.dtype)
            found[:] = flat.reshape(found.shape)
            _let_go(mapped)
            return found
        whole = np.frombuffer(mapped, kind.dtype, self._n * size // kind.itemsize).reshape(self._n, *kind.shape[1:])
        for first in range(0, len(rows), _AT_ONCE):
            few = slice(first, first + _AT_ONCE)
            np.take(whole, rows[few], axis=0, out=found[few], mode="clip")
            _let_go(mapped)
        return found


def _closed(files: Sequence[IO[bytes]]) -> None:
    for file in files:
        file.close()


def _let_go(mapped: mmap.mmap) -> None:
    """Release the pages that were read, so that they do not count as memory of this process."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not on every system
        mapped.madvise(mmap.MADV_DONTNEED)


def _check_space(folder: Path, needed: int) -> None:
    if not folder.is_dir():
        raise ArgumentError("scratch", str(folder), "there is no such folder: make it, or give None to write nothing")
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE:
        fix = (
            f"the rows need {needed / 2**20:,.0f} MiB there while the fit runs, and {free / 2**20:,.1f} MiB are free: "
            "give another folder, more memory, or None to read the Parquet files again for every sample"
        )
        raise ArgumentError("scratch", str(folder), fix)
    if not os.access(folder, os.W_OK):
        fix = "nothing can be written there: give another folder, or None to write nothing"
        raise ArgumentError("scratch", str(folder), fix)
