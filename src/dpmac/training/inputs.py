"""Checks on rows, made before anything is spent."""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.losses import Loss
from dpmac.nets.network import DenseNetwork


def check_rows(x: Tensor, y: Tensor, network: DenseNetwork, loss: Loss) -> None:
    """Raise :class:`ArgumentError` unless ``x`` and ``y`` are rows that ``network`` and ``loss`` can train on."""
    for name, rows, width in (("x", x, network.sizes[0]), ("y", y, network.sizes[-1])):
        if not isinstance(rows, Tensor) or not rows.is_floating_point():
            kind = getattr(rows, "dtype", type(rows).__name__)
            raise ArgumentError(name, kind, "give a floating-point tensor, one row per example")
        if rows.dim() != 2 or rows.shape[1] != width:
            raise ArgumentError(name, f"shape {tuple(rows.shape)}", f"the network needs shape (n, {width})")
        if rows.dtype != network.linears[0].weight.dtype:
            raise ArgumentError(
                name, rows.dtype, f"the weights are {network.linears[0].weight.dtype}: convert the rows"
            )
        check_finite(name, rows)
    if len(x) != len(y):
        raise ArgumentError("y", f"{len(y)} rows", f"x has {len(x)}: give one target per example")
    if loss.name in ("sigmoid", "softmax") and bool(((y < 0) | (y > 1)).any()):
        raise ArgumentError(
            "y", "entries outside [0, 1]", f"the {loss.name} loss needs targets in [0, 1]: one-hot labels"
        )
    if loss.name == "softmax" and bool(((y.double().sum(dim=1) - 1).abs() > 1e-5).any()):
        raise ArgumentError("y", "rows that do not sum to 1", "the softmax loss needs a distribution: one-hot labels")


def check_finite(name: str, rows: Tensor) -> None:
    """Refuse NaN and infinity, naming the first place."""
    bad = torch.nonzero(~torch.isfinite(rows))
    if len(bad):
        row, column = (int(i) for i in bad[0][:2])
        value = float(rows[row, column])
        fix = f"row {row}, column {column} is not finite: impute or drop such values"
        raise ArgumentError(name, value, fix)
