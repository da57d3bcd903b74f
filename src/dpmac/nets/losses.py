"""Losses of a layer as functions of its pre-activation u, with first and second derivatives in u.

Every layer has one: a hidden layer's is the squared distance between its coordinates and its activation, the output
layer's is the task's. All return one value, or one row, per example; nothing here adds up examples. ``weight`` is the
factor of the loss in the training objective (the paper's 1/2 for squared error, 1 for cross-entropy); slopes and
curvatures are without it, as the paper's T_n is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.nets.activations import IDENTITY, Activation
from dpmac.nets.hessian import HessianRoot


class Loss(Protocol):
    """A loss g(u; target) per example. ``u`` and ``target`` are (rows, units), or (rows, ...) in a hidden layer."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def curvature_bound(self) -> float:
        """A constant c with Gauss-Newton Hessian <= c I, whatever u and target are."""

    @property
    def free_targets(self) -> bool:
        """True if a target may be any vector, so that an analytic bound must project it; False for class targets."""

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        """g, one number per example."""

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        """dg/du, of the shape of u."""

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:
        """d2g/du_h^2, of the shape of u: the diagonal of the Hessian in u."""

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        """d2g/du du^T, (rows, units, units). For oracles and small layers."""

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:
        """A with A A^T = the *weighted* Hessian in u (its Gauss-Newton part for squared error)."""

    def predict(self, u: Tensor) -> Tensor:
        """What the network outputs at pre-activation u: a reconstruction, or class probabilities."""

    def check_targets(self, y: Tensor) -> None:
        """Raise :class:`ArgumentError` for targets (finite already) that the loss is not made for."""


@dataclass(frozen=True)
class SquaredError:
    """g = ||target - f(u)||^2, with weight 1/2 in the objective."""

    activation: Activation = IDENTITY
    weight: float = 0.5
    name: str = "squared"
    free_targets: bool = True

    @property
    def curvature_bound(self) -> float:
        return 2.0 * self.activation.slope_sup**2

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        return (target - self.activation.f(u)).square().flatten(1).sum(dim=1)

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        away = (self.activation.f(u) - target).mul_(2)
        if self.activation == IDENTITY:
            return away
        return self.activation.back(away, u)

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:
        f, df, d2f = self.activation.f(u), self.activation.df(u), self.activation.d2f(u)
        return 2 * (df.square() + (f - target) * d2f)

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        return torch.diag_embed(self.curvature(u, target))

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:  # noqa: ARG002 - the Gauss-Newton part
        return HessianRoot(math.sqrt(2 * self.weight) * self.activation.df(u).abs())

    def predict(self, u: Tensor) -> Tensor:
        return self.activation.f(u)

    def check_targets(self, y: Tensor) -> None:
        """Any finite target will do."""


@dataclass(frozen=True)
class SigmoidCrossEntropy:
    """The paper's output loss: one logistic problem per class, g = sum_h softplus(u_h) - y_h u_h, y in [0, 1]."""

    weight: float = 1.0
    name: str = "sigmoid"
    curvature_bound: float = 0.25
    free_targets: bool = False

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        return (torch.logaddexp(u, torch.zeros_like(u)) - target * u).sum(dim=1)

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        return torch.sigmoid(u) - target

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002 - linear in the target
        p = torch.sigmoid(u)
        return p * (1 - p)

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        return torch.diag_embed(self.curvature(u, target))

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:
        return HessianRoot((self.weight * self.curvature(u, target)).sqrt())

    def predict(self, u: Tensor) -> Tensor:
        """Class probabilities given that exactly one class is on: proportional to the odds e^u, so a softmax of u."""
        return torch.softmax(u, dim=1)

    def check_targets(self, y: Tensor) -> None:
        _check_unit_interval(y, self.name)


