"""The noise in released weights: simulated walks against Adam itself, and against models that were trained again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dpmac
from dpmac import DPMACClassifier, Ledger
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.wsteps import Averaged, OptimizerStep, cosine
from dpmac.nets import DenseNetwork
from dpmac.randomness import SeededNoise
from dpmac.report.noise import COPIES, noisy_copies, walk_of_noise
from dpmac.report.page import write_report


def test_the_walk_is_that_of_the_optimiser_itself():
    network = DenseNetwork([3, 2], source=None).float()
    network.weight_layers[0].write(torch.zeros(2, 4))
    updater = Averaged(OptimizerStep(lr=0.02, schedule=cosine), 0.9).start(network, 40)
    source = SeededNoise(3, "/walk")
    for _ in range(40):
        slope = source.normal((8,)).float().reshape(2, 4)
        updater.apply([Polynomial(torch.zeros(2, 4), slope)])
    walked = walk_of_noise(SeededNoise(3, "/walk"), 8, 40, 0.02, 0.9).reshape(2, 4)
    assert torch.allclose(walked, updater.model.weight_layers[0].matrix().float(), atol=1e-6)


def rows(seed):
    draw = np.random.default_rng(seed)
    return draw.uniform(size=(1500, 4)), draw.random(1500) < 0.3


@pytest.fixture(scope="module")
def fits():
    given = {"epsilon": 1.0, "feature_range": (0, 1), "epochs": 10}
    return [DPMACClassifier((), random_state=seed, ledger=Ledger(), **given).fit(*rows(0)) for seed in range(5)]


def weights(model):
    return model.network_.weight_layers[0].matrix().detach().numpy()


def test_copies_differ_as_models_that_are_trained_again_or_more(fits):
    """More: a loss pulls weights back, and noise alone does not."""
    model = fits[0]
    copies = noisy_copies(model, model.plan_, model.privacy_.ledger, model.history_)
    assert len(copies) == COPIES
    before = weights(model).copy()
    made = np.sqrt(np.mean([np.square(weights(one) - before) for one in copies]))
    real = np.std([weights(one) for one in fits], axis=0, ddof=1).mean()
    assert 0.8 * real < made < 3 * real
    assert np.array_equal(weights(model), before)
    again = noisy_copies(model, model.plan_, model.privacy_.ledger, model.history_)
    assert all(np.array_equal(weights(a), weights(b)) for a, b in zip(copies, again, strict=True))


def test_a_report_shows_the_noise_and_a_model_without_any_has_none(fits, tmp_path):
    page = write_report(dpmac.save(fits[0], tmp_path / "run")).read_text()
    assert "made-up trainings on noise alone" in page
    bare = DPMACClassifier((), epsilon=float("inf"), feature_range=(0, 1), epochs=2).fit(*rows(1))
    assert noisy_copies(bare, bare.plan_, bare.privacy_.ledger, bare.history_) == []
