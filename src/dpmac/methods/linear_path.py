"""Autoencoders that start as the linear one of a released PCA. Post-processing: it costs no privacy.

The best linear autoencoder is a projection on principal components, and one DP-PCA release gives it at a small price.
A deep network that starts there has only the rest to learn: its first k units of every hidden layer carry the k codes,
each at a point where its activation is (nearly) a straight line, and the last layer decodes them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.methods.pca import ReleasedPCA
from dpmac.nets.activations import Activation
from dpmac.nets.layers import Dense, WeightLayer
from dpmac.nets.network import DenseNetwork, Network
from dpmac.privacy import origin_of
from dpmac.randomness import SeededNoise


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
    encoder, decoder = network.weight_layers
    encoder.write(torch.cat([pca.components, -(pca.components @ pca.centre)[:, None]], dim=1))
    decoder.write(torch.cat([pca.components.T, pca.centre[:, None]], dim=1))
    network.origin = pca.origin
    return network


def follow_linear_path(network: Network, pca: ReleasedPCA, *, gain: float = 1.0, bound: float | None = None) -> Network:
    """A copy of the autoencoder ``network`` that starts by computing the projection of ``pca``.

    The first k units of every hidden layer carry the codes V (x - centre). All other units keep their random incoming
    weights, but start with no influence: their weights into carried units and into the outputs are zero, so they
    change nothing at first and have a gradient from the first step on. What they see of carried units is put back
    on the codes' own scale, about 0, so that they start neither saturated nor constant.

    ``bound`` is a public bound on every code, that is on ||x - centre||: by default ``pca.radius``, the ball of rows
    that the components were made for. Give it where the radius was chosen to clip (or normalise) most rows: codes
    beyond the bound are bent, or cut off by relu. Within it, identity, relu and elu layers are exact (to rounding);
    tanh and sigmoid layers lose a fraction of about (gain * code / bound)^2 / 75 each, and softplus and gelu layers
    about 1 % at most (see ``Activation.working_point``). ``gain`` multiplies the range in which units work: smaller is
    straighter, larger gives the next layers a louder signal to learn from.

    Every hidden layer must be dense and needs at least k units, and inputs and outputs must be d wide.
    """
    _check(network, pca, gain, bound)
    limit = pca.radius
    if bound is not None:
        limit = float(bound)
    result = copy.deepcopy(network)
    components, centre = pca.components.to(result.device), pca.centre.to(result.device)
    before: Carried | None = None
    with torch.no_grad():
        for stage in result.stages[:-1]:
            layer, act = stage.layer, stage.activation
            shift, slope = _working(act, gain)
            read, offset = _reader(layer, before, components, centre)
            layer.weight[: len(read)] = (slope / limit * read).to(layer.weight)
            layer.bias[: len(read)] = (shift + slope / limit * offset).to(layer.bias)
            _let_others_see(layer, before, len(read))
            before = _carried(act, shift, slope, limit)
        last = result.weight_layers[-1]
        read, offset = _reader(last, before, components, centre)
        last.weight.copy_(components.T @ read)
        last.bias.copy_(centre + components.T @ offset)
    result.origin = origin_of(network, pca)
    return result


def _working(act: Activation, gain: float) -> tuple[float, float]:
    """Shift and gain of the pre-activations."""
    point = act.working_point
    assert point is not None  # _check has looked
    slope = point.gain * gain
    shift = 0.0
    if point.margin is not None:  # a small gain comes no nearer to 0
        shift = point.margin + max(slope, point.gain)
    return shift, slope


def _carried(act: Activation, shift: float, slope: float, bound: float) -> Carried:
    """What the activation makes of ``shift + slope * code / bound``, to first order."""
    at = torch.tensor(shift, dtype=torch.float64)
    return Carried(float(act.f(at)), slope * float(act.df(at)), bound)


def _reader(layer: WeightLayer, before: Carried | None, components: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """The affine map (weights (k, d_in), offset (k)) from the layer's inputs to the codes, in double precision."""
    if before is None:
        return components, -components @ centre
    k = len(components)
    weights = components.new_zeros(k, layer.matrix_shape[1] - 1)  # no weight on the units that carry nothing
    weights[:, :k] = before.unit * torch.eye(k, dtype=weights.dtype, device=weights.device)
    return weights, weights.new_full((k,), -before.unit * before.level)


def _let_others_see(layer: WeightLayer, before: Carried | None, k: int) -> None:
    """Put what the other units see of carried ones on the scale of the codes, about 0."""
    if before is not None:
        layer.weight[k:, :k] *= before.unit
        layer.bias[k:] -= before.level * layer.weight[k:, :k].sum(dim=1)


def _check(network: Network, pca: ReleasedPCA, gain: float, bound: float | None) -> None:
    k, d = pca.components.shape
    if (network.sizes[0], network.sizes[-1]) != (d, d):
        raise ArgumentError("network", network.sizes, f"give an autoencoder of {d} inputs and {d} outputs")
    for stage in network.stages:
        if not isinstance(stage.layer, Dense) or stage.carriers:
            raise ArgumentError(stage.name, stage.layer.kind, "only dense layers can carry codes: give a DenseNetwork")
    for stage in network.stages[:-1]:
        if stage.units < k:
            fix = f"{stage.name} has to carry {k} codes: give it at least {k} units, or the PCA fewer components"
            raise ArgumentError(f"width of {stage.name}", stage.units, fix)
        if stage.activation.working_point is None:
            fix = "it has no working point: give it one (Activation.working_point), or use one of ours"
            raise ArgumentError("activation", stage.activation.name, fix)
    number("gain", gain, "give a finite number above 0; 1 is usual", low=1e-6, high=1e6)
    if bound is not None:
        number("bound", bound, "give a public number above 0, or None for the PCA's radius", low=1e-30, high=1e30)
