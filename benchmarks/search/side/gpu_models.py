"""Many private trainings side by side on one GPU: one matrix product a layer for all models of a group.

It trains as ``simulation.Models`` does (one flat clip by closed-form norms, Gaussian noise, Adam with cosine decay,
averaged weights), but samples have a fixed size, drawn with replacement, products may use TensorFloat-32, and the
two outputs of a classifier are computed as their difference. Weights of a layer are (inputs, models, units); the last
input of the first layer is one, for its biases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST, SECOND, TINY, WARM = 0.9, 0.999, 1e-8, 10.0


@dataclass(frozen=True)
class Group:
    """What all models of a group share. ``wide``: the hidden units stand beside a linear model."""

    hidden: tuple[int, ...]
    wide: bool
    rate: float
    steps: int
    classes: bool


@dataclass(frozen=True)
class Each:
    """One number a model, each (models,)."""

    lr: Tensor
    clip: Tensor
    noise: Tensor


class Models:
    def __init__(self, group: Group, inputs: int, each: Each, average: float = 0.95) -> None:
        self.group, self.each, self.average = group, each, average
        models, device, outs = len(each.lr), each.lr.device, 2 if group.classes else 1

        def start(fan: int, units: int, size: float = 1.0) -> Tensor:
            return torch.randn(fan, models, units, device=device) * (size * math.sqrt(2 / (fan + units)))

        self.layers: dict[str, Tensor] = {}
        fan = inputs
        for place, units in enumerate(group.hidden):
            self.layers[f"hidden {place}"] = start(fan, units)
            if place:
                self.layers[f"hidden {place}"][-1] = 0  # biases
            else:
                self.layers["hidden 0"][-1] = 0
            fan = units + 1
        if group.hidden:
            self.layers["top"] = start(fan, outs, 0.1)
            self.layers["top"][-1] = 0
        if group.wide:
            self.layers["direct"] = torch.zeros(inputs - 1, models, outs, device=device)
        elif not group.hidden:
            self.layers["direct"] = start(inputs, outs, 0.1)
            self.layers["direct"][-1] = 0
        self.mean = {name: torch.zeros_like(w) for name, w in self.layers.items()}
        self.square = {name: torch.zeros_like(w) for name, w in self.layers.items()}
        self.kept = {name: w.clone() for name, w in self.layers.items()}

    def forward(self, x: Tensor, layers: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The number, or the margin of the second class, (rows, models); hidden activations (models, rows, units)."""
        active: list[Tensor] = []
        found: Tensor | None = None
        for place in range(len(self.group.hidden)):
            w = layers[f"hidden {place}"]
            if place == 0:
                a = (x @ w.flatten(1)).view(len(x), *w.shape[1:]).relu_().transpose(0, 1)
            else:
                a = torch.baddbmm(w[-1][:, None], active[-1], w[:-1].transpose(0, 1)).relu_()
            active.append(a)
        if active:
            top = self._margin(layers["top"])
            found = (torch.bmm(active[-1], top[:-1].T[:, :, None])[:, :, 0] + top[-1][:, None]).T
        if "direct" in layers:
            direct = x[:, : len(layers["direct"])] @ self._margin(layers["direct"])
            found = direct if found is None else found + direct
        assert found is not None
        return found, active

    def _margin(self, weights: Tensor) -> Tensor:
        """(inputs, models, outputs) -> (inputs, models)."""
        return weights[..., 1] - weights[..., 0] if self.group.classes else weights[..., 0]

    def step(self, x: Tensor, y: Tensor, done: float, count: int) -> None:
        group, layers = self.group, self.layers
        found, active = self.forward(x, layers)
        slope = (torch.sigmoid(found) if group.classes else found) - y[:, None]  # (rows, models)
        size = x.square().sum(1)[:, None]  # with the one of the bias
        below = torch.ones_like(slope)
        if not active:
            below = size.expand_as(slope)
        else:
            below = active[-1].square().sum(-1).T + (size if group.wide else 1.0)
        squares = slope.square() * below * (2 if group.classes else 1)
        back: list[Tensor] = []
        for place in range(len(active) - 1, -1, -1):
            if place == len(active) - 1:
                weights = self._margin(layers["top"])[:-1].T[:, None]  # (models, 1, units)
                d = slope.T[:, :, None] * weights
            else:
                d = torch.bmm(back[0], layers[f"hidden {place + 1}"][:-1].permute(1, 2, 0))
            d = d * (active[place] > 0)
            back.insert(0, d)
            under = size if place == 0 else active[place - 1].square().sum(-1).T + 1
            squares = squares + d.square().sum(-1).T * under
        factor = (self.each.clip / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)  # (rows, models)
        scaled = slope * factor
        grads: dict[str, Tensor] = {}
        for place, d in enumerate(back):
            d = d.transpose(0, 1) * factor[:, :, None]  # (rows, models, units)
            if place == 0:
                grads["hidden 0"] = (x.T @ d.flatten(1)).view_as(layers["hidden 0"])
            else:
                g = torch.bmm(active[place - 1].transpose(1, 2), d.transpose(0, 1)).transpose(0, 1)
                grads[f"hidden {place}"] = torch.cat([g, d.sum(0)[None]])
        if active:
            g = torch.bmm(active[-1].transpose(1, 2), scaled.T[:, :, None])[:, :, 0].T
            grads["top"] = self._both(torch.cat([g, scaled.sum(0)[None]]))
        if "direct" in layers:
            grads["direct"] = self._both(x[:, : len(layers["direct"])].T @ scaled)
        self._adam(grads, len(x), 0.5 * (1 + math.cos(math.pi * done)), count)

    def _both(self, grad: Tensor) -> Tensor:
        """The gradient of every output: of two classes, opposite ones."""
        return torch.stack([-grad, grad], dim=-1) if self.group.classes else grad[..., None]

    def _adam(self, grads: dict[str, Tensor], expected: float, decay: float, count: int) -> None:
        deviation = (self.each.noise * self.each.clip)[None, :, None]
        rate = (self.each.lr * decay)[None, :, None] / (1 - FIRST**count)
        for name, w in self.layers.items():
            g = torch.randn_like(w).mul_(deviation).add_(grads[name]).div_(expected)
            self.mean[name].lerp_(g, 1 - FIRST)
            self.square[name].lerp_(g.square_(), 1 - SECOND)
            length = (self.square[name] / (1 - SECOND**count)).sqrt_().add_(TINY)
            w.sub_(length.reciprocal_().mul_(self.mean[name]).mul_(rate))
            self.kept[name].lerp_(w, 1 - min(self.average, count / (WARM + count)))


