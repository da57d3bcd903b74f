"""What a model scores on a table. These are plain sums over rows, without noise: of public rows, or for no one's eyes
but those of whoever holds the rows."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.estimators.target_cells import named_as, without_gaps
from dpmac.files import whole_file
from dpmac.tables import Category, Number, Schema, TableEncoder
from dpmac.tables.files import need_columns, rows_in
from dpmac.tables.frames import cells
from dpmac.tables.texts import text_of

if TYPE_CHECKING:
    from dpmac.report.thresholds import AtThreshold

KEPT = "evaluation.json"
HALF = 0.5
Array = np.ndarray[Any, Any]


def schema_of(estimator: Any, run: str | Path) -> Schema:
    """The schema of a loaded model; one that was trained on arrays has none, and no file can be read for it."""
    schema = estimator.schema
    if schema is None:
        fix = "this model was trained on arrays without columns' names, not on a table: use it from Python, dpmac.load"
        raise ArgumentError("run", str(run), fix)
    if isinstance(schema, Schema):
        return schema
    return Schema.from_dict(schema)


def check_scored(schema: Schema, table: Any, file: str) -> None:
    """Raise unless a model of ``schema`` can be scored on a table: every cell of a feature and every label is read."""
    if schema.target is None:
        need_columns(file, table, schema.features)
    else:
        need_columns(file, table, schema.columns)
    if rows_in(table) < 1:
        raise ArgumentError("file", file, "it has no rows")
    TableEncoder(schema).codes(table)
    if schema.task == "classification":
        _codes(str(schema.target), list(_classes(schema)), _labels(schema, table))
    elif schema.task == "regression":
        _numbers(schema, table)


def evaluation_of(
    estimator: Any, schema: Schema, table: Any, file: str, *, public: bool, threshold: float = HALF
) -> dict[str, Any]:
    """Scores on the rows of a table, those that are finite; ``public`` is whether the user calls the rows so.

    ``threshold`` is the probability from which on the positive one of two classes is called.
    """
    check_scored(schema, table, file)
    found: dict[str, Any] = {"rows": rows_in(table), "public": public, "file": file}
    if schema.task == "classification":
        found |= _classified(estimator, schema, table, threshold)
    elif schema.task == "regression":
        found["scores"] = _regressed(estimator, schema, table)
    else:
        found["scores"] = {"reconstruction_error": float(np.mean(estimator.reconstruction_error(table)))}
    if public:
        found["reference"] = usual_codes(schema, table)
    return found | {"scores": {name: score for name, score in found["scores"].items() if math.isfinite(score)}}


def usual_codes(schema: Schema, table: Any) -> dict[str, float]:
    """A usual one of public rows, around which a report asks what columns do: medians, and the commonest values."""
    found = {}
    for name, column in schema.features.items():
        if column.code_width != 1:
            continue
        codes = column.coded(name, schema.cells.read(column, cells(table, [name])[name]))
        codes = codes[np.isfinite(codes)]
        if not len(codes):
            continue
        if column.ordered:
            found[name] = float(np.median(codes))
        else:
            values, counts = np.unique(codes, return_counts=True)
            found[name] = float(values[counts.argmax()])
    return found


def evaluation_of_pictures(
    estimator: Any, p: Array, labels: Any, file: str, *, public: bool, threshold: float = HALF
) -> dict[str, Any]:
    """Scores of a classifier of pictures: its probabilities ``p`` against ``labels``, which are texts. Of two classes
    the second is the positive."""
    names = [text_of(label) for label in estimator.classes_]
    codes = np.array([names.index(label) for label in labels])
    found = {"rows": len(codes), "public": public, "file": file, **_scored(p, codes, names, 1, threshold)}
    return found | {"scores": {name: score for name, score in found["scores"].items() if math.isfinite(score)}}


def keep(folder: Path, evaluation: dict[str, Any]) -> Path:
    """Write scores on public rows into a run folder."""
    with whole_file(folder / KEPT) as handle:
        handle.write(json.dumps(evaluation, indent=2, allow_nan=False) + "\n")
    return folder / KEPT


def _classified(estimator: Any, schema: Schema, table: Any, threshold: float) -> dict[str, Any]:
    names = class_names(schema, estimator.classes_)
    codes = _codes(str(schema.target), names, _labels(schema, table))
    return _scored(estimator.predict_proba(table), codes, names, positive_of(schema, names), threshold)


def _scored(p: Array, codes: Array, names: list[str], place: int, threshold: float) -> dict[str, Any]:
    """Scores of probabilities. Of two classes the one at ``place`` is the positive, and accuracy comes last: if it is
    rare, whoever never calls anybody is nearly always right."""
    from dpmac.report.reliability import reliability

    if not np.isfinite(p).all():
        raise ValueError("the model's probabilities are not finite")
    right = p.argmax(axis=1) == codes
    counts = np.bincount(codes, minlength=len(names)) / len(codes)
    losses = {
        "log_loss": float(-np.log(p[np.arange(len(codes)), codes].clip(1e-15, 1)).mean()),
        "log_loss_of_base_rate": float(-(counts[counts > 0] * np.log(counts[counts > 0])).sum()),
    }
    plain = {"accuracy": float(right.mean()), "accuracy_of_commonest_class": float(counts.max())}
    found: dict[str, Any] = {"positive": "the likeliest class"}
    if len(names) == 2:
        happened, said = codes == place, p[:, place]
        scores, more = _of_positive(happened, said, threshold)
        found = {"positive": names[place], **more}
        scores |= losses
    else:
        happened, said = right, p.max(axis=1)
        scores = {**_area_of_all(codes, p, len(names)), **losses}
    seen = reliability(happened, said.clip(0, 1))
    scores |= {"calibration_error": seen.error, **plain}
    return {"scores": scores, **found, "reliability": [asdict(b) for b in seen.bins]}


def positive_of(schema: Schema, names: list[str]) -> int:
    """The place of the positive one of two classes: the schema's, or the second."""
    if schema.positive is None:
        return 1
    return names.index(schema.positive)


