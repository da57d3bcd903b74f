"""A fit that has begun to spend comes to its end, whatever the noise makes of what is released.

First with any finite numbers in place of what is released; then with the noise itself, where it drowns every signal.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dpmac.methods
import dpmac.tables.estimate
import dpmac.training.trainer
from dpmac.estimators import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor
from dpmac.methods import ClosedForm, NormHistogram, follow_linear_path, linear_autoencoder, linear_classifier
from dpmac.nets import DenseNetwork
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import DensePart, Ledger, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.tables import Schema

ASKING = [
    *(dpmac.methods.objective, dpmac.methods.histogram, dpmac.methods.mean, dpmac.methods.one_release),
    *(dpmac.methods.ridge, dpmac.tables.estimate, dpmac.training.trainer),
]
KINDS = ("zero", "tiny", "normal", "large", "huge", "negative", "mixed")


class Anything:
    """A release that answers with finite numbers of its own, and records what was paid."""

    def __init__(self, seed, kinds):
        self.draw, self.kinds, self.made = SeededNoise(seed), kinds, 0

    def __call__(self, batch, query, *, noise_multiplier, ledger, dtype=torch.float64, apart=False, **_):
        answers = {}
        for partition in query.partitions:
            numbers = self.numbers(partition.shape, self.kinds[self.made % len(self.kinds)])
            if partition.symmetric:
                numbers = numbers / 2 + numbers.transpose(-1, -2) / 2
            most = torch.finfo(dtype).max
            numbers = numbers.clamp(-most, most).to(dtype)
            if apart and numbers.dim() == 2:
                numbers = torch.cat([numbers[:, :-1].flatten(), numbers[:, -1]])
            answers[partition.name] = numbers
        self.made += 1
        entry = dpmac.privacy.Entry(
            label=query.label,
            noise_multiplier=noise_multiplier,
            sample_rate=batch.sample_rate,
            overflow=batch.overflow,
            seeded=True,
            scales={p.name: p.scale for p in query.partitions},
            unit=batch.unit,
        )
        ledger.append(entry)
        return answers

    def numbers(self, shape, kind):
        normal = self.draw.normal(tuple(shape)).clamp(-1, 1)
        if kind == "negative":
            return -normal.abs() * 1e3
        if kind == "mixed":
            sizes = torch.tensor([1e300, -1.0, 0.0, 1e-300, 1e12], dtype=torch.float64)
            return normal * sizes[torch.arange(normal.numel()) % 5].reshape(normal.shape)
        return normal * {"zero": 0.0, "tiny": 1e-300, "normal": 30.0, "large": 1e30, "huge": 1.7e308}[kind]


@pytest.fixture
def answering(monkeypatch):
    def answer(seed, kinds):
        made = Anything(seed, kinds)
        for module in ASKING:
            monkeypatch.setattr(module, "release", made)
        return made

    return answer


def rows(n=60, width=4, seed=0):
    x = np.random.RandomState(seed).uniform(-1, 1, (n, width))
    return x, (x[:, 0] > 0).astype(int)


FITS = {
    "classifier": lambda x, y: DPMACClassifier((3,), epsilon=20, epochs=1, feature_range=(-1, 1)).fit(x, y),
    "calibrated": lambda x, y: DPMACClassifier((3,), epsilon=1, epochs=1).fit(np.tile(x, (17, 1)), np.tile(y, 17)),
    "regressor": lambda x, y: DPMACRegressor(epsilon=20, epochs=1, target_range=(0, 1)).fit(x, y),
    "adaptive": lambda x, y: DPMACClassifier(epsilon=20, epochs=1, bound="adaptive").fit(x, y),
    "pca": lambda x, y: DPMACPCA(2, epsilon=1).fit(x),
    "closed form": lambda x, y: DPMACAutoencoder(2, epsilon=1, method="closed-form").fit(x),
    "network": lambda x, y: DPMACAutoencoder(2, epsilon=1, method="gradient", epochs=1).fit(x),
}


def outputs(model, x):
    names = [name for name in ("predict_proba", "transform", "reconstruction_error") if hasattr(model, name)]
    return [np.asarray(getattr(model, name)(x)) for name in names or ["predict"]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("kind", KINDS)
def test_estimators_come_to_their_end_whatever_was_released(name, kind, answering, tmp_path):
    x, y = rows()
    made = answering(1, [kind])
    model = FITS[name](x, y)
    assert made.made == len(model.privacy_.ledger) > 0
    for found in outputs(model, x):
        assert np.isfinite(found).all()
    model.save(tmp_path / "model")  # and what was paid for can be kept
    for found, again in zip(outputs(model, x), outputs(dpmac.load(tmp_path / "model"), x), strict=True):
        assert np.array_equal(found, again)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["pca", "closed form"])
@given(seed=st.integers(0, 2**32), kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=3))
def test_closed_forms_come_to_their_end_whatever_was_released(name, seed, kinds):
    x, y = rows()
    with pytest.MonkeyPatch.context() as patch:
        for module, made in [(module, Anything(seed, kinds)) for module in ASKING]:
            patch.setattr(module, "release", made)
        for found in outputs(FITS[name](x, y), x):
            assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", KINDS)
def test_methods_come_to_their_end_whatever_was_released(kind, answering):
    x = torch.from_numpy(rows()[0])
    y = torch.eye(2, dtype=torch.float64)[torch.from_numpy(rows()[1])]
    answering(2, [kind])
    source, book = SeededNoise(0), Ledger()
    for curvature in ("simulated", "released"):
        choices = ClosedForm(Affine(0.0), code=2, features=9, norm=1.0, threshold=None, curvature=curvature)
        assert choices.fit(x, 1.0, source, book).reconstruct(x).isfinite().all()
    pca = dpmac.methods.DPPCA(2, 1.0).fit(x, source, book)
    assert linear_autoencoder(pca)(x.float()).isfinite().all()
    network = follow_linear_path(DenseNetwork([4, 3, 2, 3, 4], "softplus", source=source), pca)
    assert network(x.float()).isfinite().all()
    assert pca.within(torch.eye(4, dtype=torch.float64)[:3]).components.isfinite().all()
    assert linear_classifier(x, y, 1.0, 1e-30, source, book).isfinite().all()
    found = NormHistogram(1.0).thresholds(PrivateRows(x), lambda rows: [DensePart(rows)], ["one"], source, book)
    assert 1e-4 <= found[0] <= 1e2
    slope, offset = dpmac.methods.Calibration(1.0).fit(PrivateRows(x[:, :2], y), torch.nn.Identity(), source, book)
    assert 0.1 <= slope <= 20.0
    assert math.isfinite(offset)
    mean = dpmac.methods.DPMean(1.0).fit(x, source, book)
    assert mean.mean.norm() <= 2.0 + 1e-9
    assert 0.0 < mean.spread <= 2.0
    deviation = dpmac.methods.ResidualScale(1.0).fit(
        PrivateRows(x, y[:, :1]), lambda rows: rows[:, :1].double(), source, book
    )
    assert 1e-3 <= deviation <= 2.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_ranges_whatever_was_released(kind, answering):
    answering(3, [kind])
    table = {"a": [1.0, 2.0, 3.0], "b": [0.0, 0.0, 5.0]}
    found = Schema.estimate(table, epsilon=1, delta=0.01, categories={})
    assert all(-1e12 <= column.low < column.high <= 1e12 for column in found.columns.values())


# --- the noise itself -------------------------------------------------------------------------------------------------


def drowned(case):
    """Few rows, hardly any budget, and columns that say nothing."""
    draw = np.random.RandomState(case)
    n, epsilon = int(draw.choice([20, 50, 120, 200])), float(draw.choice([0.05, 0.1, 0.5]))
    x = draw.uniform(-1, 1, (n, int(draw.choice([2, 2, 3, 9]))))
    x[:, :1] = 0.25  # constant
    x[draw.uniform(size=n) < 0.3] = 0.0  # all zero
    y = draw.randint(0, 2, n)
    y[:2] = 0, 1
    return x, y, epsilon


LOW = {
    "classifier": lambda x, y, e, s: DPMACClassifier(epsilon=e, epochs=2, random_state=s).fit(x, y),
    "regressor": lambda x, y, e, s: DPMACRegressor(epsilon=e, epochs=2, target_range=(0, 1), random_state=s).fit(x, y),
    "autoencoder": lambda x, y, e, s: DPMACAutoencoder(1, epsilon=e, method="closed-form", random_state=s).fit(x),
    "network": lambda x, y, e, s: DPMACAutoencoder(
        1, epsilon=e, method="gradient", hidden_layer_sizes=(4,), epochs=2, random_state=s
    ).fit(x),
    "pca": lambda x, y, e, s: DPMACPCA(epsilon=e, random_state=s).fit(x),
}


@pytest.mark.parametrize("name", LOW)
def test_no_fit_fails_where_noise_drowns_every_signal(name):
    """The last six ended after two of three releases where the noise made the trace of the second moments negative."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in (0, 1, 2, 3, 4, 5, 15, 93, 133, 200, 214, 358):
            x, y, epsilon = drowned(case)
            for found in outputs(LOW[name](x, y, epsilon, case), x):
                assert np.isfinite(found).all()
