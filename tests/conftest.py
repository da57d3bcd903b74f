"""Shared by all tests: one thread (the suite runs two processes on two cores), and small networks with data."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

from dpmac.nets import DenseNetwork, Loss, loss
from dpmac.privacy import SeededNoise

torch.set_num_threads(1)
settings.register_profile("suite", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@dataclass
class Problem:
    """A network in double precision with rows to train on."""

    network: DenseNetwork
    loss: Loss
    x: Tensor
    y: Tensor


def make_problem(
    sizes: tuple[int, ...] = (5, 7, 6, 4),
    hidden: str = "tanh",
    loss_name: str = "softmax",
    rows: int = 12,
    seed: int = 0,
) -> Problem:
    draw = SeededNoise(seed, "/test")
    network = DenseNetwork(sizes, hidden, source=draw).double()
    with torch.no_grad():
        for linear in network.linears:
            linear.bias.copy_(0.3 * draw.normal(linear.bias.shape))
    x = draw.normal((rows, sizes[0]))
    if loss_name == "squared":
        y = draw.normal((rows, sizes[-1]))
    else:
        y = torch.eye(sizes[-1], dtype=torch.float64)[(draw.uniform(rows) * sizes[-1]).long()]
    return Problem(network, loss(loss_name), x, y)


@pytest.fixture
def problem() -> Problem:
    return make_problem()
