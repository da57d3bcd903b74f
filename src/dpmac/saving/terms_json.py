"""An additive model as plain JSON: points and values that a spreadsheet, or twenty lines of any language, can apply.

Every term is a list of parts, every part says how a cell becomes a number: "line" by linear interpolation between
points, flat beyond the ends; "list" by looking the cell up; "missing" if the cell is empty; "grid" of two columns. The
sum of all these numbers and the intercept goes through the link. The file ends with a worked example, by which whoever
applies it can see that they do it right. docs/additive.md explains it cell by cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import dpmac
from dpmac.checks import ArgumentError
from dpmac.estimators.terms import INTERCEPT, AdditiveModel
from dpmac.saving.export import _given, _new, _written
from dpmac.saving.writing import write_json
from dpmac.tables import ColumnKind, TermEncoder
from dpmac.tables.kinds import Array
from dpmac.tables.kinds.bases import Own
from dpmac.tables.terms import Axis, Block

FORMAT = "dpmac-terms-1"
LINKS = {
    "logistic": "the probability of the output is 1 / (1 + exp(-sum))",
    "softmax": "the probability of an output is exp(its sum), divided by those of all outputs together",
    "labels": "the probability of each output is 1 / (1 + exp(-its sum))",
    "number": "the prediction is the sum, and within limits: never below the one, never above the other",
}
HOW = (
    "Add to the intercept, for every part of every term, the value that the row's cell has there. Kind line: points "
    "are ascending numbers; interpolate linearly between the two nearest, and take the first or the last value beyond "
    "them (a date counts days since 2000-01-01). Kind list: the value of the point that equals the cell as a text; "
    "that of other where none does. Kind missing: the value if the cell is empty. A line or list of an empty cell adds "
    "0. Kind grid: each of its two axes is such a line or list; interpolate along both; other and missing give the "
    "places of the values for any other cell and for an empty one. Values are lists over points, of a grid lists of "
    "lists; of several outputs each value is a list over outputs."
)


def export_json(folder_or_estimator: Any, path: str | Path) -> Path:
    """Write an additive model's terms to a new file ``path`` (.json), which any program can apply."""
    estimator: Any = _given(folder_or_estimator)
    where = _new(path, ".json")
    if not hasattr(estimator, "edits_"):
        fix = "only a sum of terms can be written so: fit with additive=True, or export for torch or ONNX"
        raise ArgumentError("estimator", type(estimator).__name__, fix)
    found = plain_terms(estimator)
    return _written(where, None, lambda beside: write_json(beside, found))


def plain_terms(estimator: Any) -> dict[str, Any]:
    """What the file holds."""
    model: AdditiveModel = estimator._additive_model()
    encoder, statement = model.encoder, estimator.privacy_.statement().to_dict()
    for name in encoder.schema.features:
        if any(isinstance(basis, Own) for basis in encoder.bases(name)):
            fix = f"its term is a sum over words, which no spreadsheet reads: leave {name!r} out, or export for torch"
            raise ArgumentError("estimator", name, fix)
    found: dict[str, Any] = {
        "format": FORMAT,
        "dpmac": dpmac.__version__,
        "estimator": type(estimator).__name__,
        "outputs": list(model.outputs),
        "how": HOW,
        "link": model.link,
        "link in words": LINKS[model.link],
        INTERCEPT: _plain(model.plain(model.intercept)),
        "terms": [
            {"name": name, "parts": [_part(block, model) for block in blocks]} for name, blocks in model.blocks.items()
        ],
    }
    if model.limits is not None:
        found["limits"] = list(model.limits)
    if getattr(estimator, "classes_", None) is not None:
        found["classes"] = [str(label) for label in estimator.classes_]
    found["edits"] = [edit.sentence() for edit in estimator.edits_]
    found["privacy"] = {key: statement[key] for key in ("private", "epsilon", "delta", "unit", "seeded")}
    return found | {"example": _example(estimator, model)}


def _part(block: Block, model: AdditiveModel) -> dict[str, Any]:
    some = model.values[:, block.start : block.stop].reshape(len(model.outputs), *block.shape)
    values = model.plain(some.transpose(*range(1, len(block.shape) + 1), 0))
    if block.name == "missing":
        return {"kind": "missing", "column": block.axes[0].column, "value": _plain(values[0])}
    if len(block.axes) > 1:
        return {"kind": "grid", "axes": [_axis(axis, block.name) for axis in block.axes], "values": _plain(values)}
    axis = _axis(block.axes[0], block.name)
    if axis["kind"] == "list" and "other" in axis:
        axis["other"] = _plain(values[-1])
        values = values[:-1]
    return {**axis, "values": _plain(values)}


def _axis(axis: Axis, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "list", "column": axis.column}
    if name:
        found["of the date"] = name
    if axis.knots is not None:
        found |= {"kind": "line", "points": _plain(axis.knots)}
    else:
        found["points"] = list(axis.labels[: axis.listed])
    if axis.knots is None and len(axis.labels) - axis.gap > axis.listed:
        found["other"] = axis.listed  # the place of its values; of a term of one column, the value itself
    if axis.gap:
        found["missing"] = len(axis.labels) - 1
    return found


def _example(estimator: Any, model: AdditiveModel) -> dict[str, Any]:
    """A made-up row, what each term says of it, and the model's answer."""
    encoder: TermEncoder = model.encoder
    columns = encoder.schema.features
    row = {name: _cell(column, place) for place, (name, column) in enumerate(columns.items())}
    table = {name: np.array([cell], dtype=columns[name].dtype) for name, cell in row.items()}
    said = {name: _plain(values[0]) for name, values in model.contributions(encoder.codes(table)).items()}
    found: dict[str, Any] = {"row": {name: _written_cell(columns[name], cell) for name, cell in row.items()}}
    total = np.sum([np.asarray(value) for value in said.values()], axis=0)
    if model.link == "number":
        answer: Any = float(estimator.predict(table)[0])
    else:
        p = estimator.predict_proba(table)[0]
        if model.link == "logistic":
            p = p[1:]
        answer = _plain(model.plain(p))
    return found | {"adds": said, "sum": _plain(total), "answer": answer}


def _cell(column: ColumnKind, place: int) -> Any:
    """A cell of nobody: somewhere inside the range, or one of the values."""
    return column.drawn(np.array([(0.37 + 0.29 * place) % 1.0]))[0]


def _written_cell(column: ColumnKind, cell: Any) -> Any:
    if column.ordered and isinstance(cell, float | np.floating):
        return float(cell)
    return str(cell)


def _plain(values: Any) -> Any:
    numbers: Array = np.asarray(values)
    return numbers.tolist()
