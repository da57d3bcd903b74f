"""Random convex polynomials: releases without a release."""

from __future__ import annotations

from dpmac.mac import Polynomial
from dpmac.randomness import SeededNoise


def bowl(problem, seed=0, shared=False, constant=True):
    """A random convex polynomial for every layer, at the network's weights."""
    draw = SeededNoise(seed)
    polynomials = []
    for layer in problem.network.weight_layers:
        units, d = layer.matrix_shape
        root = draw.normal((1 if shared else units, d, d))
        a = draw.normal(()) if constant else None
        polynomials.append(Polynomial(layer.matrix(), draw.normal((units, d)), root @ root.transpose(1, 2), a))
    return polynomials
