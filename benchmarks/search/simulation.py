"""Hundreds of private trainings at once: the default method with other settings, simulated on one device.

What it trains is what the estimators train (Poisson samples, one flat clip, Gaussian noise, Adam with cosine decay,
averaged weights, by the closed-form norms of dense layers), for many settings of rate, threshold, noise and scale side
by side on the same samples. It is for choosing defaults on research tables: its noise is not cryptographic, its sums
are of single precision, and nothing it returns is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # Adam's, as in dpmac.mac
WARM = 10.0  # the average of the weights starts as a plain mean of the first steps


@dataclass(frozen=True)
class Shape:
    """What all models of one call share; ``rate`` is that of the samples."""

    hidden: tuple[int, ...]
    activation: str
    rate: float
    steps: int


@dataclass(frozen=True)
class Settings:
    """One number a model, each (models,); ``inputs`` multiplies the inputs, (models, inputs).

    ``offsets`` multiplies the learning rate of the output layer's biases. ``noise`` is the noise multiplier, and 0 is
    without noise and without a clip, as the estimators train without privacy. ``penalty`` is that of the squared
    weights, times a unit's inputs (None: 0).
    """

    lr: Tensor
    clip: Tensor
    noise: Tensor
    inputs: Tensor
    offsets: Tensor
    average: float = 0.95
    penalty: Tensor | None = None


class Models:
    """Dense networks, one set of weights a model; slopes and norms of a row as the package computes them."""

    def __init__(self, shape: Shape, inputs: int, outputs: int, settings: Settings, generator: torch.Generator) -> None:
        self.shape, self.settings, self.generator = shape, settings, generator
        models, device = len(settings.lr), settings.lr.device
        sizes = [inputs, *shape.hidden, outputs]
        self.weights: list[Tensor] = []
        for fan, units in pairwise(sizes):
            w = torch.randn(1, fan, units, generator=generator, device=device) * math.sqrt(2 / (fan + units))
            self.weights += [w.repeat(models, 1, 1), torch.zeros(models, 1, units, device=device)]
        self.weights[-2] *= 0.1  # a start near "nothing known"
        self.mean = [torch.zeros_like(w) for w in self.weights]
        self.square = [torch.zeros_like(w) for w in self.weights]
        self.kept = [w.clone() for w in self.weights]

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Outputs (models, rows, outputs) of rows (rows, inputs), and the hidden layers' activations."""
        active: list[Tensor] = []
        a = x.unsqueeze(0)
        layers = len(weights) // 2
        for i in range(layers):
            w = weights[2 * i] * self.settings.inputs[:, :, None] if i == 0 else weights[2 * i]
            u = torch.matmul(a, w) + weights[2 * i + 1]
            if i < layers - 1:
                a = torch.tanh(u) if self.shape.activation == "tanh" else torch.relu(u)
                active.append(a)
        return u, active

    def step(self, x: Tensor, slope_of: Callable[[Tensor], Tensor], expected: float, done: float, count: int) -> None:
        """One private step on the sample ``x``; ``slope_of`` turns outputs into slopes, both (models, rows, outputs).

        ``expected`` is the sample's expected size, ``done`` the part of the run that is over, ``count`` from 1 on.
        """
        s, layers = self.settings, len(self.weights) // 2
        u, active = self.forward(x, self.weights)
        slopes = [slope_of(u)]
        for i in range(layers - 1, 0, -1):
            a, back = active[i - 1], torch.matmul(slopes[0], self.weights[2 * i].transpose(1, 2))
            slopes.insert(0, back * (1 - a * a) if self.shape.activation == "tanh" else back * (a > 0))
        sizes = [torch.matmul(x.square(), s.inputs.square().T).T, *(a.square().sum(-1) for a in active)]
        squares = torch.stack([d.square().sum(-1) * (size + 1) for d, size in zip(slopes, sizes, strict=True)]).sum(0)
        limit = torch.where(s.noise > 0, s.clip, math.inf)
        factor = (limit[:, None] / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)
        grads: list[Tensor] = []
        for i, slope in enumerate(slopes):
            d = slope * factor[:, :, None]
            g = torch.matmul((x.unsqueeze(0) if i == 0 else active[i - 1]).transpose(1, 2), d)
            grads += [g * s.inputs[:, :, None] if i == 0 else g, d.sum(1, keepdim=True)]
        self._adam(grads, expected, 0.5 * (1 + math.cos(math.pi * done)), count)

    def _adam(self, grads: list[Tensor], expected: float, decay: float, count: int) -> None:
        s = self.settings
        deviation = (s.noise * s.clip)[:, None, None]
        for j, (w, g) in enumerate(zip(self.weights, grads, strict=True)):
            noise = torch.randn(g.shape, generator=self.generator, device=g.device)
            g = g.addcmul_(noise, deviation.expand_as(g)).div_(expected)
            if s.penalty is not None and w.shape[1] > 1:  # offsets are (models, 1, units)
                g = g.addcmul_(w.shape[1] * s.penalty[:, None, None].expand_as(w), w)
            self.mean[j].lerp_(g, 1 - FIRST)
            self.square[j].lerp_(g.square_(), 1 - SECOND)
            length = (self.square[j] / (1 - SECOND**count)).sqrt_().add_(TINY)
            rate = s.lr * decay * (s.offsets if j == len(grads) - 1 else 1.0)
            w -= rate[:, None, None] * (self.mean[j] / (1 - FIRST**count)) / length
            self.kept[j].lerp_(w, 1 - min(s.average, count / (WARM + count)))