@torch.no_grad()
def train(x: Tensor, y: Tensor, group: Group, each: Each, seed: int) -> Models:
    """Models trained on rows ``x`` with their last column one; ``y`` 0 or 1, or numbers in [-1, 1]."""
    torch.manual_seed(seed)
    models = Models(group, x.shape[1], each)
    size = max(1, round(group.rate * len(x)))
    for step in range(group.steps):
        drawn = torch.randint(len(x), (size,), device=x.device)
        models.step(x[drawn], y[drawn], step / group.steps, step + 1)
    return models


@torch.no_grad()
def scores(models: Models, x: Tensor, y: Tensor) -> Tensor:
    """AUROC or R^2 of every model, float64."""
    found = torch.cat([models.forward(block, models.kept)[0] for block in torch.split(x, 8192)]).T.contiguous()
    if not models.group.classes:
        y = y.double()
        error = (found.double().clamp(-1, 1) - y).square().mean(1)
        return 1 - error / (y - y.mean()).square().mean()
    order = found.sort(dim=1).values
    low = torch.searchsorted(order, found, right=False)
    high = torch.searchsorted(order, found, right=True)
    ranks = (low + high + 1).double() / 2
    positive = y.double().sum()
    wins = (ranks * y.double()).sum(1) - positive * (positive + 1) / 2
    return wins / (positive * (len(y) - positive))
