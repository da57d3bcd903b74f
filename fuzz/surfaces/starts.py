"""The valid things that cases start from, made once: rows, a schema, saved models, a ledger, a checkpoint."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Ledger, Machine, Schema
from dpmac.cli.jobs import Job
from dpmac.privacy import Entry
from dpmac.tables import Category, Date, Number
from dpmac.tables.files import csv_text, read_table
from dpmac.training import Trainer
from dpmac.training.checkpoint import Checkpoints

ROWS = 24
QUICK: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-3, "batch_size": 12, "epochs": 2, "hidden_layer_sizes": ()}
QUICK |= {"machine": Machine(progress=False, threads=1), "random_state": 1}  # noise that repeats, so that a case does
SCHEMA = Schema(
    {
        "age": Number(0, 120),
        "sex": Category(["F", "M"]),
        "weight": Number(30, 200, missing=True),
        "ward": Category(["A", "B", "C"], missing=True),
        "seen": Date("2015-01-01", "2025-12-31", parts=["month", "weekday"], missing=True),
        "death": Category(["0", "1"]),
    },
    target="death",
    positive="1",
)


def rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """An array and labels."""
    draw = np.random.default_rng(0)
    return draw.uniform(-1, 1, (ROWS, 3)), draw.integers(0, 2, ROWS)


def table() -> dict[str, list[Any]]:
    """Columns that fit the schema."""
    draw = np.random.default_rng(0)
    return {
        "patient": [f"p{row}" for row in range(ROWS)],
        "age": draw.integers(18, 95, ROWS).tolist(),
        "sex": draw.choice(["F", "M"], ROWS).tolist(),
        "weight": [None if row % 7 == 3 else round(float(w), 1) for row, w in enumerate(draw.normal(75, 12, ROWS))],
        "ward": [None if row % 5 == 2 else w for row, w in enumerate(draw.choice(["A", "B", "C"], ROWS).tolist())],
        "death": draw.integers(0, 2, ROWS).tolist(),
        "seen": [None if row % 6 == 1 else f"20{15 + row % 10}-02-{1 + row}" for row in range(ROWS)],
    }


def csv_bytes() -> bytes:
    return csv_text(table()).encode()


@cache
def home() -> Path:
    """A folder that goes when the process does."""
    made = Path(tempfile.mkdtemp(prefix="dpmac-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def fitted(name: str) -> Any:
    """A fitted estimator: of a table ("classifier", "regressor"), of arrays ("array", "pca", "autoencoder")."""
    x, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "classifier":
            return DPMACClassifier(schema=SCHEMA, **QUICK).fit(table())
        if name == "regressor":
            return DPMACRegressor(schema=Schema(dict(SCHEMA.columns), target="age"), **QUICK).fit(table())
        if name == "array":
            return DPMACClassifier(feature_range=(-1, 1), **{**QUICK, "hidden_layer_sizes": (4,)}).fit(x, y)
        if name == "pca":
            return DPMACPCA(2, epsilon=8.0, delta=1e-3, feature_range=(-1, 1), random_state=1).fit(x)
        return DPMACAutoencoder(2, epsilon=8.0, delta=1e-3, feature_range=(-1, 1), random_state=1).fit(x)


FITTED = ("classifier", "regressor", "array", "pca", "autoencoder")


@cache
def saved(name: str) -> Path:
    """Its folder."""
    where = home() / name
    fitted(name).save(where)
    return where


@cache
def ledger() -> Path:
    """A ledger's file, with a few releases of two runs."""
    where = home() / "some.ledger"
    book = Ledger(where, "hospital")
    for step in range(6):
        with book.noting(purpose="a test", model=f"m{step % 2}", run="r"):
            book.append(Entry("training step", 1.0 + step / 10, 0.5, True, {"layer 1": 0.1 * (step + 1)}, 1e-9))
    book.append(Entry("ridge", 2.0, 1.0, False, {"a": float("inf")}))
    return where


@cache
def interrupted() -> Path:
    """A folder with people.csv, some.ledger, and in run/ a training that was interrupted at its third step."""
    where = home() / "interrupted"
    (where / "run").mkdir(parents=True)
    (where / "people.csv").write_bytes(csv_bytes())
    quick = {name: QUICK[name] for name in ("epsilon", "delta", "batch_size", "epochs")} | {"threads": 1}
    paths = str(where / "people.csv"), SCHEMA.to_dict(), str(where / "some.ledger")
    job = Job(*paths, **quick, hidden=[], name="run", rows=ROWS)
    job.save(where / "run")
    step = Trainer._step

    def stopped(self: Trainer, training: Any, *rest: Any) -> None:
        step(self, training, *rest)
        if training.done == 3:
            raise KeyboardInterrupt

    model = job.estimator(Ledger(where / "some.ledger"), Checkpoints(where / "run" / "checkpoint", keep=True))
    with mock.patch.object(Trainer, "_step", stopped), suppress(KeyboardInterrupt):
        model.fit(read_table(where / "people.csv", SCHEMA))
    return where


@cache
def checkpoint() -> Path:
    """The file of a checkpoint."""
    kept = Checkpoints(home() / "kept")
    state = {"job": {"seed": None}, "run": "r", "done": 3, "ledger": 0, "heads": [(0, "a"), (3, "b")], "sources": []}
    kept.write(
        {**state, "updater": {"m": torch.ones(2, 3), "t": 1.5, "n": (1, None)}, "threshold": None, "history": []}
    )
    return kept.path
