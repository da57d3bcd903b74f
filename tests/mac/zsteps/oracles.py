"""What the Z-steps are held against: the same networks in plain torch, with an error added to every hidden layer."""

from __future__ import annotations

import torch
from torch import nn

from conftest import make_images, make_problem
from dpmac.mac.coordinates import problems_of

DEEP = (5, 7, 6, 6, 4)


def problems(loss_name="softmax", hidden="tanh", rows=12):
    """A deep dense network and one with convolutions and pooling."""
    return [make_problem(DEEP, hidden, loss_name, rows), make_images(hidden, loss_name, rows)]


def solve(problem, zstep, x=None, y=None):
    return zstep.solve(problem.network, problem.loss, problem.x if x is None else x, problem.y if y is None else y)


def segments(network):
    """The plain network, cut behind every activation."""
    modules, found = list(network.plain()), []
    for stage in network.stages[:-1]:
        count = len(stage.carriers) + 2
        found.append(nn.Sequential(*modules[:count]))
        modules = modules[count:]
    return [*found, nn.Sequential(*modules)]


def zeros(network, rows):
    return [torch.zeros(rows, *stage.shape, dtype=torch.float64) for stage in network.stages[:-1]]


def output(cut, x, errors):
    """The output's pre-activation of a network cut in segments, with ``errors`` added to the hidden layers."""
    *hidden, last = cut
    for segment, error in zip(hidden, errors, strict=True):
        x = segment(x) + error
    return last(x)


def error_objective(problem, errors, mu, x=None, y=None):
    """mu/2 sum_k ||e_k||^2 + output loss, per example."""
    u = output(segments(problem.network), problem.x if x is None else x, errors)
    total = problem.loss.weight * problem.loss.value(u, problem.y if y is None else y)
    for error in errors:
        total = total + mu / 2 * error.square().flatten(1).sum(dim=1)
    return total


def errors_of(problem, found):
    """How far every hidden layer's coordinates are from what it predicts of those below."""
    hidden = segments(problem.network)[:-1]
    return [z - f(below).detach() for f, below, z in zip(hidden, found.inputs, found.targets, strict=False)]


def mac_objective(problem, coordinates, mu):
    """mu/2 sum_k ||z_k - f_k(z_{k-1})||^2 + output loss, per example, as the paper writes it."""
    total = torch.zeros(len(coordinates.inputs[0]), dtype=torch.float64)
    layers = problems_of(problem.network, problem.loss)
    for k, (layer, inputs, targets) in enumerate(zip(layers, coordinates.inputs, coordinates.targets, strict=True)):
        weight = layer.loss.weight * (mu if k < len(layers) - 1 else 1.0)
        total = total + weight * layer.loss.value(layer.stage.pre_activation(inputs), targets)
    return total
