"""The output layer of DP-CDBN: sigmoid cross-entropy of degree 2, from two releases of whole numbers.

A class's loss is softplus(u) - y u, u = w f for the features f of a row. With softplus as c0 + u/2 + c2 u^2 the sum
over rows needs two things: features times labels, and features times features. A row has one label, so that the labels'
part of its share is |f|_1 long; products f_i f_j, i <= j, serve all classes, and sum up to (|f|_1^2 + |f|_2^2) / 2. One
bound on sqrt(|f|_1^2 + |f|_2^2) therefore covers both. Neither the classes' order nor the noise depends on c2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from dpmac.randomness import NoiseSource
from reproduction.cdbn import CLASSES
from reproduction.laplace import perturbed

CONSTANT = 2000  # a feature that is the same for every row: the bias


@dataclass(frozen=True)
class Output:
    """Weights (features, classes), public, and what they cost."""

    weights: Tensor
    epsilon: Fraction

    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        given = with_constant(features).double() @ self.weights
        return float((given.argmax(dim=1) == labels).double().mean())


def with_constant(features: Tensor) -> Tensor:
    """Flat rows of whole numbers, with the bias."""
    flat = features.flatten(1).long()
    return torch.cat([flat, torch.full((len(flat), 1), CONSTANT)], dim=1)


def bounded(features: Tensor, bound: int) -> Tensor:
    """Rows scaled down until |f|_1^2 + |f|_2^2 <= bound^2; checked in whole numbers, and blank if it failed."""
    squares = features.sum(dim=1) ** 2 + features.square().sum(dim=1)
    factors = (bound / squares.double().sqrt()).clamp(max=1.0)
    scaled = (features * factors[:, None]).long()
    kept = scaled.sum(dim=1) ** 2 + scaled.square().sum(dim=1) <= bound**2
    return scaled * kept[:, None]


def fit_output(
    features: Tensor, labels: Tensor, bound: int, ridge: float, share: float, epsilon: float, source: NoiseSource
) -> Output:
    """Minimise the released polynomial, ridge added. ``features`` are whole numbers of at least 0, a row each."""
    rows = bounded(with_constant(features), bound).double()
    if len(rows) * bound**2 >= 1 << 53:
        raise ValueError(f"{len(rows)} rows with a bound of {bound} may not add up exactly in double precision")
    width = rows.shape[1]
    upper = torch.triu_indices(width, width)
    by_class = rows.T @ torch.nn.functional.one_hot(labels, CLASSES).double()  # exact: below 2**53
    products = (rows.T @ rows)[upper[0], upper[1]]
    half = bound**2 // 2  # |f|_1^2 + |f|_2^2 is even, so that this is no less than half of it
    first = perturbed(by_class.long(), bound, (1.0 - share) * epsilon, source.spawn("labels"))
    second = perturbed(products.long(), half, share * epsilon, source.spawn("products"))
    gram = torch.zeros(width, width, dtype=torch.float64)
    gram[upper[0], upper[1]] = second.sums
    gram = gram + gram.triu(1).T
    slope = first.sums - first.sums.sum(dim=1, keepdim=True) / 2
    values, vectors = torch.linalg.eigh(gram)
    noise = 2.0 * math.sqrt(2.0 * width) * second.scale  # where a symmetric matrix of such noise has its largest one
    added = ridge * noise + 1e-4 * float(values.clamp(min=0.0).mean())
    weights = vectors @ ((vectors.T @ slope) / (values.clamp(min=0.0) + added)[:, None])
    return Output(weights, first.epsilon + second.epsilon)
