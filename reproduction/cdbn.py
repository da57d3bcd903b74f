"""A convolutional deep belief network under the functional mechanism: DP-CDBN, with sensitivities that are proved.

    python -m reproduction.cdbn_table             # the runs and their table; results/cdbn.md has the argument

After Phan, Wu and Dou (2017): the objectives of the layers become polynomials in the weights, Laplace noise is added to
their coefficients, and what is minimised is the noisy polynomial, as often as one likes. Here *every* number that
depends on the rows is such a coefficient, each is released once, and the sensitivities hold for all rows.

**A layer** is a convolutional restricted Boltzmann machine with binary hidden units: the mean log-likelihood of the
rows is (sum over units of softplus(u), u = w * patch + b) + (visible biases times pixels) - log Z(weights). Softplus
becomes its Chebyshev expansion of degree 2 on [-R, R], and the constraint |w|_1 + |b| <= R keeps u in there for every
row. Rows enter by their sums and their correlations at lags of up to 4 pixels, nothing else. log Z depends on no row:
its gradient comes from Gibbs chains of the model. Filters are kept orthogonal, which depends on no row either; without
it a quadratic objective makes all of them alike.

**The output layer** has the sigmoid cross-entropies of the classes, by the same expansion: features times labels, and
features times features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor
from torch.nn import functional as F

from dpmac.randomness import NoiseSource
from reproduction.laplace import Answer, perturbed

SIZE = 5  # of the filters
LAG = SIZE - 1  # pixels that lie further apart never meet under a filter
LEVELS = 255  # inputs of a layer are whole numbers from 0 to this
FINE = 65535  # inputs of the output layer
WEIGHT = 1024  # of a sum of pixels beside the correlations, in one share
CLASSES = 10
_BLOCK = 250  # rows at a time


@dataclass(frozen=True)
class LayerRecipe:
    """Public choices for one layer. ``bound`` is on a row's share, over 10**6; ``share`` is of the budget."""

    filters: int
    bound: float
    share: float
    interval: float = 12.0
    steps: int = 100
    rate: float = 0.02
    chains: int = 30


@dataclass(frozen=True)
class NetworkRecipe:
    """Public choices for a network: its layers, the side of the last pooling, the output layer's bound and ridge."""

    layers: tuple[LayerRecipe, ...]
    pool: int
    length: float  # bound on sqrt(|f|_1^2 + |f|_2^2) of a row's features f, over 10**3
    ridge: float  # in units of the largest eigenvalue that the noise would have by itself
    quadratic: float = 0.5  # share of the output layer's budget for features times features
    trained: bool = True  # or random filters, at no cost


