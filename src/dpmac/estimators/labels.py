"""From what a user calls ``y`` to targets: classes, one label a row or several; and the public weights of classes.

Everything here is said before any privacy is spent. Errors name ``y``, what is wrong with it, and the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from dpmac.cells import flat
from dpmac.checks import ArgumentError, check_utf8, number
from dpmac.estimators.target_cells import without_gaps
from dpmac.tables import Category
from dpmac.tables.coding import cells_of, distinct
from dpmac.tables.kinds.shared import CellError, shown
from dpmac.tables.texts import check_length

Array = np.ndarray[Any, Any]
SHAPES = "give one label for each row, or a matrix (n, labels) of 0 and 1 where a row may have several"
CLASSES_NOTE = (
    "the set of class labels, which was read from the data and is treated as public (give `classes` to avoid it);"
)
PRIVATE_COUNTS = (
    "the frequencies of the classes are private numbers of the rows, and weights made of them would leak: give public "
    "weights {class: weight}, or release the counts with noise first and pay for them in the ledger"
)


def looked_over(y: Any) -> Array:
    """``y`` as an array of labels (n,), or of 0 and 1 (n, labels); :class:`ArgumentError` for what is neither."""
    if issparse(y):
        y = y.toarray()
    try:
        if isinstance(y, Tensor):
            y = y.detach()
        found = np.asarray(y)
    except (TypeError, ValueError):  # rows of different lengths
        raise ArgumentError("y", type(y).__name__, SHAPES) from None
    if found.dtype.kind == "c":
        raise ArgumentError("y", found.dtype, f"Complex data not supported: {SHAPES}")
    if found.ndim not in (1, 2) or 0 in found.shape[1:] or found.dtype.kind == "V":
        if found.ndim == 0:
            what = type(y).__name__
        else:
            what = f"shape {found.shape}, {found.dtype}"
        raise ArgumentError("y", what, SHAPES)
    _check_missing(found)
    found = _numbers_of(found)
    if found.ndim == 2 and found.shape[1] == 1:
        found = column_or_1d(found, warn=True)
    if found.ndim == 2 and (found.dtype.kind not in "biuf" or not ((found == 0) | (found == 1)).all()):
        raise ArgumentError("y", f"shape {found.shape}, entries other than 0 and 1", SHAPES)
    return found


def _check_missing(y: Array) -> None:
    """Raise for a label that is missing or not finite: NaN, None, pandas.NA, inf."""
    if y.dtype.kind == "f":
        bad = ~np.isfinite(y)
    elif y.dtype.kind == "O":  # nothing that is a label differs from itself; comparing pandas.NA gives no truth at all
        bad = np.frompyfunc(_is_none, 1, 1)(y).astype(bool)
    else:
        return
    if bad.any():
        place = tuple(np.argwhere(bad)[0])
        fix = "a label is missing or not finite: give every row one, or drop the row"
        raise CellError(f"y, row {place[0]}", y[place], fix, int(bad.sum()), bad.size)


def _is_none(cell: Any) -> bool:
    try:
        return cell is None or type(cell).__name__ == "NAType" or bool(cell != cell)
    except (ArithmeticError, TypeError, ValueError):  # a signalling NaN, an array: it cannot be told from another
        return True


def _numbers_of(y: Array) -> Array:
    """Numbers that came as objects (of a list, of a nullable column) as numbers; all else as it is."""
    if y.dtype.kind == "O" and y.size and all(isinstance(cell, int | float | np.number | np.bool_) for cell in y.flat):
        return np.array(y.tolist())
    return y


def check_classes(y: Array) -> None:
    """Raise unless ``y`` (n,) holds classes: numbers in between are a regression's."""
    try:
        check_classification_targets(y)
    except (TypeError, ValueError):
        fix = "Unknown label type: a classifier needs classes, all numbers (whole ones) or all texts"
        if y.dtype.kind in "biuf":
            kind = type_of_target(y)
        else:
            kind = f"{y.dtype} of several kinds"
        more = ""
        if kind.startswith("continuous"):
            more = "; for numbers there is DPMACRegressor"
        raise ArgumentError("y", kind, fix + more) from None


def encoded(y: Array, known: Sequence[Any] | None) -> tuple[Array, Tensor]:
    """The classes, sorted, and each label's place among them; ``known`` are the classes, where they are public."""
    found, places = np.unique(y, return_inverse=True)
    if known is None:
        name, classes = "y", found
    else:
        name, classes = "classes", np.unique(_listed(known))
    _check_kept(name, classes)
    strange = np.setdiff1d(found, classes)
    if len(strange):
        raise ArgumentError("y", strange[0], f"this label is not among classes={classes.tolist()}")
    if len(classes) < 2:
        raise ArgumentError("y", f"{len(classes)} class", "a classifier needs at least two classes")
    for label in classes:
        check_length("y", str(label))
    return classes, torch.from_numpy(np.searchsorted(classes, found)[places].reshape(-1))


def _listed(known: Any) -> Array:
    """The classes that the user has listed, all of one kind."""
    try:
        names = np.asarray(known)
        np.unique(names)
    except (TypeError, ValueError, ArithmeticError):
        fix = "list the labels of the classes, all numbers or all texts"
        raise ArgumentError("classes", known, fix) from None
    return names


