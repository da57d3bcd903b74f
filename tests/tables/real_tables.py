"""The real tables, where they lie beside the repository; otherwise a small one of our own, in the same files."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "tables"
SMALL = {
    "name": "small",
    "about": "made here",
    "task": "classification",
    "target": "death",
    "columns": {
        "age": {"kind": "number", "low": 18, "high": 99.5},
        "dose": {"kind": "number", "low": 0, "high": 5, "missing": True},
        "sex": {"kind": "category", "values": ["F", "M"]},
        "group": {"kind": "category", "values": ["0", "1", "other"], "missing": True},
        "death": {"kind": "category", "values": ["0", "1"]},
    },
    "positive": "1",
}


def schema_files(folder: Path) -> list[Path]:
    """The schemas of all tables at hand; each has its rows beside it, NAME.csv.gz."""
    given = os.environ.get("DPMAC_DATA")
    for place in (*([Path(given) / "tables"] if given else []), BESIDE):
        found = sorted(place.glob("*.schema.json"))
        if found:
            return found
    lines = ["age,dose,sex,group,death"]
    lines += [
        f"{18 + i % 80},{'' if i % 7 == 0 else i % 5},{'FM'[i % 2]},{('', 1, 'other')[i % 3]},{i % 2}"
        for i in range(200)
    ]
    (folder / "small.schema.json").write_text(json.dumps(SMALL, indent=1))
    with gzip.open(folder / "small.csv.gz", "wt") as handle:
        handle.write("\n".join(lines) + "\n")
    return [folder / "small.schema.json"]


def rows_of(schema_file: Path) -> Path:
    return schema_file.with_name(schema_file.name.replace(".schema.json", ".csv.gz"))
