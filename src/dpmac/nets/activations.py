"""Activations with their first and second derivatives, element by element.

The expansion needs f, f' and f'' at the pre-activation; autograd is never used in training, only in the tests that
hold these closed forms against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError

Elementwise = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """An element-wise function with two derivatives and the torch module that computes it.

    ``slope_sup`` is the supremum of |f'| over all numbers.
    """

    name: str
    f: Elementwise
    df: Elementwise
    d2f: Elementwise
    module: Callable[[], nn.Module]
    slope_sup: float = 1.0

    def __repr__(self) -> str:
        return f"Activation({self.name})"

    def __reduce__(self) -> tuple[Callable[[str], Activation], tuple[str]]:
        return activation, (self.name,)  # pickled by name: the functions themselves need not travel


def _relu_df(u: Tensor) -> Tensor:
    return (u > 0).to(u.dtype)


def _sigmoid_df(u: Tensor) -> Tensor:
    s = torch.sigmoid(u)
    return s * (1 - s)


def _sigmoid_d2f(u: Tensor) -> Tensor:
    s = torch.sigmoid(u)
    return s * (1 - s) * (1 - 2 * s)


def _tanh_df(u: Tensor) -> Tensor:
    return 1 - torch.tanh(u).square()


def _tanh_d2f(u: Tensor) -> Tensor:
    t = torch.tanh(u)
    return -2 * t * (1 - t.square())


def _elu_df(u: Tensor) -> Tensor:
    return torch.exp(torch.clamp(u, max=0))


def _elu_d2f(u: Tensor) -> Tensor:
    return torch.where(u > 0, torch.zeros_like(u), _elu_df(u))


def _normal_density(u: Tensor) -> Tensor:
    return torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)


def _gelu_df(u: Tensor) -> Tensor:
    below: Tensor = torch.special.ndtr(u)
    return below + u * _normal_density(u)


def _gelu_d2f(u: Tensor) -> Tensor:
    return (2 - u.square()) * _normal_density(u)


def _softplus(u: Tensor) -> Tensor:
    return torch.logaddexp(u, torch.zeros_like(u))  # F.softplus turns linear at 20; this is exact everywhere


IDENTITY = Activation("identity", lambda u: u, torch.ones_like, torch.zeros_like, nn.Identity)
RELU = Activation("relu", torch.relu, _relu_df, torch.zeros_like, nn.ReLU)  # f'(0) = 0, as in torch; f'' = 0
SOFTPLUS = Activation("softplus", _softplus, torch.sigmoid, _sigmoid_df, nn.Softplus)
TANH = Activation("tanh", torch.tanh, _tanh_df, _tanh_d2f, nn.Tanh)
SIGMOID = Activation("sigmoid", torch.sigmoid, _sigmoid_df, _sigmoid_d2f, nn.Sigmoid, 0.25)
ELU = Activation("elu", F.elu, _elu_df, _elu_d2f, nn.ELU)
GELU = Activation("gelu", F.gelu, _gelu_df, _gelu_d2f, nn.GELU, 1.1290)  # at sqrt 2: 1.12890..

ACTIVATIONS = {a.name: a for a in (IDENTITY, RELU, SOFTPLUS, TANH, SIGMOID, ELU, GELU)}


def activation(name: str | Activation) -> Activation:
    """The activation of that name (or the one given)."""
    if isinstance(name, Activation):
        return name
    if name not in ACTIVATIONS:
        raise ArgumentError("activation", name, f"choose one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
