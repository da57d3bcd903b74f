"""What is asked of a module: its outputs for a block of rows, and one loss for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dpmac.checks import ArgumentError
from dpmac.kernels.gathering import Columns

RowLoss = Callable[..., Tensor]  # of outputs and targets: one number for each row


@dataclass(frozen=True, eq=False)
class Task:
    """A module and a loss that gives one number a row.

    The columns of a table are the inputs, in order or, with ``names``, as keyword arguments, and then the targets.
    Without ``targets`` the module learns to give back its first input. Columns of floating-point numbers are converted
    to the module's precision; whole numbers (tokens, classes) and truth values (masks) stay as they are.

    With ``autocast`` (bfloat16) the module's own products are rounded to it, by torch's rules. That is a row's own
    affair: its gradients are converted to the module's precision, which is exact, before anything is measured or
    summed (K2).
    """

    module: nn.Module
    loss: RowLoss
    names: tuple[str, ...] | None = None
    targets: bool = True
    autocast: torch.dtype | None = None

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """What is trained, each tensor once, by its first name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    @property
    def dtype(self) -> torch.dtype:
        return dtype_of(self.module)

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    def losses(self, columns: Columns, others: Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of every row; with ``others`` in place of some parameters. Raises unless it is one number a row."""
        given = tuple(c.to(self.dtype) if c.dtype.is_floating_point else c for c in columns)
        inputs, targets = (given[:-1], given[-1]) if self.targets else (given, given[0])
        arguments: tuple[Any, ...] = inputs
        named: dict[str, Tensor] = {}
        if self.names is not None:
            arguments, named = (), dict(zip(self.names, inputs, strict=True))
        with self._precision():
            if others is None:
                outputs = self.module(*arguments, **named)
            else:
                outputs = functional_call(self.module, dict(others), arguments, named, tie_weights=True)
            losses = self.loss(outputs, targets)
        rows = columns[0].shape[0]
        if not isinstance(losses, Tensor) or tuple(losses.shape) != (rows,):
            what = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
            fix = (
                f"it must give one number for each row, shape ({rows},): use reduction='none', and where a row has "
                "several numbers, average them over all dimensions but the first"
            )
            raise ArgumentError("loss", f"{what} for {rows} rows", fix)
        return losses.to(self.dtype)

    def _precision(self) -> AbstractContextManager[object]:
        if self.autocast is None:
            return nullcontext()
        # without a cache of converted weights: in a recorded step it would hold memory of the graph
        return torch.autocast(self.device.type, self.autocast, cache_enabled=False)


def device_of(network: nn.Module) -> torch.device:
    """Where a model's numbers are."""
    return next((p.device for p in network.parameters()), torch.device("cpu"))


def dtype_of(network: nn.Module) -> torch.dtype:
    """The precision of a model's trained numbers."""
    return next(p.dtype for p in network.parameters() if p.requires_grad)


@contextmanager
def differentiating() -> Iterator[None]:
    """Gradients are on inside: a release turns them off around its queries."""
    with torch.enable_grad():
        yield
