"""Whether what a manifest says of a fitted estimator fits its model: a forged or mixed-up folder is found out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmac.estimators.edits import MOST, Edit
from dpmac.pictures.resizing import LARGEST
from dpmac.tables import TermEncoder


def labels_agree(model: Any) -> bool:
    units: tuple[int, ...] = model.network_.output_shape
    several = model._indicator
    known = model.loss in ("softmax", "sigmoid") and (several is None or several.kind in "biuf")
    return known and model.classes_.shape == units


def pictures_agree(model: Any) -> bool:
    """A picture's size is that of a row: what is drawn, shown or predicted follows from it."""
    shape = model.image_shape_
    if not isinstance(shape, tuple) or len(shape) != 3 or any(type(one) is not int or one < 1 for one in shape):
        return False
    columns = model.table_columns_ or ("", None)
    if not isinstance(columns, tuple) or len(columns) != 2 or not all(isinstance(c, str | None) for c in columns):
        return False
    return max(shape) <= LARGEST and math.prod(model._size) == model.n_features_in_ and labels_agree(model)


def range_agrees(model: Any) -> bool:
    low, high = model.target_range_
    return bool(low < high) and model.network_.output_shape == (1,) and isinstance(model.residual_std_, float | None)


def code_agrees(model: Any) -> bool:
    if model.autoencoder_ is None:
        return bool(model.code_size_ in model.network_.sizes)
    return bool(model.code_size_ == len(model.autoencoder_.pca.components))


def additive_agrees(model: Any) -> bool:
    """Whether a model is a sum of terms exactly where it says so, and its noise and edits are of these terms."""
    encoder, said = model.feature_map_, hasattr(model, "edits_")
    if not isinstance(encoder, TermEncoder) or not said:
        return not isinstance(encoder, TermEncoder) and not said
    shape = (model.network_.output_shape[0], encoder.n_features_out)
    noise, edits = np.asarray(model.term_noise_), model.edits_
    whole = model.network_.sizes == (shape[1], shape[0]) and encoder.singles and model.schema is not None
    if not whole or noise.shape != shape or noise.dtype != np.float64 or not (noise >= 0).all():
        return False
    if not isinstance(edits, tuple) or len(edits) > MOST or not all(isinstance(edit, Edit) for edit in edits):
        return False
    points = dict.fromkeys((block.term for block in encoder.blocks), 0)
    for block in encoder.blocks:
        points[block.term] += block.stop - block.start
    return all(
        np.shape(values) == (shape[0], points.get(name, -1)) and np.isfinite(values).all()
        for edit in edits
        for name, values in zip(edit.terms, edit.before, strict=True)
    )
