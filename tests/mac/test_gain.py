"""The noise that is followed through Adam and its average, against all coefficients written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.mac import Averaged, NoiseGain, OptimizerStep, Polynomial, cosine
from dpmac.nets import DenseNetwork
from dpmac.randomness import SeededNoise

STEPS, RATE, DECAY = 12, 0.1, 0.8


def started(deviation=0.0, wstep=None):
    network = DenseNetwork([3, 2], source=SeededNoise(0, "gain"))
    inner = wstep or OptimizerStep(lr=RATE, schedule=cosine)
    return NoiseGain(Averaged(inner, DECAY), deviation).start(network, STEPS)


def slopes(seed=0):
    draw = np.random.default_rng(seed)
    return [torch.from_numpy(draw.normal(size=(2, 4)).astype(np.float32)) for _ in range(STEPS)]


def coefficients(given, floor=0.0):
    """Of every gradient on the averaged weight at the end, with the roots of mean squares as they were."""
    first, second = 0.9, 0.999
    moved, square = [], np.zeros_like(given[0])
    steps = []
    for t, slope in enumerate(given, 1):
        square = second * square + (1 - second) * slope**2
        root = np.sqrt(np.maximum(square / (1 - second**t), floor**2)) + 1e-8
        rate = RATE * 0.5 * (1 + np.cos(np.pi * (t - 1) / STEPS))
        steps.append(rate / (1 - first**t) / root)
    kept = [min(DECAY, t / (10 + t)) for t in range(1, STEPS + 1)]
    for at in range(STEPS):
        weight, average = 0.0, 0.0
        for t in range(STEPS):
            if t >= at:
                weight = weight - steps[t] * (1 - first) * first ** (t - at)
            average = kept[t] * average + (1 - kept[t]) * weight
        moved.append(average)
    return np.sqrt(sum(one**2 for one in moved))


@pytest.mark.parametrize("floor", [0.0, 0.7])
def test_the_gain_is_the_root_of_all_squared_coefficients(floor):
    updater = started(floor)
    for slope in slopes():
        updater.apply([Polynomial(torch.zeros(2, 4), slope)])
    expected = coefficients([slope.numpy().astype(np.float64) for slope in slopes()], floor)
    weight, bias = updater.deviations()
    np.testing.assert_allclose(weight, expected[:, :3], rtol=1e-5)
    np.testing.assert_allclose(bias, expected[:, 3], rtol=1e-5)


def test_following_changes_no_weight():
    plain = Averaged(OptimizerStep(lr=RATE, schedule=cosine), DECAY).start(
        DenseNetwork([3, 2], source=SeededNoise(0, "gain")), STEPS
    )
    updater = started()
    for slope in slopes():
        for one in (plain, updater):
            one.apply([Polynomial(torch.zeros(2, 4), slope)])
    for kept, other in zip(plain.model.parameters(), updater.model.parameters(), strict=True):
        assert torch.equal(kept, other)
    assert updater.lr == plain.lr


def test_it_goes_on_from_a_checkpoint_bit_for_bit():
    updater = started()
    for place, slope in enumerate(slopes()):
        if place == 5:
            state = updater.state()
            again = started()
            again.restore({"averaged": state["averaged"], "spread": state["spread"]})
        updater.apply([Polynomial(torch.zeros(2, 4), slope)])
        if place >= 5:
            again.apply([Polynomial(torch.zeros(2, 4), slope)])
    assert all(torch.equal(one, other) for one, other in zip(updater.deviations(), again.deviations(), strict=True))


def test_only_adam_is_followed():
    with pytest.raises(ArgumentError, match="through Adam"):
        started(wstep=OptimizerStep(lr=RATE, optimizer=torch.optim.SGD))
