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
class WorkingPoint:
    """Where an activation is (nearly) a straight line: pre-activations ``shift + gain * code`` for codes in [-1, 1].

    A one-sided activation is straight far enough to the right: ``margin`` is how far its leftmost pre-activation
    stays from 0, at least. The others (None) are straightest at 0, over a range that is small against 1.
    """

    gain: float
    margin: float | None


@dataclass(frozen=True)
class GlobalSups:
    """Proven sups over *all* u of |p|, r, |s|, |phi|, |t| and |f''|, the functions of :mod:`dpmac.analytic.cells`."""

    p: float
    r: float
    s: float
    phi: float
    t: float
    d2f: float


@dataclass(frozen=True)
class InPlace:
    """Kernels of an activation whose f' is a function of f, so that u need not be kept; they write where they are told.

    ``value(u, out)`` is f(u), and ``back(slopes, value, out)`` slopes f'(u); ``out`` may be what is read.
    """

    value: Callable[[Tensor, Tensor], Tensor]
    back: Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """An element-wise function with two derivatives and the torch module that computes it.

    All that the package knows of an activation is a field here, so one of your own is as good as ours: pass it where a
    name is taken. It is copied and pickled as any frozen dataclass is (its functions must then be importable), and
    never looked up by its name.

    ``slope_sup`` is the supremum of |f'| over all numbers. The rest may be left out, and what needs it says so:
    ``third(near, u)`` bounds |f'''| on a cell around u whose end nearer to 0 is at distance ``near`` (certified sups;
    as sensitivities of :mod:`dpmac.analytic` rest on it, it is held against differences of f, f' and f'' on a grid);
    ``straight`` says that f(u) = f'(u) u with f' in [0, 1] and f'' = 0 everywhere; ``sups`` are sups over all u;
    ``working_point`` is where it can carry a code through (:mod:`dpmac.methods.linear_path`); ``quick_back(slopes, u)``
    is slopes f'(u) in one go; ``in_place`` does without new memory.
    """

    name: str
    f: Elementwise
    df: Elementwise
    d2f: Elementwise
    module: Callable[[], nn.Module]
    slope_sup: float = 1.0
    third: Callable[[Tensor, Tensor], Tensor] | None = None
    straight: bool = False
    sups: GlobalSups | None = None
    working_point: WorkingPoint | None = None
    quick_back: Callable[[Tensor, Tensor], Tensor] | None = None
    in_place: InPlace | None = None

    def __post_init__(self) -> None:
        if self.third is not None:
            _check_by_differences(self)

    def back(self, slopes: Tensor, u: Tensor) -> Tensor:
        """Slopes in f(u) carried back to u: slopes f'(u)."""
        if self.quick_back is None:
            return slopes * self.df(u)
        return self.quick_back(slopes, u)

    def __repr__(self) -> str:
        return f"Activation({self.name})"


def _check_by_differences(act: Activation) -> None:
    """Raise where f', f'', ``slope_sup`` or ``third`` cannot be what they are said to be: no proof, but few lies pass.

    By the mean value theorem a difference of f over its distance is f' somewhere between, and so on; cells have an edge
    at 0, where f' or f'' may jump.
    """
    edges = torch.cat([torch.linspace(0, 4, 401), torch.logspace(0.61, 2.5, 150)]).double()
    for sign in (1.0, -1.0):
        low, high = edges[:-1], edges[1:]
        u = sign * torch.stack([low + (high - low) * part for part in (0.001, 0.25, 0.5, 0.75, 0.999)])
        f, df, d2f, distance = act.f(u), act.df(u), act.d2f(u), u[1:] - u[:-1]
        assert act.third is not None
        most = act.third(low, sign * 0.5 * (low + high))
        bend, rounding = d2f.abs().amax(dim=0) + most * (high - low), 1e-9 * (1 + f.abs().amax(dim=0))
        wrong = {
            "third": (d2f[1:] - d2f[:-1]).abs() > most * distance.abs() * (1 + 1e-6) + 1e-12,
            "slope_sup": df.abs() > act.slope_sup * (1 + 1e-6),
            "d2f": ((df[1:] - df[:-1]) / distance - d2f[1:]).abs() > most * distance.abs() * (1 + 1e-6) + 1e-9,
            "df": ((f[1:] - f[:-1]) / distance - df[1:]).abs() > bend * distance.abs() + rounding,
        }
        for name, found in wrong.items():
            if bool(found.any()):
                at = float(u[: len(found)][found][0])
                raise ArgumentError(
                    name, act.name, f"it cannot be right near {at:.4g}, by differences of f, f' and f''"
                )


def _identity(u: Tensor) -> Tensor:
    return u


def _relu_df(u: Tensor) -> Tensor:
    return (u > 0).to(u.dtype)


def _relu_back(slopes: Tensor, u: Tensor) -> Tensor:
    carried: Tensor = torch.ops.aten.threshold_backward(slopes, u, 0)
    return carried


def _relu_to(u: Tensor, out: Tensor) -> Tensor:  # functions with names, so that an activation can be pickled
    return torch.clamp_min(u, 0, out=out)


def _tanh_to(u: Tensor, out: Tensor) -> Tensor:
    return torch.tanh(u, out=out)


def _sigmoid_to(u: Tensor, out: Tensor) -> Tensor:
    return torch.sigmoid(u, out=out)


def _relu_onto(slopes: Tensor, value: Tensor, out: Tensor) -> Tensor:
    carried: Tensor = torch.ops.aten.threshold_backward.grad_input(slopes, value, 0, grad_input=out)
    return carried