class WideModels(Models):
    """One hidden layer of ReLU units beside the inputs: the outputs are linear in both."""

    def __init__(self, shape: Shape, inputs: int, outputs: int, settings: Settings, generator: torch.Generator) -> None:
        super().__init__(shape, inputs, outputs, settings, generator)
        beside = torch.zeros(len(settings.lr), inputs, outputs, device=settings.lr.device)
        for kept in (self.weights, self.mean, self.square, self.kept):
            kept.insert(0, beside.clone())

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        u, active = super().forward(x, weights[1:])
        return u + torch.matmul(x.unsqueeze(0), weights[0]), active

    def step(self, x: Tensor, slope_of: Callable[[Tensor], Tensor], expected: float, done: float, count: int) -> None:
        s, (u, (a,)) = self.settings, self.forward(x, self.weights)
        top = slope_of(u)
        low = torch.matmul(top, self.weights[3].transpose(1, 2)) * (a > 0)
        size = x.square().sum(-1)[None]
        squares = top.square().sum(-1) * (size + a.square().sum(-1) + 1) + low.square().sum(-1) * (size + 1)
        limit = torch.where(s.noise > 0, s.clip, math.inf)
        factor = (limit[:, None] / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)[:, :, None]
        top, low, rows = top * factor, low * factor, x.unsqueeze(0).transpose(1, 2)
        grads = [torch.matmul(rows, top), torch.matmul(rows, low), low.sum(1, keepdim=True)]
        grads += [torch.matmul(a.transpose(1, 2), top), top.sum(1, keepdim=True)]
        self._adam(grads, expected, 0.5 * (1 + math.cos(math.pi * done)), count)


@torch.no_grad()
def train(
    x: Tensor,
    y: Tensor,
    classes: bool,
    shape: Shape,
    settings: Settings,
    seed: int,
    kind: type[Models] = Models,
) -> Models:
    """Models trained on rows ``x`` (n, inputs) and ``y`` (n,): 0 or 1 with two outputs, or numbers in [-1, 1]."""
    generator = torch.Generator(device=x.device)
    generator.manual_seed(seed)
    models = kind(shape, x.shape[1], 2 if classes else 1, settings, generator)
    targets = torch.stack([1 - y, y], dim=1) if classes else y[:, None]
    for step in range(shape.steps):
        drawn = torch.nonzero(torch.rand(len(x), generator=generator, device=x.device) < shape.rate).flatten()

        def slope_of(u: Tensor, wanted: Tensor = targets[drawn]) -> Tensor:
            return (torch.softmax(u, -1) if classes else u) - wanted

        models.step(x[drawn], slope_of, shape.rate * len(x), step / shape.steps, step + 1)
    return models


@torch.no_grad()
def outputs(models: Models, x: Tensor) -> Tensor:
    """Of the averaged weights, (models, rows): the margin of the second class, or the number."""
    u, _ = models.forward(x, models.kept)
    return (u[..., 1] - u[..., 0] if u.shape[-1] == 2 else u[..., 0]).double()


def judged(models: Models, x: Tensor, y: Tensor, classes: bool) -> tuple[Tensor, Tensor]:
    """The score (AUROC or R^2), and the log-loss after the best slope and offset or the squared error; (models,)."""
    found, y = outputs(models, x), y.double()
    if classes:
        return auroc(found, y), calibrated_loss(found, y)
    error = (found.clamp(-1, 1) - y).square().mean(1)
    return 1 - error / (y - y.mean()).square().mean(), error


def auroc(margin: Tensor, y: Tensor) -> Tensor:
    """Of margins (models, rows) and labels 0 or 1; equal margins count half."""
    found = []
    for row in margin:
        _, place, many = torch.unique(row, return_inverse=True, return_counts=True)
        middle = torch.cumsum(many, 0).double() - (many - 1) / 2
        positive = y.sum()
        found.append(((middle[place] * y).sum() - positive * (positive + 1) / 2) / (positive * (len(y) - positive)))
    return torch.stack(found)


def calibrated_loss(margin: Tensor, y: Tensor, rounds: int = 12) -> Tensor:
    """The log-loss of margins (models, rows) after a slope and an offset that were fitted to these very rows."""
    m = margin.clamp(-30, 30)
    a, b = torch.ones_like(m[:, :1]), torch.zeros_like(m[:, :1])
    for _ in range(rounds):
        p = torch.sigmoid(a * m + b)
        w, r = p * (1 - p) + 1e-9, p - y
        ga, gb = (r * m).mean(1, True), r.mean(1, True)
        haa, hab, hbb = (w * m * m).mean(1, True) + 1e-6, (w * m).mean(1, True), w.mean(1, True) + 1e-6
        det = haa * hbb - hab * hab
        a, b = (
            (a - (hbb * ga - hab * gb) / det).clamp(0, 20),
            (b - (haa * gb - hab * ga) / det).clamp(-10, 10),
        )
    p = torch.sigmoid(a * m + b).clamp(1e-9, 1 - 1e-9)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean(1)
