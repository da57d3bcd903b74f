"""The output layer of the published pCDBN program, on our features: **not private**, whatever the epsilon it is given.

A hidden layer of 25 units, and a sigmoid cross-entropy whose polynomial gets 25 Laplace numbers of scale
10 (25 + 25^2 / 4) / (epsilon * batch), drawn afresh for every batch and added to the units of all its rows. That the
number before the division bounds what one row adds is true; the rest is not what the functional mechanism needs. See
``results/cdbn.md``. It is here to show where published figures come from.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.randomness import NoiseSource
from reproduction.cdbn import CLASSES, FINE

UNITS = 25
BATCH = 3600
EPOCHS = 162  # of the paper's table
RATE = 0.002


def published_output(
    rows: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, epsilon: float, source: NoiseSource
) -> float:
    """Train by Adam on batches in one fixed order; gives the accuracy on ``test``. Batches are normalised as such."""
    inputs, test_inputs = (x.flatten(1).float() / FINE for x in (rows, test))
    truth = F.one_hot(labels, CLASSES).float()
    hidden = 0.1 * source.normal((inputs.shape[1], UNITS)).float()
    out = 0.1 * source.normal((UNITS, CLASSES)).float()
    shift, scale, bias = torch.zeros(UNITS), torch.ones(UNITS), torch.zeros(CLASSES)
    parameters = [p.requires_grad_() for p in (hidden, out, shift, scale, bias)]
    optimizer = torch.optim.Adam(parameters, lr=RATE)

    def outputs(batch: Tensor, noise: Tensor | float) -> Tensor:
        u = batch @ hidden
        normal = (u - u.mean(dim=0)) / (u.var(dim=0, unbiased=False) + 1e-3).sqrt()
        return ((normal * scale + shift).clamp(0.0, 1.0) + noise) @ out + bias

    noise_scale = CLASSES * (UNITS + UNITS**2 / 4) / (epsilon * BATCH)
    for _ in range(EPOCHS):
        for batch, given in zip(torch.split(inputs, BATCH), torch.split(truth, BATCH), strict=True):
            u = outputs(batch, noise_scale * _laplace(UNITS, source))
            size = u.abs()  # softplus(u) = max(u, 0) + log(1 + exp(-|u|)), the latter to the second order
            loss = (u.clamp(min=0.0) - u * given + math.log(2.0) - 0.5 * size + size**2 / 8.0).sum(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with torch.no_grad():
        return float((outputs(test_inputs, 0.0).argmax(dim=1) == test_labels).double().mean())


def _laplace(count: int, source: NoiseSource) -> Tensor:
    """Of scale 1, by the inverse of its distribution: floating-point noise, good enough for what is not private."""
    sign, size = source.uniform(2 * count).view(2, -1)
    return (torch.where(sign < 0.5, 1.0, -1.0) * torch.log1p(-size)).float()