def _of_positive(happened: Array, said: Array, threshold: float) -> tuple[dict[str, float], dict[str, Any]]:
    """Scores of a positive class that may be rare, and thresholds to choose from."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    from dpmac.report.thresholds import at_threshold, thresholds_to_choose

    scores: dict[str, float] = {}
    if happened.any() and not happened.all():  # a curve needs rows of both classes
        scores["auroc"] = float(roc_auc_score(happened, said))
        scores["average_precision"] = float(average_precision_score(happened, said))
    at = at_threshold(happened, said, threshold)
    scores["base_rate"] = float(happened.mean())
    scores |= {name: value for name, value in _rates(at).items() if value is not None}
    return scores, {"threshold": threshold, "thresholds": [asdict(t) for t in thresholds_to_choose(happened, said)]}


def _rates(at: AtThreshold) -> dict[str, float | None]:
    return {
        f"sensitivity_at_{at.threshold:g}": at.sensitivity,
        f"specificity_at_{at.threshold:g}": at.specificity,
    }


def _area_of_all(codes: Array, p: Array, classes: int) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    if len(set(codes.tolist())) < classes:
        return {}
    return {"auroc": float(roc_auc_score(codes, p, multi_class="ovr", labels=range(classes)))}


def class_names(schema: Schema, classes: Array) -> list[str]:
    """The classes as the schema writes them, whatever type the training's labels had: True may be its "1"."""
    column = Category(_classes(schema))
    places = column.coded(str(schema.target), classes)
    pairs = zip(places.astype(np.int64), classes, strict=True)
    return [column.values[place] if place < column.other else text_of(label) for place, label in pairs]


def _classes(schema: Schema) -> tuple[str, ...]:
    assert schema.target_column is not None
    assert schema.target_column.classes is not None
    return schema.target_column.classes


def _labels(schema: Schema, table: Any) -> Array:
    target = str(schema.target)
    assert schema.target_column is not None
    return schema.cells.read(schema.target_column, cells(table, [target])[target])


def _codes(target: str, names: list[str], found: Array) -> Array:
    known = Category(names, missing=True)
    with named_as(target):
        codes = without_gaps(known.coded("y", found))
    strange = np.flatnonzero(codes == known.other)
    if len(strange):
        place = f"column {target!r}, row {strange[0]}"
        raise ArgumentError(place, str(found[strange[0]]), f"this label is not among the model's classes {names}")
    return codes.astype(np.int64)


def _regressed(estimator: Any, schema: Schema, table: Any) -> dict[str, float]:
    truth = _numbers(schema, table)
    missed = truth - estimator.predict(table)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.mean((truth - truth.mean()) ** 2))
        squared = float(np.mean(missed**2))
    scores = {"rmse": squared**0.5, "mean_absolute_error": float(np.mean(np.abs(missed)))}
    if spread > 0:
        scores["r2"] = 1.0 - squared / spread
    return scores


def _numbers(schema: Schema, table: Any) -> Array:
    """The targets of a regression; one that is missing or not finite is an error that names its row."""
    assert schema.target_column is not None
    assert schema.target_column.target_range is not None
    column = Number(*schema.target_column.target_range, missing=True)
    with named_as(schema.target):
        truth = without_gaps(column.coded("y", _labels(schema, table)))
    if not np.isfinite(truth).all():
        row = int(np.argmax(~np.isfinite(truth)))
        place = f"column {schema.target!r}, row {row}"
        raise ArgumentError(place, float(truth[row]), "give a finite target, or drop the row")
    return truth
