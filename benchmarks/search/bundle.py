"""Puts tables into a folder for a machine without dpmac: codes of *training* rows, drawn rows, noise of every schedule.

    python benchmarks/search/bundle.py OUT --collection FOLDER [--data FOLDER] [--tables NAME ...]

OUT/NAME.npz has for one table: ``codes`` (n, columns), float32, NaN where a cell is missing; ``y`` as tables.Table has
it; ``drawn``, rows of the schema's prior, each number as a share of its range to the power of 1/4 in 16 bits. OUT/
NAME.json describes the columns, and has the noise multipliers of all schedules for the rows that a split leaves, by the
package's accountant. What is there is not made again. The machine then runs OUT's tables with gpu.py.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import collection
import numpy as np
import pandas as pd

import tables
from dpmac.priors import SchemaPrior
from dpmac.tables import Number, Schema, TableEncoder
from dpmac.training.defaults import calibration_for, safe_delta, schedule_for
from search import plan_of

EPSILONS = (0.5, 2.0, 8.0)
SCHEDULES = ((1.0, 100), (1.0, 200), (1.0, 500), (1.0, 1000), (0.5, 200), (0.5, 500), (2.0, 100), (2.0, 200))
DRAWN = 20_000
GONE = 65_535  # a missing cell of a drawn row


def columns_of(schema: Schema) -> list[dict[str, Any]]:
    """What the other machine must know to make inputs of codes."""
    found = []
    for column in schema.features.values():
        if isinstance(column, Number):
            about = {"low": column.low, "high": column.high, "wide": column.wide}
        else:
            about = {"values": len(column.values)}
        found.append({**about, "missing": column.missing})
    return found


def packed(rows: np.ndarray[Any, Any], columns: Sequence[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """Drawn rows in 16 bits a cell."""
    kept = np.empty(rows.shape, dtype=np.uint16)
    for place, column in enumerate(columns):
        cells, gone = rows[:, place], np.isnan(rows[:, place])
        if "low" in column:
            cells = np.clip((cells - column["low"]) / (column["high"] - column["low"]), 0, 1) ** 0.25 * (GONE - 1)
        kept[:, place] = np.where(gone, GONE, np.round(np.where(gone, 0, cells)))
    return kept


def noises(n: int, classes: bool) -> list[dict[str, Any]]:
    """Of every schedule: its sampling rate, its steps, and the noise multiplier of each epsilon."""
    found = []
    for times, steps in SCHEDULES:
        rate = min(1.0, float(f"{schedule_for(n).batch_size * times / n:.2g}"))
        sigmas = {f"{e:g}": _noise(rate, steps, e, safe_delta(n), calibration_for(n, e), classes, n) for e in EPSILONS}
        found.append({"times": times, "rate": rate, "steps": steps, "noise": sigmas})
    return found


_NOISES: dict[Any, float] = {}


def _noise(rate: float, steps: int, epsilon: float, delta: float, after: Any, classes: bool, n: int) -> float:
    key = (rate, steps, epsilon, delta, after if classes else None, classes)
    if key not in _NOISES:
        _NOISES[key] = plan_of(n, classes, epsilon, rate * n, steps).noise_multiplier
    return _NOISES[key]


def _frame(name: str, data: Path | None, folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    if name in collection.MORE:
        return collection.frame_of(name, folder)
    return tables.frame_of(name, data, None)


def write(out: Path, name: str, data: Path | None, folder: Path) -> None:
    frame, description = _frame(name, data, folder)
    schema = Schema.from_dict(description)
    train = np.random.RandomState(0).permutation(len(frame))[len(frame) // 5 :]
    codes = TableEncoder(schema, 12).codes(frame.iloc[train]).numpy().astype(np.float32)
    columns = columns_of(schema)
    drawn = packed(SchemaPrior(schema).drawn(DRAWN).numpy(), columns)
    y = tables.target_of(frame, description)[train].astype(np.float32)
    classes = description["task"] == "classification"
    fit = len(y) - len(y) // 5
    about = {
        **{"name": name, "classes": classes, "rows": len(y), "fit": fit, "columns": columns},
        **{"kept_out": name in collection.KEPT_OUT, "made": name.startswith("made"), "schedules": noises(fit, classes)},
    }
    np.savez_compressed(out / f"{name}.npz", codes=np.asfortranarray(codes), y=y, drawn=np.asfortranarray(drawn))
    (out / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    parser.add_argument("--tables", nargs="+")
    options = parser.parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    data = None if options.data is None else Path(options.data)
    there = [] if data is None else sorted((data / "tables").glob("*.schema.json"))
    for name in options.tables or [*(path.name.removesuffix(".schema.json") for path in there), *collection.MORE]:
        if not (options.out / f"{name}.json").exists():
            write(options.out, name, data, options.collection)
            print(name, flush=True)


if __name__ == "__main__":
    main()
