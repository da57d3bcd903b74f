"""Tables with a column of paths to pictures: in memory, or in a CSV or Parquet file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.limits import check_kept
from dpmac.pictures.folders import is_path
from dpmac.tables.files import read_table
from dpmac.tables.frames import cells, has_names, names_of

Array = np.ndarray[Any, Any]
ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq")  # how the name of a table ends
Columns = tuple[str, str | None]  # of the paths, and of the labels


@dataclass(frozen=True)
class PictureTable:
    """A table, and the folder that its paths are relative to."""

    table: Any
    folder: Path

    @classmethod
    def of(cls, X: Any) -> PictureTable | None:
        """``X`` as such a table; None if it is none: an array, or a folder."""
        if is_path(X):
            path = Path(X)
            if path.suffix.lower() not in ENDINGS or path.is_dir():
                return None
            return cls(read_table(path), path.parent)
        if not has_names(X):
            return None
        return cls(X, Path())

    def columns(self, images: str | None, target: str | None, *others: str | None) -> Columns:
        """The columns of the paths and of the labels; without ``images`` it is the only one that is left."""
        left = [name for name in names_of(self.table) if name not in (target, *others)]
        if images is None:
            if len(left) != 1:
                listed = ", ".join(map(repr, left[:20]))
                raise ArgumentError("images", None, f"name the column of the pictures' paths, one of {listed}")
            (images,) = left
        return images, target

    def files(self, column: str) -> list[Path]:
        """The picture of each row; a path that leads nowhere is an error that names its row."""
        found = list[Path]()
        for row, cell in enumerate(self.cells(column)):
            path = self.folder / str(cell)
            if not os.path.isfile(path):
                fix = f"there is no such file (paths are relative to {self.folder.absolute()}): correct or drop the row"
                raise ArgumentError(f"column {column!r}, row {row}", str(cell), fix)
            found.append(path)
        if not found:
            raise ArgumentError("X", "0 rows", "give a table with at least one row")
        return found

    def labels(self, column: str) -> Array:
        """The label of each row."""
        self.cells(column)
        return cells(self.table, [column])[column]

    def cells(self, column: str) -> Sequence[Any]:
        """A column, in which no cell may be missing. Its name must be one that a model's file can hold."""
        if not isinstance(column, str):
            raise ArgumentError("images, target", column, "the model remembers the columns' names: rename it to a text")
        check_kept("images, target", column)
        found: list[Any] = cells(self.table, [column])[column].tolist()
        for row, cell in enumerate(found):
            if is_missing(cell):
                raise ArgumentError(f"column {column!r}, row {row}", cell, "it is missing: fill it in, or drop the row")
        return found
