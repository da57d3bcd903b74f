"""Whether what a manifest says of a fitted estimator fits its model: a forged or mixed-up folder is found out."""

from __future__ import annotations

import math
from typing import Any

from dpmac.pictures.resizing import LARGEST


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
