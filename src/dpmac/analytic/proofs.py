"""Which proof holds for which loss. A loss of your own registers its proof: ``@layer_sensitivity.register``."""

from __future__ import annotations

from functools import singledispatch

from torch import Tensor

from dpmac.analytic.cross_entropy import sigmoid_cross_entropy, softmax_cross_entropy
from dpmac.analytic.sensitivity import Sensitivity
from dpmac.analytic.squared_error import squared_error
from dpmac.checks import ArgumentError
from dpmac.nets.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError


@singledispatch
def layer_sensitivity(loss: object, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:  # noqa: ARG001
    """The tightest of the proven bounds for a dense layer of this loss, for each of a, b and C.

    Targets must be what the loss supposes: norm <= T_z for squared error, in [0, 1] for the sigmoid's cross-entropy, a
    distribution for the softmax's.
    """
    fix = "no sensitivity is proven for it; use squared error or a cross-entropy, or register a proof of your own"
    raise ArgumentError("loss", loss, fix)


@layer_sensitivity.register
def _(loss: SquaredError, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:
    return squared_error(loss.activation, weight, bias, T_z)


@layer_sensitivity.register
def _(loss: SigmoidCrossEntropy, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:  # noqa: ARG001
    return sigmoid_cross_entropy(weight, bias, T_z)


@layer_sensitivity.register
def _(loss: SoftmaxCrossEntropy, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:  # noqa: ARG001
    return softmax_cross_entropy(weight, bias, T_z)
