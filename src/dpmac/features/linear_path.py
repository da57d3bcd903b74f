"""Autoencoders that start as the linear one of a released PCA. Post-processing: it costs no privacy.

The best linear autoencoder is a projection on principal components, and one DP-PCA release gives it at a small price.
A deep network that starts there has only the rest to learn: its first k units of every hidden layer carry the k codes,
each at a point where its activation is (nearly) a straight line, and the last layer decodes them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, number
from dpmac.features.pca import ReleasedPCA
from dpmac.nets.activations import Activation
from dpmac.nets.network import DenseNetwork
from dpmac.privacy.noise import SeededNoise


@dataclass(frozen=True)
class WorkingPoint:
    """Codes in [-1, 1] become pre-activations ``shift + gain * code``, with ``shift >= gain + margin`` if one-sided.

    A one-sided activation is straight far enough to the right: ``margin`` is how far its leftmost pre-activation
    stays from 0, at least. The others (None) are straightest at 0, over a range that is small against 1.
    """

    gain: float
    margin: float | None


# The relative error of one layer at a code of 1: tanh gain^2 / 3, sigmoid gain^2 / 12, softplus 1.3 %, gelu 0.4 %;
# identity, relu and elu are exact.
WORKING_POINTS = {
    "identity": WorkingPoint(1.0, None),
    "relu": WorkingPoint(1.0, 0.0),
    "elu": WorkingPoint(1.0, 0.0),
    "softplus": WorkingPoint(1.0, 3.0),
    "gelu": WorkingPoint(1.0, 3.0),
    "tanh": WorkingPoint(0.2, None),
    "sigmoid": WorkingPoint(0.4, None),
}


@dataclass(frozen=True)
class Carried:
    """How a layer's carried units hold the codes: value = ``level + slope * code / bound``, and back."""

    level: float
    slope: float
    bound: float

    @property
    def unit(self) -> float:
        """Codes, in the units of the input, per unit of value."""
        return self.bound / self.slope


def linear_autoencoder(pca: ReleasedPCA) -> DenseNetwork:
    """The network of sizes (d, k, d) without activations that computes the projection of ``pca``.

    x -> centre + V^T V (x - centre), V the components, on the original scale and for rows of any length: nothing is
    clipped. In single precision, as networks are; ``.double()`` it for more.
    """
    k, d = pca.components.shape
    network = DenseNetwork((d, k, d), "identity", source=SeededNoise(0))  # the draws are overwritten at once
    network.to(pca.components.device)
    encoder, decoder = network.linears
    with torch.no_grad():
        encoder.weight.copy_(pca.components)
        encoder.bias.copy_(-pca.components @ pca.centre)
        decoder.weight.copy_(pca.components.T)
        decoder.bias.copy_(pca.centre)
    return network


def follow_linear_path(
    network: DenseNetwork, pca: ReleasedPCA, *, gain: float = 1.0, bound: float | None = None
) -> DenseNetwork:
    """A copy of the autoencoder ``network`` that starts by computing the projection of ``pca``.

    The first k units of every hidden layer carry the codes V (x - centre). All other units keep their random incoming
    weights, but start with no influence: their weights into carried units and into the outputs are zero, so they
    change nothing at first and have a gradient from the first step on. What they see of carried units is put back
    on the codes' own scale, about 0, so that they start neither saturated nor constant.

    ``bound`` is a public bound on every code, that is on ||x - centre||: by default ``pca.radius``, the ball of rows
    that the components were made for. Give it where the radius was chosen to clip (or normalise) most rows: codes
    beyond the bound are bent, or cut off by relu. Within it, identity, relu and elu layers are exact (to rounding);
    tanh and sigmoid layers lose a fraction of about (gain * code / bound)^2 / 75 each, and softplus and gelu layers
    about 1 % at most (see :data:`WORKING_POINTS`). ``gain`` multiplies the range in which units work: smaller is
    straighter, larger gives the next layers a louder signal to learn from.

    Every hidden layer needs at least k units, and inputs and outputs must be d wide.
    """
    _check(network, pca, gain, bound)
    limit = pca.radius if bound is None else float(bound)
    result = copy.deepcopy(network)
    components, centre = pca.components.to(result.device), pca.centre.to(result.device)
    before: Carried | None = None
    with torch.no_grad():
        for layer, act in zip(result.linears[:-1], result.activations, strict=True):
            shift, slope = _working(act, gain)
            read, offset = _reader(layer, before, components, centre)
            layer.weight[: len(read)] = (slope / limit * read).to(layer.weight)
            layer.bias[: len(read)] = (shift + slope / limit * offset).to(layer.bias)
            _let_others_see(layer, before, len(read))
            before = _carried(act, shift, slope, limit)
        last = result.linears[-1]
        read, offset = _reader(last, before, components, centre)
        last.weight.copy_(components.T @ read)
        last.bias.copy_(centre + components.T @ offset)
    return result


def _working(act: Activation, gain: float) -> tuple[float, float]:
    """Shift and gain of the pre-activations."""
    point = WORKING_POINTS[act.name]
    slope = point.gain * gain
    shift = 0.0 if point.margin is None else point.margin + max(slope, point.gain)  # a small gain comes no nearer to 0
    return shift, slope


def _carried(act: Activation, shift: float, slope: float, bound: float) -> Carried:
    """What the activation makes of ``shift + slope * code / bound``, to first order."""
    at = torch.tensor(shift, dtype=torch.float64)
    return Carried(float(act.f(at)), slope * float(act.df(at)), bound)


def _reader(layer: nn.Linear, before: Carried | None, components: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """The affine map (weights (k, d_in), offset (k)) from the layer's inputs to the codes, in double precision."""
    if before is None:
        return components, -components @ centre
    k = len(components)
    weights = components.new_zeros(k, layer.in_features)  # no weight on the units that carry nothing
    weights[:, :k] = before.unit * torch.eye(k, dtype=weights.dtype, device=weights.device)
    return weights, weights.new_full((k,), -before.unit * before.level)


def _let_others_see(layer: nn.Linear, before: Carried | None, k: int) -> None:
    """Put what the other units see of carried ones on the scale of the codes, about 0."""
    if before is not None:
        layer.weight[k:, :k] *= before.unit
        layer.bias[k:] -= before.level * layer.weight[k:, :k].sum(dim=1)


def _check(network: DenseNetwork, pca: ReleasedPCA, gain: float, bound: float | None) -> None:
    k, d = pca.components.shape
    if (network.sizes[0], network.sizes[-1]) != (d, d):
        raise ArgumentError("network", network.sizes, f"give an autoencoder of {d} inputs and {d} outputs")
    for name, width in zip(network.layer_names[:-1], network.sizes[1:-1], strict=True):
        if width < k:
            fix = f"{name} has to carry {k} codes: give it at least {k} units, or the PCA fewer components"
            raise ArgumentError(f"width of {name}", width, fix)
    for act in network.activations:
        if act.name not in WORKING_POINTS:
            raise ArgumentError("activation", act.name, f"choose one of {', '.join(WORKING_POINTS)}")
    number("gain", gain, "give a finite number above 0; 1 is usual", low=1e-6, high=1e6)
    if bound is not None:
        number("bound", bound, "give a public number above 0, or None for the PCA's radius", low=1e-30, high=1e30)
