"""Tables that are made up for benchmarks/scale.py, as large as wanted: 29 features and a label, in Parquet files.

12 columns are numbers with all their digits, 12 whole numbers from 0 to 99, 5 categories of 8 values; the label follows
from two of them, so that there is something to learn. 60 to 70 bytes a row on the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

REAL, WHOLE, KINDS = 12, 12, 5
VALUES = tuple(f"kind {letter}" for letter in "abcdefgh")
COLUMNS = REAL + WHOLE + KINDS + 1


def schema_of() -> Any:
    """What is public of it."""
    from dpmac.tables import Category, Number, Schema

    columns: dict[str, Any] = {f"x{k}": Number(-3.0, 3.0) for k in range(REAL)}
    columns |= {f"w{k}": Number(0, 99) for k in range(WHOLE)}
    columns |= {f"c{k}": Category(VALUES) for k in range(KINDS)}
    return Schema({**columns, "label": Category(("no", "yes"))}, target="label")


def made(rows: int, seed: int) -> Any:
    """So many rows as an arrow table, the same for the same seed."""
    import pyarrow as pa

    draw = np.random.default_rng(seed)
    found: dict[str, Any] = {f"x{k}": draw.standard_normal(rows, dtype=np.float32) for k in range(REAL)}
    found |= {f"w{k}": draw.integers(0, 100, rows, dtype=np.int16) for k in range(WHOLE)}
    label = found["x0"] + found["w0"] / 50.0 - 1.0 > draw.standard_normal(rows) / 2
    for k in range(KINDS):
        codes = pa.array(draw.integers(0, len(VALUES), rows, dtype=np.int8))
        found[f"c{k}"] = pa.DictionaryArray.from_arrays(codes, pa.array(VALUES))
    found["label"] = pa.DictionaryArray.from_arrays(pa.array(label.astype(np.int8)), pa.array(["no", "yes"]))
    return pa.table(found)


def write(folder: Path, rows: int, *, files: int, group: int) -> int:
    """The table in so many files of a new folder, one after the other in memory; its bytes on the disk."""
    from pyarrow import parquet

    folder.mkdir(parents=True)
    for k in range(files):
        here = rows * (k + 1) // files - rows * k // files
        parquet.write_table(made(here, seed=k), folder / f"part-{k:05d}.parquet", row_group_size=group)
    return sum(path.stat().st_size for path in folder.iterdir())


def column_arrays(table: Any) -> dict[str, Any]:
    """The columns of an arrow table as NumPy arrays by name."""
    return {name: table.column(name).to_numpy() for name in table.column_names}
