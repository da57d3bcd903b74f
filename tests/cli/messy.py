"""A CSV as people have them, of patients who never lived: visits with dates, postal codes, 300 diagnosis codes, gaps,
thousands separators, a laboratory's "<0.5", and a rare target."""

from __future__ import annotations

import csv
import json
import random
from datetime import date, timedelta
from pathlib import Path

CODES = [f"{letter}{number:02d}.{digit}" for letter in "ACEGIJKMNRSZ" for number in range(5) for digit in range(5)]
WARDS = ["A", "B", "C", "D"]
GAPS = ["", "NA", "n/a", "NULL", "-"]
COLUMNS = [
    *("visit_id", "patient_id", "admitted", "postal_code", "diagnosis", "age", "ward", "emergency"),
    *("costs", "crp", "readmitted"),
]
SCHEMA = {
    "target": "readmitted",
    "positive": "yes",
    "columns": {
        "admitted": {"kind": "date", "low": "2020-01-01", "high": "2026-12-31", "format": "%d.%m.%Y"},
        "age": {"kind": "number", "low": 0, "high": 120, "missing": True},
        "ward": {"kind": "category", "values": WARDS},
        "emergency": {"kind": "category", "values": ["True", "False"]},
        "readmitted": {"kind": "category", "values": ["no", "yes"]},
    },
}


def visits(rows: int = 600, seed: int = 0) -> list[dict[str, str]]:
    """The cells as texts, row by row; a third as many patients as visits."""
    draw, found = random.Random(seed), []
    for number in range(rows):
        age, code = draw.randint(0, 99), draw.choice(CODES)
        risk = 0.02 + 0.12 * (age > 70) + 0.1 * code.startswith("I")
        found.append(
            {
                "visit_id": f"V{number:06d}",
                "patient_id": f"P{draw.randrange(rows // 3):05d}",
                "admitted": (date(2020, 1, 1) + timedelta(days=draw.randrange(2500))).strftime("%d.%m.%Y"),
                "postal_code": f"{draw.randrange(1000, 99999):05d}",
                "diagnosis": code,
                "age": draw.choice(GAPS) if draw.random() < 0.1 else str(age),
                "ward": draw.choice(WARDS),
                "emergency": str(draw.random() < 0.3),
                "costs": f"{draw.uniform(100, 90_000):,.2f}",
                "crp": "<0.5" if draw.random() < 0.3 else f"{draw.uniform(0.5, 200):.1f}",
                "readmitted": "yes" if draw.random() < risk else "no",
            }
        )
    return found


def write_visits(path: Path, rows: list[dict[str, str]], **changed: object) -> Path:
    """The rows as a CSV file; ``changed`` maps a column to a function of its cell."""
    names = [name for name in COLUMNS if name in rows[0]]
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: changed[name](cell) if name in changed else cell for name, cell in row.items()})
    return path


def write_schema(path: Path, **columns: object) -> Path:
    """:data:`SCHEMA` as a file, with more ``columns`` or others; None takes one out."""
    every = {name: column for name, column in {**SCHEMA["columns"], **columns}.items() if column is not None}
    path.write_text(json.dumps({**SCHEMA, "columns": every}))
    return path