def _tanh_onto(slopes: Tensor, value: Tensor, out: Tensor) -> Tensor:
    carried: Tensor = torch.ops.aten.tanh_backward.grad_input(slopes, value, grad_input=out)
    return carried


def _sigmoid_onto(slopes: Tensor, value: Tensor, out: Tensor) -> Tensor:
    carried: Tensor = torch.ops.aten.sigmoid_backward.grad_input(slopes, value, grad_input=out)
    return carried


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


# --- bounds of |f'''| on the cell around u whose end nearer to 0 is at distance ``near``; they fall as |u| grows ---


def _third_logistic_slope(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Softplus: f''' = s'(1 - 2s), with s' <= e^-|u| and |1 - 2s| <= 1; its largest value is 1/(6 sqrt 3)."""
    return torch.clamp(torch.exp(-near), max=1 / (6 * math.sqrt(3)))


def _third_sigmoid(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Sigmoid: f''' = y (1 - 6y) with y = s' in (0, 1/4], so |f'''| <= min(y, 1/8), and y <= e^-|u|."""
    return torch.clamp(torch.exp(-near), max=0.125)


def _third_tanh(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """Tanh: f''' = -2 y (3y - 2) with y = sech^2 in (0, 1], so |f'''| <= min(4y, 2), and y <= 4 e^-2|u|."""
    return torch.clamp(16 * torch.exp(-2 * near), max=2.0)


def _third_gelu(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - even
    """GELU: f''' = (u^3 - 4u) n(u), n the normal density; |f'''| peaks where u^4 - 7u^2 + 4 = 0.

    The peaks are 0.77877 at |u| = 0.79229 and 0.09874 at 2.52434, beyond which it falls. Between them it is 0 at 2.
    """
    density = torch.exp(-0.5 * near.square()) / math.sqrt(2 * math.pi)
    here = (near.pow(3) - 4 * near).abs() * density
    return torch.where(near < 0.7923, 0.7789, torch.where(near < 2.5244, torch.clamp(here, min=0.09876), here))


def _third_elu(near: Tensor, u: Tensor) -> Tensor:
    """ELU: f''' = e^u below 0 and 0 above. f'' jumps at 0, which is an edge between cells."""
    return torch.where(u < 0, torch.exp(-near), 0.0)


def _third_none(near: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001 - piecewise linear
    return torch.zeros_like(near)


# f' = sigma, and f''' has the sign of -u. So p' = f'''u^2/2 makes p largest at 0, where it is ln 2, and it falls to 0
# on either side. phi' = -u f''' >= 0: phi grows from 0 to 1. f'' <= 1/4. t' = sigma' (3 sigma - f (2 sigma - 1)) is
# positive up to the one u* = 3.0977 at which f = 3 sigma / (2 sigma - 1) (f grows, the right side falls) and negative
# after it; t, r >= 0 and r' = u^2 t', so both are largest there: t <= 1.045334, r <= 1.277894. s' = -u t' makes s grow
# from 0 to ln(2)/2 at 0, fall to -0.2321 at u*, and grow to 0: |s| <= ln(2)/2.
SOFTPLUS_SUPS = GlobalSups(math.log(2), 1.277894, math.log(2) / 2, 1.0, 1.045334, 0.25)

# Relative error of one layer at its working point and a code of 1: tanh gain^2 / 3, sigmoid gain^2 / 12, softplus
# 1.3 %, gelu 0.4 %; identity, relu and elu are exact.
IDENTITY = Activation(
    "identity", _identity, torch.ones_like, torch.zeros_like, nn.Identity,
    third=_third_none, straight=True, working_point=WorkingPoint(1.0, None),
)  # fmt: skip
RELU = Activation(  # f'(0) = 0, as in torch; f'' = 0
    "relu", torch.relu, _relu_df, torch.zeros_like, nn.ReLU,
    third=_third_none, straight=True, working_point=WorkingPoint(1.0, 0.0),
    quick_back=_relu_back, in_place=InPlace(_relu_to, _relu_onto),
)  # fmt: skip
SOFTPLUS = Activation(
    "softplus", _softplus, torch.sigmoid, _sigmoid_df, nn.Softplus,
    third=_third_logistic_slope, sups=SOFTPLUS_SUPS, working_point=WorkingPoint(1.0, 3.0),
)  # fmt: skip
TANH = Activation(
    "tanh", torch.tanh, _tanh_df, _tanh_d2f, nn.Tanh,
    third=_third_tanh, working_point=WorkingPoint(0.2, None),
    in_place=InPlace(_tanh_to, _tanh_onto),
)  # fmt: skip
SIGMOID = Activation(
    "sigmoid", torch.sigmoid, _sigmoid_df, _sigmoid_d2f, nn.Sigmoid, 0.25,
    third=_third_sigmoid, working_point=WorkingPoint(0.4, None),
    in_place=InPlace(_sigmoid_to, _sigmoid_onto),
)  # fmt: skip
ELU = Activation("elu", F.elu, _elu_df, _elu_d2f, nn.ELU, third=_third_elu, working_point=WorkingPoint(1.0, 0.0))
GELU = Activation(  # |f'| is largest at sqrt 2: 1.12890..
    "gelu", F.gelu, _gelu_df, _gelu_d2f, nn.GELU, 1.1290, third=_third_gelu, working_point=WorkingPoint(1.0, 3.0)
)

ACTIVATIONS = {a.name: a for a in (IDENTITY, RELU, SOFTPLUS, TANH, SIGMOID, ELU, GELU)}


def activation(name: str | Activation) -> Activation:
    """The activation of that name (or the one given, whatever it is called)."""
    if isinstance(name, Activation):
        return name
    if name not in ACTIVATIONS:
        raise ArgumentError("activation", name, f"choose one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
