"""Which proof holds for which loss, and that an answer which was kept is that of the same question."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dpmac.analytic import proofs
from dpmac.analytic.proofs import layer_sensitivity
from dpmac.analytic.squared_error import squared_error
from dpmac.nets.activations import activation
from dpmac.nets.losses import SquaredError
from dpmac.randomness import SeededNoise

WEIGHT = SeededNoise(0).normal((4, 3))
BIAS = SeededNoise(1).normal((4,))


@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_an_answer_that_was_kept_is_that_of_the_same_question(hidden):
    loss, act = SquaredError(activation(hidden)), activation(hidden)
    other = WEIGHT.clone()
    other[0, 0] *= 1 + 2.0**-40  # one bit of one weight
    questions = [
        (WEIGHT, BIAS, 1.0),
        (WEIGHT, BIAS, 2.0),
        (WEIGHT, None, 1.0),
        (WEIGHT, 3 * BIAS, 1.0),
        (5 * WEIGHT, BIAS, 1.0),
        (other, BIAS, 1.0),
        (WEIGHT.float(), BIAS.float(), 1.0),
        (WEIGHT.T.contiguous().T, BIAS, 1.0),  # the same numbers, laid out otherwise
    ]
    for _ in range(2):  # the second time, all are kept
        for weight, bias, radius in questions:
            assert layer_sensitivity(loss, weight, bias, radius) == squared_error(act, weight, bias, radius)


def test_weights_that_are_moved_in_place_are_asked_anew():
    weight, loss = WEIGHT.clone(), SquaredError(activation("tanh"))
    before = layer_sensitivity(loss, weight, BIAS, 1.0)
    weight.mul_(3.0)
    assert layer_sensitivity(loss, weight, BIAS, 1.0) != before
    assert layer_sensitivity(loss, weight, BIAS, 1.0) == squared_error(activation("tanh"), weight, BIAS, 1.0)


def test_equal_weights_are_reckoned_once_for_our_activations_and_every_time_for_others(monkeypatch):
    asked = []
    monkeypatch.setattr(proofs, "squared_error", lambda *given: asked.append(given) or squared_error(*given))
    proofs._squared_error.cache_clear()
    ours = activation("tanh")
    theirs = replace(ours, f=lambda u: torch.tanh(u))  # of the same name, and it may change tomorrow
    for act, times in ((ours, 1), (theirs, 3)):
        asked.clear()
        for _ in range(3):
            layer_sensitivity(SquaredError(act), WEIGHT, BIAS, 1.0)
        assert len(asked) == times
