"""Tables as methods take them: checked before anything is spent, and private from then on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import Ball
from dpmac.privacy import PrivateRows

_AT_ONCE = 1 << 26  # numbers that are looked at together: what that takes is small beside any table


def private_table(name: str, rows: Tensor | PrivateRows) -> PrivateRows:
    """``rows`` as a private table; a tensor is looked over first."""
    if isinstance(rows, PrivateRows):
        return rows
    check_table(name, rows)
    return PrivateRows(rows)


def public_ball(centre: float | Tensor, radius: float | None, d: int, normalise: bool = False) -> Ball:
    """The ball about ``centre`` (a number, or one for each of ``d`` features); without a radius that of the cube."""
    middle = torch.as_tensor(centre, dtype=torch.float64)
    if middle.dim() > 1 or (middle.dim() == 1 and len(middle) != d):
        fix = f"give one number, or one for each of {d} features"
        given = f"shape {tuple(middle.shape)}"
        if middle.dim() == 1:
            given = f"{middle.numel()} numbers"
        raise ArgumentError("centre", given, fix)
    if radius is None:
        radius = math.sqrt(d)
    return Ball(middle.expand(d), float(radius), normalise)


def check_table(name: str, rows: Tensor, width: int | None = None) -> None:
    """Refuse what is not a finite floating-point table (of that width), before anything is spent."""
    check_floating(name, rows)
    if rows.dim() != 2 or rows.shape[1] != (width or rows.shape[1]) or rows.shape[1] == 0:
        needed = f"(n, {width or 'd'})"
        raise ArgumentError(name, f"shape {tuple(rows.shape)}", f"give one row per example: shape {needed}")
    check_finite(name, rows)


def check_floating(name: str, rows: Tensor) -> None:
    if not isinstance(rows, Tensor) or not rows.is_floating_point():
        kind = getattr(rows, "dtype", type(rows).__name__)
        raise ArgumentError(name, kind, "give a floating-point tensor, one row per example")


def check_finite(name: str, rows: Tensor) -> None:
    """Refuse NaN and infinity, naming the first place."""
    flat = rows.flatten(1)
    size = max(1, _AT_ONCE // max(1, flat.shape[1]))
    for first, block in enumerate(torch.split(flat, size)):
        if not bool(torch.isfinite(block).all()):
            row, column = (int(i) for i in torch.nonzero(~torch.isfinite(block))[0])
            fix = f"row {first * size + row}, column {column} is not finite: impute or drop such values"
            raise ArgumentError(name, float(block[row, column]), fix)
