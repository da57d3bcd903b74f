"""Parquet files: mutated bytes, and folders of files that do not agree."""

from __future__ import annotations

import io
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.tables import Files
from dpmac.tables.coding import Reader
from dpmac.tables.files import guessed_kind, need_columns
from fuzz.cases import Action, Case
from fuzz.mutations import spoilt_bytes
from fuzz.surfaces.starts import SCHEMA, table

KEPT: tuple[dict[str, Any], ...] = ({}, {"memory": 1}, {"memory": 2**20, "scratch": None})


def prepare(case: Case) -> Action:
    """A table in files, one of them spoilt, read as ``dpmac train`` does, and kept in any of the ways."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = case.folder / "table"
    folder.mkdir()
    for part in range(case.random.randint(1, 3)):
        whole = io.BytesIO()
        parquet.write_table(pa.table(table()), whole, row_group_size=case.random.choice([1, 7, 1000]))
        raw = whole.getvalue()
        if part == 0:
            for _ in case.times():
                raw, said = spoilt_bytes(case.random, raw)
                case.note(said)
        (folder / f"{part}.parquet").write_bytes(raw)
    how = case.random.choice(KEPT)

    def action() -> None:
        files = Files(folder, **how)
        if not files.n:
            raise ArgumentError("file", files.what, "it has no rows")
        for name in files:
            guessed_kind(files.different(name))
        need_columns(folder, files, SCHEMA.columns)
        files.read(Reader(SCHEMA.columns))

    return action
