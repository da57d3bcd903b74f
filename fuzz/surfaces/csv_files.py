"""CSV files: mutated bytes, other encodings, ragged and huge ones."""

from __future__ import annotations

import codecs
import gzip

from dpmac import TableEncoder
from dpmac.tables.files import guessed_kind, need_columns, read_table, rows_in
from fuzz.cases import Action, Case
from fuzz.mutations import spoilt_bytes
from fuzz.surfaces.starts import SCHEMA, csv_bytes

NAMES = ("people.csv", "people.tsv", "people.txt", "people", "people.csv.gz", "people.parquet")


def prepare(case: Case) -> Action:
    """A spoilt file, read as ``dpmac train`` does."""
    raw = _whole(case)
    name = case.random.choices(NAMES, weights=[12, 2, 1, 1, 3, 1])[0]
    packed = name.endswith(".gz") and case.random.random() < 0.9
    for _ in case.times():
        if packed and case.random.random() < 0.5:
            raw, packed = gzip.compress(raw, mtime=0), False
            case.note("packed")
        raw, said = spoilt_bytes(case.random, raw)
        case.note(said)
    path = case.folder / name
    path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    schema = SCHEMA if case.random.random() < 0.7 else None

    def action() -> None:
        table = read_table(path, schema)
        assert len({len(cells) for cells in table.values()}) <= 1
        assert rows_in(table) <= raw.count(b"\n") + raw.count(b"\r") + 1 or name.endswith("gz")
        if schema is None:
            for cells in table.values():
                guessed_kind(cells)
        else:
            need_columns(path, table, schema.columns)
            TableEncoder(schema).transform(table)

    return action


def _whole(case: Case) -> bytes:
    """A valid file in one of the ways in which programs write them, or nearly."""
    raw = csv_bytes()
    match case.random.randrange(9):
        case 0:
            return codecs.BOM_UTF8 + raw
        case 1:
            case.note("UTF-16")
            return raw.decode().encode("utf-16")
        case 2:
            return raw.replace(b"\n", b"\r\n")
        case 3:
            case.note("old Mac line ends")
            return raw.replace(b"\n", b"\r")
        case 4:
            return raw.replace(b",", case.one_of([b";", b"\t", b"|", b", "]))
        case 5:
            return raw.replace(b"F", '"é, ""Ü"""\n'.encode())
        case 6:
            return raw.replace(b"F", "é".encode("latin-1"))
        case _:
            return raw
