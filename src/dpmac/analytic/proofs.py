"""Which proof holds for which loss. A loss of your own registers its proof: ``@layer_sensitivity.register``."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import NamedTuple

import torch
from torch import Tensor

from dpmac.analytic.cross_entropy import sigmoid_cross_entropy, softmax_cross_entropy
from dpmac.analytic.sensitivity import Sensitivity, reach_of
from dpmac.analytic.squared_error import squared_error
from dpmac.checks import ArgumentError
from dpmac.nets.activations import ACTIVATIONS
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
    """The last answers are kept: a step asks once for its query and again for every block of rows, of equal weights.

    Kept by value, so that weights which have moved are never taken for the old ones, and only for the package's own
    activations: a user's function may change without our noticing.
    """
    if ACTIVATIONS.get(loss.activation.name) != loss.activation:
        return squared_error(loss.activation, weight, bias, T_z)
    reach_of(weight, bias, T_z)  # refuses what is no layer
    return _squared_error(loss.activation.name, _Numbers.of(weight), None if bias is None else _Numbers.of(bias), T_z)


class _Numbers(NamedTuple):
    """The content of a tensor: equal if and only if precision, shape and every bit are."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, tensor: Tensor) -> _Numbers:
        plain = tensor.detach().cpu().contiguous()
        return cls(plain.dtype, tuple(plain.shape), plain.view(torch.uint8).numpy().tobytes())

    def tensor(self) -> Tensor:
        return torch.frombuffer(bytearray(self.content), dtype=self.dtype).reshape(self.shape)


@lru_cache(maxsize=32)
def _squared_error(activation: str, weight: _Numbers, bias: _Numbers | None, T_z: float) -> Sensitivity:
    return squared_error(ACTIVATIONS[activation], weight.tensor(), None if bias is None else bias.tensor(), T_z)


@layer_sensitivity.register
def _(loss: SigmoidCrossEntropy, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:  # noqa: ARG001
    return sigmoid_cross_entropy(weight, bias, T_z)


@layer_sensitivity.register
def _(loss: SoftmaxCrossEntropy, weight: Tensor, bias: Tensor | None, T_z: float) -> Sensitivity:  # noqa: ARG001
    return softmax_cross_entropy(weight, bias, T_z)
