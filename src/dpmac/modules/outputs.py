"""A module's outputs as an estimator wants them: one row of numbers for each row, and one loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.kernels.gathering import Columns
from dpmac.modules.rules import RULES
from dpmac.modules.taps import Watch
from dpmac.nets import Loss


def numbers_of(outputs: Any, units: int) -> Tensor:
    """The tensor (rows, units) that a module gives, itself or as ``.logits``; (rows,) will do for one unit."""
    found = outputs
    if not isinstance(outputs, Tensor):
        found = getattr(outputs, "logits", None)
    if not isinstance(found, Tensor):
        fix = "forward must give a tensor (rows, numbers), or an object that has it as .logits"
        raise ArgumentError("module", f"outputs of type {type(outputs).__name__}", fix)
    if found.dim() == 1 and units == 1:
        found = found.unsqueeze(1)
    if tuple(found.shape[1:]) != (units,):
        fix = f"forward must give shape (rows, {units}): one logit for each class, or one number of a regression"
        raise ArgumentError("module", f"outputs of shape {tuple(found.shape)}", fix)
    return found


@dataclass(frozen=True)
class OutputLoss:
    """One of our losses as a function of a module's outputs and targets (rows, units): one number for each row."""

    loss: Loss
    units: int

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:
        return self.loss.value(numbers_of(outputs, self.units), targets)


@dataclass(frozen=True, eq=False)
class RowOutputs:
    """The outputs (rows, units) of a module for blocks of inputs, by name where they have ``names``.

    With ``total`` it runs by the rules of a training: a token that no table has makes its row's numbers NaN, so that
    the row counts as blank, and does not stop a release.
    """

    module: nn.Module
    units: int
    names: tuple[str, ...] | None = None
    total: bool = True

    @torch.no_grad()
    def __call__(self, *columns: Tensor) -> Tensor:
        if not self.total:
            return self._plain(columns)
        with Watch(RULES, {}, columns[0].shape[0]):
            return self._plain(columns)

    def _plain(self, columns: Columns) -> Tensor:
        like = next((p for p in self.module.parameters() if p.dtype.is_floating_point), torch.zeros(()))
        given = [c.to(like.dtype) if c.dtype.is_floating_point else c for c in columns]
        if self.names is None:
            outputs = self.module(*given)
        else:
            outputs = self.module(**dict(zip(self.names, given, strict=True)))
        return numbers_of(outputs, self.units)
