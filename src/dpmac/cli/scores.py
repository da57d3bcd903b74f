"""What a model scores on a table. These are plain sums over rows, without noise: of public rows, or for no one's eyes
but those of whoever holds the rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.files import whole_file
from dpmac.tables import Category, Number, Schema
from dpmac.tables.columns import text_of
from dpmac.tables.files import need_columns, rows_in
from dpmac.tables.frames import cells

KEPT = "evaluation.json"
Array = np.ndarray[Any, Any]


def schema_of(estimator: Any, run: str | Path) -> Schema:
    """The schema of a loaded model; one that was trained on arrays has none, and no file can be read for it."""
    schema = estimator.schema
    if schema is None:
        fix = "this model was trained on arrays without columns' names, not on a table: use it from Python, dpmac.load"
        raise ArgumentError("run", str(run), fix)
    return schema if isinstance(schema, Schema) else Schema.from_dict(schema)


def evaluation_of(estimator: Any, schema: Schema, table: Any, file: str, *, public: bool) -> dict[str, Any]:
    """Scores on the rows of a table; ``public`` is whether the user calls them so."""
    need_columns(file, table, schema.columns if schema.target is not None else schema.features)
    rows = rows_in(table)
    if rows < 1:
        raise ArgumentError("file", file, "it has no rows")
    found: dict[str, Any] = {"rows": rows, "public": public, "file": file}
    if schema.task == "classification":
        return found | _classified(estimator, schema, table)
    if schema.task == "regression":
        return found | {"scores": _regressed(estimator, schema, table)}
    return found | {"scores": {"reconstruction_error": float(np.mean(estimator.reconstruction_error(table)))}}


def keep(folder: Path, evaluation: dict[str, Any]) -> Path:
    """Write scores on public rows into a run folder."""
    with whole_file(folder / KEPT) as handle:
        handle.write(json.dumps(evaluation, indent=2, allow_nan=False) + "\n")
    return folder / KEPT


def _classified(estimator: Any, schema: Schema, table: Any) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    from dpmac.report.reliability import reliability

    target = str(schema.target)
    names = [text_of(label) for label in estimator.classes_]
    codes = _codes(target, names, cells(table, [target])[target])
    p = estimator.predict_proba(table)
    sure = p[np.arange(len(codes)), codes].clip(1e-15, 1)
    right = p.argmax(axis=1) == codes
    scores = {"accuracy": float(right.mean()), "log_loss": float(-np.log(sure).mean())}
    if len(names) == 2:
        positive = names[1] if schema.positive is None else schema.positive
        place = names.index(positive)
        happened, said = codes == place, p[:, place]
    else:
        positive, happened, said = "the likeliest class", right, p.max(axis=1)
    if len(set(codes.tolist())) == len(names):  # a curve needs rows of every class
        several = {} if len(names) == 2 else {"multi_class": "ovr", "labels": range(len(names))}
        scores["auroc"] = float(roc_auc_score(*((codes, p) if several else (happened, said)), **several))
    seen = reliability(happened, said.clip(0, 1))
    scores["calibration_error"] = seen.error
    return {"scores": scores, "positive": positive, "reliability": [asdict(b) for b in seen.bins]}


def _codes(target: str, names: list[str], found: Array) -> Array:
    known = Category(names)
    codes = known.coded(target, found)
    strange = np.flatnonzero(codes == known.other)
    if len(strange):
        place = f"column {target!r}, row {strange[0]}"
        raise ArgumentError(place, str(found[strange[0]]), f"this label is not among the model's classes {names}")
    return codes.astype(np.int64)


def _regressed(estimator: Any, schema: Schema, table: Any) -> dict[str, float]:
    target = str(schema.target)
    column = schema.target_column
    assert isinstance(column, Number)
    truth = Number(column.low, column.high).coded(target, cells(table, [target])[target])
    missed = truth - estimator.predict(table)
    spread = float(np.mean((truth - truth.mean()) ** 2))
    squared = float(np.mean(missed**2))
    scores = {"rmse": squared**0.5, "mean_absolute_error": float(np.mean(np.abs(missed)))}
    return scores | ({"r2": 1.0 - squared / spread} if spread > 0 else {})
