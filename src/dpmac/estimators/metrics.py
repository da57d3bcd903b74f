"""A metric of a classifier on public rows, for the history of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets import Network
from dpmac.nets.feature_maps import FeatureMap
from dpmac.tables import Category
from dpmac.tables.kinds import ColumnKind

Array = np.ndarray[Any, Any]
Metric = Callable[[Network], Mapping[str, float]]


def accuracy_on(
    rows: Tensor, labels: Array, classes: Array, several: bool, column: ColumnKind | None = None
) -> Callable[[FeatureMap | None], Metric]:
    """How often a network behind a feature map is right on *public* rows: of several labels a row, about all of them.

    Labels are compared as a category's values are (the text "1" is the class 1), those of the schema's ``column`` where
    there is one. One that is no class is an error.
    """
    if len(labels) != len(rows):
        raise ArgumentError("public_validation", f"{len(labels)} labels", f"there are {len(rows)} rows")
    if several and labels.shape != (len(rows), len(classes)):
        raise ArgumentError("public_validation", f"shape {labels.shape}", f"y has {len(classes)} labels a row")
    known = None
    if not several:
        known = _coded(labels, classes, column)

    def behind(feature_map: FeatureMap | None) -> Metric:
        inputs = rows
        if feature_map is not None:
            inputs = feature_map(rows).float()

        def accuracy(network: Network) -> Mapping[str, float]:
            with torch.no_grad():
                u = network(inputs.to(network.device)).cpu()
            if known is None:
                right = ((u > 0).numpy() == labels).all(axis=1)
            else:
                right = u.argmax(dim=1).numpy() == known
            return {"validation_accuracy": float(np.mean(right))}

        return accuracy

    return behind


def _coded(labels: Array, classes: Array, column: ColumnKind | None) -> Array:
    """The place of every public label among the classes; both are values of the ``column``, if it has all classes."""
    name, values = "public_validation", Category(classes)
    if labels.ndim != 1:
        raise ArgumentError(name, f"shape {labels.shape}", "give one label for each row")
    if column is not None and column.classes is not None:
        listed = Category(column.classes)
        if listed.other not in listed.coded(name, classes):
            values = listed
    codes, known = values.coded(name, labels), values.coded(name, classes)
    strange = np.flatnonzero(~np.isin(codes, known))
    if len(strange):
        raise ArgumentError(name, labels[strange[0]], f"this label is not among classes={classes.tolist()}")
    found: Array = np.argsort(known)[np.searchsorted(np.sort(known), codes)]
    return found