def _check_kept(name: str, classes: Array) -> None:
    """Raise for classes that no file could keep: a model that cannot be saved is not paid for."""
    if classes.dtype.kind == "f" and classes.dtype.itemsize > 8:
        raise ArgumentError(name, classes.dtype, "labels in this precision cannot be kept in a file: give float64")
    for label in classes.tolist():
        if isinstance(label, str):
            check_utf8(name, label)


def encoded_by_schema(values: Sequence[str], y: Array) -> tuple[Array, Tensor]:
    """As the schema's values have it, whether or not a row has them; what a class is called follows from y's type."""
    column = Category(values, missing=True)
    codes = without_gaps(column.coded("y", y))
    classes = _named(values, y.dtype.kind)
    strange = np.flatnonzero(codes == column.other)
    if len(strange):
        advice = f"this label is not among classes={classes.tolist()}"
        raise CellError(f"y, row {strange[0]}", shown(y[strange[0]]), advice, len(strange), len(y))
    if len(classes) < 2:
        raise ArgumentError("y", "1 class", "a classifier needs at least two classes: list them in the schema")
    order = np.argsort(classes, kind="stable")
    return classes[order], torch.from_numpy(np.argsort(order)[codes.astype(np.int64)])


def _named(values: Sequence[str], kind: str) -> Array:
    """The values in the type of labels of that NumPy kind, or as text where they have no such form."""
    truth = {"true": True, "false": False, "1": True, "0": False}
    try:
        if kind == "b":
            return np.array([truth[value.lower()] for value in values])
        if kind in "iuf":
            numbers = np.array([float(value) for value in values])
            if kind == "f" or (numbers % 1).any():
                return numbers
            return numbers.astype(np.int64)
    except (KeyError, ValueError):
        pass
    return np.array(values)


def names_of_labels(labels: int, known: Sequence[Any] | None) -> Array:
    """What the columns of an indicator matrix are called: 0, 1, ... or as ``known`` names them, in order."""
    if known is None:
        return np.arange(labels)
    names = _listed(known)
    _check_kept("classes", names)
    if names.shape != (labels,) or len(np.unique(names)) < labels:
        raise ArgumentError("classes", known, f"y has {labels} labels a row: name each of them, or leave classes out")
    return names


class LabelsInFiles:
    """Labels of a table in files, batch by batch: targets as ``single`` makes them of a column in memory.

    ``single`` makes of labels the classes, which must be ``known``, and one-hot targets; ``classes``, as the labels'
    type names them, are there after the first batch.
    """

    def __init__(
        self,
        single: Callable[[Array], tuple[Array, Tensor]],
        known: Sequence[Any] | None,
        read: Callable[[Array], Array] = lambda cells: cells,
    ) -> None:
        if known is None:
            fix = "classes of rows in files are not looked for: give them, or a schema whose target is a category"
            raise ArgumentError("classes", None, fix)
        self._single, self._read = single, read
        self.classes: Array = np.empty(0)

    def __call__(self, cells: Any) -> Array:
        values, places = distinct(cells)
        used, inverse = np.unique(places, return_inverse=True)
        few = [values[place] for place in used]
        try:  # twice each: so many different ones look like numbers to scikit-learn, which warns of it
            classes, targets = self._single(looked_over(self._read(flat([*few, *few]))))
        except ArgumentError:  # once more, row by row, to say where
            classes, targets = self._single(looked_over(self._read(flat(cells_of(cells)))))
            inverse = np.arange(len(targets))
        if len(self.classes) and not np.array_equal(self.classes, classes):
            raise ArgumentError(
                "y", classes.tolist(), f"other rows have labels of another kind: {self.classes.tolist()}"
            )
        self.classes = classes
        found: Array = targets.numpy()[inverse]
        return found


# --- public weights ---------------------------------------------------------------------------------------------------


def class_weights(given: Any, classes: Array) -> tuple[float, ...] | None:
    """The weight of each class, 1 for one that is not mentioned; None where all weigh the same by default."""
    if given is None:
        return None
    fix = "give public weights {class: weight}, or None"
    return _weights("class_weight", given, classes.tolist(), fix)


def label_weights(given: Any, labels: int) -> Tensor | None:
    """(labels, 2): the weights of every label where it is off, and where it is on."""
    if given is None:
        return None
    fix = f"y has {labels} labels a row: give a list of {labels} dicts {{0: weight, 1: weight}}, one a label, or None"
    if isinstance(given, str) or not isinstance(given, list | tuple) or len(given) != labels:
        raise ArgumentError("class_weight", given, PRIVATE_COUNTS if isinstance(given, str) else fix)
    return torch.tensor([_weights("class_weight", one, [0, 1], fix) for one in given], dtype=torch.float64)


def _weights(name: str, given: Any, classes: list[Any], fix: str) -> tuple[float, ...]:
    if isinstance(given, str) and given == "balanced":
        raise ArgumentError(name, given, PRIVATE_COUNTS)
    if not isinstance(given, Mapping):
        raise ArgumentError(name, given, fix)
    for known in given:
        if known not in classes:
            raise ArgumentError(name, known, f"this class is not among classes={classes}")
    within = "a weight is a number from 1e-6 to 1e6: only their ratios matter to the objective"
    weights = (given.get(one, 1.0) for one in classes)
    return tuple(number(name, weight, within, low=1e-6, high=1e6) for weight in weights)
