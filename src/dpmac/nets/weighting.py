"""Public weights of the classes: a loss that is itself a loss, with every example's terms times its class's weight."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.nets.hessian import HessianRoot
from dpmac.nets.losses import Loss


@dataclass(frozen=True)
class WeightedClasses:
    """A loss of one-hot targets, times the public weight of each example's own class: w_n = sum_h weights_h y_nh.

    Slopes and curvatures are w_n times the inner loss's, before any bound sees them, so a bound holds as ever; what it
    clips, it clips of the weighted slope. A row without a label (a blank place) weighs nothing.
    """

    inner: Loss
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"weighted {self.inner.name}"

    @property
    def weight(self) -> float:
        return self.inner.weight

    @property
    def curvature_bound(self) -> float:
        return max(self.weights) * self.inner.curvature_bound

    @property
    def free_targets(self) -> bool:
        return self.inner.free_targets

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        return self._of(target).squeeze(1) * self.inner.value(u, target)

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        return self._of(target) * self.inner.slope(u, target)

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:
        return self._of(target) * self.inner.curvature(u, target)

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        return self._of(target).unsqueeze(2) * self.inner.hessian(u, target)

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:
        root = self.inner.hessian_root(u, target)
        return HessianRoot(self._of(target).clamp(min=0.0).sqrt() * root.scale, root.unit)

    def predict(self, u: Tensor) -> Tensor:
        return self.inner.predict(u)

    def check_targets(self, y: Tensor) -> None:
        self.inner.check_targets(y)

    def _of(self, target: Tensor) -> Tensor:
        """The weight of each example, (rows, 1)."""
        return (target * _tensor(self.weights, target.dtype, target.device)).sum(dim=1, keepdim=True)


@functools.cache  # never let go of: a graph reads its memory
def _tensor(weights: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Brought to a device once: a CUDA graph cannot fetch it from the CPU at every step."""
    return torch.tensor(weights, dtype=dtype, device=device)