@dataclass(frozen=True)
class MultiLabelCrossEntropy:
    """Any number of labels at once: g = sum_h w_h (softplus(u_h) - y_h u_h), y in [0, 1], a logistic problem per label.

    ``on`` and ``off`` are public weights of every label where it is on and where it is off (None: all 1), so that
    w_h = off_h + (on_h - off_h) y_h. They weigh an example's own terms: nothing is normalised over examples.
    """

    on: tuple[float, ...] | None = None
    off: tuple[float, ...] | None = None
    weight: float = 1.0
    name: str = "multilabel"
    free_targets: bool = False

    @property
    def curvature_bound(self) -> float:
        return 0.25 * max((*(self.on or (1.0,)), *(self.off or (1.0,))))

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        return (self._weights(target) * (torch.logaddexp(u, torch.zeros_like(u)) - target * u)).sum(dim=1)

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        return self._weights(target) * (torch.sigmoid(u) - target)

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:
        p = torch.sigmoid(u)
        return self._weights(target) * p * (1 - p)

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        return torch.diag_embed(self.curvature(u, target))

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:
        return HessianRoot((self.weight * self.curvature(u, target)).clamp(min=0.0).sqrt())

    def predict(self, u: Tensor) -> Tensor:
        """The probability of every label, whatever the others are."""
        return torch.sigmoid(u)

    def check_targets(self, y: Tensor) -> None:
        _check_unit_interval(y, self.name)

    def _weights(self, target: Tensor) -> Tensor:
        if self.on is None and self.off is None:
            return torch.ones_like(target)
        on, off = (target.new_ones(target.shape[1]) if w is None else target.new_tensor(w) for w in (self.on, self.off))
        return off + (on - off) * target


@dataclass(frozen=True)
class SoftmaxCrossEntropy:
    """g = logsumexp(u) sum_h y_h - sum_h y_h u_h, with y a distribution over the classes (one-hot for labels)."""

    weight: float = 1.0
    name: str = "softmax"
    curvature_bound: float = 0.5  # diag(p) - p p^T <= I/2 (Boehning), for targets that sum to one
    free_targets: bool = False

    def value(self, u: Tensor, target: Tensor) -> Tensor:
        return -(target * F.log_softmax(u, dim=1)).sum(dim=1)

    def slope(self, u: Tensor, target: Tensor) -> Tensor:
        return quick_softmax(u).mul_(target.sum(dim=1, keepdim=True)).sub_(target)

    def curvature(self, u: Tensor, target: Tensor) -> Tensor:
        p = torch.softmax(u, dim=1)
        return p * (1 - p) * target.sum(dim=1, keepdim=True)

    def hessian(self, u: Tensor, target: Tensor) -> Tensor:
        p = torch.softmax(u, dim=1)
        full = torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)
        return full * target.sum(dim=1).reshape(-1, 1, 1)

    def hessian_root(self, u: Tensor, target: Tensor) -> HessianRoot:
        unit = torch.softmax(u, dim=1).sqrt()
        mass = self.weight * target.sum(dim=1, keepdim=True)  # 1 for a label; the loss takes any y >= 0
        return HessianRoot(unit * mass.clamp(min=0.0).sqrt(), unit)

    def predict(self, u: Tensor) -> Tensor:
        return torch.softmax(u, dim=1)

    def check_targets(self, y: Tensor) -> None:
        _check_unit_interval(y, self.name)
        if bool(((y.double().sum(dim=1) - 1).abs() > 1e-5).any()):
            raise ArgumentError(
                "y", "rows that do not sum to 1", "the softmax loss needs a distribution: one-hot labels"
            )


def quick_softmax(u: Tensor) -> Tensor:
    """A softmax of every row. For a few classes on a CPU column by column, which is vectorised over rows."""
    if u.device.type != "cpu" or u.shape[1] > 32:
        return torch.softmax(u, dim=1)
    return torch.softmax(u.T.contiguous(), dim=0).T.contiguous()


def _check_unit_interval(y: Tensor, name: str) -> None:
    if bool(((y < 0) | (y > 1)).any()):
        fix = f"the {name} loss needs targets in [0, 1]: one-hot labels"
        raise ArgumentError("y", "entries outside [0, 1]", fix)


LOSSES: dict[str, Loss] = {
    "squared": SquaredError(),
    "sigmoid": SigmoidCrossEntropy(),
    "softmax": SoftmaxCrossEntropy(),
    "multilabel": MultiLabelCrossEntropy(),
}


def loss(name: str | Loss) -> Loss:
    """The loss of that name (or the one given)."""
    if not isinstance(name, str):
        return name
    if name not in LOSSES:
        raise ArgumentError("loss", name, f"choose one of {', '.join(LOSSES)}")
    return LOSSES[name]
