"""What a Z-step is: it finds every example's auxiliary coordinates, with the weights fixed.

The guarantee needs each example's coordinates to be a function of that example and of released weights alone. So
losses are sums over units and never means over the batch (a mean would reach an optimiser's epsilon), there are no
batch statistics, no batch-level stopping rule, and the optimisers allowed here treat every number by itself.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac.coordinates import Coordinates
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network

# Optimisers whose update of a number depends on that number's own gradients alone. Others (LBFGS, Adafactor, Muon)
# mix numbers, and so would mix examples.
ELEMENTWISE = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.SGD,
)


class ZStep(Protocol):
    """Finds coordinates for a micro-batch, row by row."""

    def solve(self, network: Network, loss: Loss, x: Tensor, y: Tensor) -> Coordinates:
        """Coordinates of each example. Row n depends on row n of ``x`` and ``y`` and on the weights, nothing else."""


def check_descent(steps: int, lr: float, mu: float, optimizer: type[torch.optim.Optimizer]) -> None:
    """The arguments of a Z-step that descends."""
    integer("steps", steps, "give a number of Z-steps, at least 1")
    number("lr", lr, "give a learning rate above 0", low=0.0, high=1e6, strict=True)
    number("mu", mu, "give a penalty above 0 (the paper takes 1)", low=0.0, high=1e12, strict=True)
    if optimizer not in ELEMENTWISE:
        fix = f"it could mix examples; choose one of {', '.join(o.__name__ for o in ELEMENTWISE)}"
        raise ArgumentError("optimizer", optimizer, fix)