@dataclass(frozen=True)
class Layer:
    """A trained layer, public: filters (k, c, 5, 5) and biases (k)."""

    weights: Tensor
    bias: Tensor

    def hidden(self, levels: Tensor) -> Tensor:
        """How far hidden units are above their values on a blank patch, 0 to 1; only a place's strongest unit stays.

        Each row by itself. The competition keeps a row's L1 norm, which the noise grows with, small.
        """
        inputs = levels.float() / LEVELS
        above = torch.sigmoid(F.conv2d(inputs, self.weights, self.bias, padding=SIZE // 2))
        blank = torch.sigmoid(self.bias)[:, None, None]
        above = ((above - blank) / (1.0 - blank)).clamp_(min=0.0)
        return above * (above == above.amax(dim=1, keepdim=True))

    def pooled(self, levels: Tensor, pool: int, fine: int) -> Tensor:
        """Means over squares of ``pool`` pixels, as whole numbers from 0 to ``fine``."""
        blocks = [F.avg_pool2d(self.hidden(block), pool).mul_(fine).int() for block in torch.split(levels, _BLOCK)]
        return torch.cat(blocks)


def correlations(levels: Tensor) -> Tensor:
    """A row's coefficients, (n, m) whole numbers: WEIGHT times each channel's sum, then products of pixels.

    Products are summed over all pairs of pixels at a lag; of a channel with itself over half of the lags, since
    opposite lags have one sum. By the Fourier transform in double precision, rounded: exact, and checked.
    """
    _, channels, height, width = levels.shape
    size = (height + LAG, width + LAG)
    spectrum = torch.fft.rfft2(levels.double(), s=size)
    first, second = torch.triu_indices(channels, channels)
    products = torch.fft.irfft2(spectrum[:, first].conj() * spectrum[:, second], s=size)
    lags = torch.arange(-LAG, LAG + 1)
    products = products[..., lags % size[0], :][..., lags % size[1]].flatten(2)
    exact = products.round().long()
    if float((products - exact).abs().max()) > 0.01:
        raise ValueError(f"pictures of {height} x {width} pixels are too large for exact products")
    sums = WEIGHT * levels.long().sum(dim=(2, 3))
    return torch.cat([sums, exact[:, _apart(channels)]], dim=1)


def _apart(channels: int) -> Tensor:
    """Which of the (pair of channels, lag) are released: all lags of two channels, half of them of one."""
    first, second = torch.triu_indices(channels, channels)
    half = torch.arange((2 * LAG + 1) ** 2) >= (2 * LAG + 1) ** 2 // 2  # lag 0 and those behind it
    apart: Tensor = (first != second)[:, None] | half[None]
    return apart


def bounded_shares(levels: Tensor, bound: int) -> Tensor:
    """Coefficients of each row, scaled down until their L1 norm is at most ``bound``.

    Coefficients are nonnegative and grow with the levels, so levels times bound / norm, rounded down, keep the bound.
    It is checked in whole numbers; a row that broke it would count as blank.
    """
    shares = correlations(levels)
    norms = shares.sum(dim=1)
    long = norms > bound
    if bool(long.any()):
        factors = (bound / norms[long].double())[:, None, None, None]
        shares[long] = correlations((levels[long] * factors).long())
    return shares * (shares.sum(dim=1, keepdim=True) <= bound)


def release_correlations(levels: Tensor, recipe: LayerRecipe, epsilon: float, source: NoiseSource) -> Answer:
    """The coefficients of a layer's objective, summed over rows: the only thing that its training sees of them."""
    bound = round(recipe.bound * 1e6)
    total = torch.tensor(0)
    for block in torch.split(levels, _BLOCK):
        total = total + bounded_shares(block, bound).sum(dim=0)
    return perturbed(total, bound, epsilon, source)


def train_layer(answer: Answer, rows: int, channels: int, side: int, recipe: LayerRecipe, source: NoiseSource) -> Layer:
    """Fit a layer to its released coefficients. Sees no row."""
    _, linear, square = softplus_polynomial(recipe.interval)
    places = (side + LAG) ** 2  # where a filter touches the picture
    mean, second = _moments(answer, rows, channels)
    weights = 0.1 * _normal((recipe.filters, channels, SIZE, SIZE), source)
    bias, visible = torch.full((recipe.filters,), -1.0), torch.full((channels,), -2.0)
    _constrain(weights, bias, recipe.interval)
    parameters = [p.requires_grad_() for p in (weights, bias, visible)]
    optimizer = torch.optim.Adam(parameters, lr=recipe.rate)
    chains = (_uniform((recipe.chains, channels, side, side), source) < 0.13).float()
    for _ in range(recipe.steps):
        with torch.no_grad():
            chains = _gibbs(chains, weights, bias, visible, source)
        u = weights.sum(dim=(2, 3)) @ mean  # sum over places of w * patch, in the mean over rows
        u_squared = (_autocorrelations(weights) * second).sum(dim=(1, 2, 3, 4)) + 2 * bias * u + places * bias**2
        data = (linear * (u + places * bias) + square * u_squared).sum() + visible @ mean
        free = F.softplus(F.conv2d(chains, weights, bias, padding=LAG)).sum(dim=(1, 2, 3)).mean()
        loss = (free + visible @ chains.sum(dim=(2, 3)).mean(dim=0) - data) / side**2
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            _constrain(weights, bias, recipe.interval)
    return Layer(weights.detach(), bias.detach())


def untrained_layer(channels: int, recipe: LayerRecipe, source: NoiseSource) -> Layer:
    """Random orthogonal filters: what training must beat."""
    weights, bias = _normal((recipe.filters, channels, SIZE, SIZE), source), torch.full((recipe.filters,), -1.0)
    _constrain(weights, bias, recipe.interval)
    return Layer(weights, bias)


def softplus_polynomial(interval: float) -> tuple[float, float, float]:
    """Coefficients of 1, u, u^2 in the Chebyshev expansion of softplus on [-interval, interval]."""

    def softplus(at: Any) -> Any:
        return np.logaddexp(0.0, interval * at)

    constant, linear, square = chebyshev.cheb2poly(chebyshev.chebinterpolate(softplus, 2))
    return float(constant), float(linear / interval), float(square / interval**2)


def _moments(answer: Answer, rows: int, channels: int) -> tuple[Tensor, Tensor]:
    """Released coefficients as means over rows, of inputs 0 to 1: sums (c) and correlations, all lags (c, c, 9, 9)."""
    released = answer.sums / rows
    side = 2 * LAG + 1
    first, second = torch.triu_indices(channels, channels)
    known = torch.zeros(len(first), side * side, dtype=torch.float64)
    known[_apart(channels)] = released[channels:] / LEVELS**2
    same = first == second
    known[same] += known[same].flip(1) * (torch.arange(side * side) != side * side // 2)
    full = torch.zeros(channels, channels, side * side, dtype=torch.float64)
    full[second, first] = known.flip(1)
    full[first, second] = known
    return (released[:channels] / (WEIGHT * LEVELS)).float(), full.view(channels, channels, side, side).float()


def _autocorrelations(weights: Tensor) -> Tensor:
    """Of every filter's channels with each other, at the same lags: (k, c, c, 9, 9)."""
    size = (SIZE + LAG, SIZE + LAG)
    spectrum = torch.fft.rfft2(weights, s=size)
    products: Tensor = torch.fft.irfft2(spectrum.conj()[:, :, None] * spectrum[:, None], s=size)
    lags = torch.arange(-LAG, LAG + 1) % size[0]
    return products[..., lags, :][..., lags]


def _constrain(weights: Tensor, bias: Tensor, interval: float) -> None:
    """Nearest orthogonal filters, then each as long as |w|_1 + |b| = interval lets it be: no input leaves it."""
    bias.clamp_(1.0 - interval, interval - 1.0)
    left, _, right = torch.linalg.svd(weights.flatten(1), full_matrices=False)
    weights.copy_((left @ right).view_as(weights))
    weights.mul_(((interval - bias.abs()) / weights.abs().sum(dim=(1, 2, 3)))[:, None, None, None])


def _gibbs(visible: Tensor, weights: Tensor, bias: Tensor, visible_bias: Tensor, source: NoiseSource) -> Tensor:
    hidden = torch.sigmoid(F.conv2d(visible, weights, bias, padding=LAG))
    on = (_uniform(hidden.shape, source) < hidden).float()
    again = torch.sigmoid(F.conv_transpose2d(on, weights, padding=LAG) + visible_bias[:, None, None])
    return (_uniform(again.shape, source) < again).float()


def _uniform(shape: tuple[int, ...], source: NoiseSource) -> Tensor:
    return source.uniform(math.prod(shape)).float().reshape(shape)


def _normal(shape: tuple[int, ...], source: NoiseSource) -> Tensor:
    return source.normal(shape).float()
