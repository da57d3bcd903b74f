"""The autoencoder in closed form: an independent derivation in NumPy, two events that compose to one, clear errors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.methods import ClosedForm
from dpmac.methods.closed_form import SIMULATED
from dpmac.nets.feature_maps import Affine, Ball, LowFrequencies
from dpmac.privacy import Ledger, Mechanism, PrivateRows, epsilon_of
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

SOURCE = SeededNoise(3)


def curved_rows(n=600, side=6):
    """Images on a curved two-dimensional surface: a linear code of two numbers cannot hold them."""
    draw = SeededNoise(5)
    a, b = (2 * draw.uniform(n)[:, None] - 1 for _ in range(2))
    surface = torch.cat([a, b, 0.7 * (a**2 - 0.3), 0.7 * a * b], dim=1)
    return 0.5 + 0.4 * surface @ LowFrequencies(side, 5).basis[1:]


def noisy_rows():
    """Rows with something in every direction, so that each component is one and only one."""
    draw = SeededNoise(6)
    return curved_rows() + 0.01 * draw.uniform(600)[:, None] * draw.normal((600, 36))


class Turned:
    """A feature map of one's own: any invertible map of rows will do."""

    def __call__(self, rows):
        return rows.double().flip(1) - 0.5

    def inverse(self, inputs):
        return (inputs + 0.5).flip(1)


FEATURE_MAPS = {
    "none": None,
    "low frequencies": LowFrequencies(6, 20, 0.5),
    "affine": Affine(0.5, 2.0),
    "own": Turned(),
}


def choices(feature_map=None, **more):
    usual = {"share": 0.5, "code": 3, "features": 40, "bandwidth": 2.0, "norm": 0.6, "threshold": 0.3, "ridge": 1.0}
    return ClosedForm(feature_map, **{**usual, **more})


def derived(x, feature_map, c, source):
    """What the autoencoder gives back for its own rows, without noise: by hand, in NumPy."""
    rows = x.double().numpy() if feature_map is None else feature_map(x).numpy()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((1 - SLACK) ** 2 * unit.T @ unit)
    components = vectors.T[::-1][: c.code]
    components = components * np.sign([row[np.abs(row).argmax()] for row in components])[:, None]
    kept = np.maximum(values[::-1][: c.code], 1.0)
    assert kept[-1] == 1.0  # a direction with less than one row's worth counts as one
    spread = c.norm * np.sqrt(kept / kept.sum())
    draw = source.spawn("features")
    frequency = draw.normal((c.code, c.features)).numpy() / c.bandwidth
    phase = 2 * np.pi * draw.uniform(c.features).numpy()

    def hidden(codes):
        return np.sqrt(2 / c.features) * np.cos((codes / spread) @ frequency + phase)

    codes = rows @ components.T
    left_over, waves = rows - codes @ components, hidden(codes)
    lengths = np.linalg.norm(left_over, axis=1) * np.linalg.norm(waves, axis=1)
    assert (lengths > c.threshold).any()
    assert (lengths < c.threshold).any()
    factors = np.minimum(1.0, (1 - SLACK) * c.threshold / lengths)
    cross = (left_over * factors[:, None]).T @ waves
    fake = hidden(source.spawn("simulated codes").normal((SIMULATED, c.code)).numpy() * spread)
    gram = fake.T @ fake * len(rows) / SIMULATED + c.ridge * np.eye(c.features)
    out = torch.from_numpy(codes @ components + waves @ np.linalg.solve(gram, cross.T))
    return out if feature_map is None else feature_map.inverse(out)


@pytest.mark.parametrize("feature_map", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_without_noise_it_is_the_ridge_solution_derived_by_hand(feature_map, share):
    x, c = (
        noisy_rows(),
        choices(feature_map, share=share, code=6, threshold=0.06 if isinstance(feature_map, Affine) else 0.03),
    )
    model = c.fit(x, 0.0, SOURCE, Ledger())
    wanted = derived(x, feature_map, c, SOURCE)
    assert torch.allclose(model.reconstruct(x), wanted, atol=1e-6)
    assert torch.equal(model.decode(model.encode(x)), model.reconstruct(x))
    assert model.encode(x).shape == (600, 6)
    table = c.fit(PrivateRows(x), 0.0, SOURCE, Ledger())
    assert torch.equal(table.reconstruct(x), model.reconstruct(x))
    single = c.fit(x.float(), 0.0, SOURCE, Ledger()).reconstruct(x.float())
    assert torch.allclose(single, wanted, atol=1e-4)


@pytest.mark.parametrize("feature_map", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
def test_all_of_the_budget_for_the_code_leaves_a_projection(feature_map):
    x, ledger = curved_rows(), Ledger()
    model = choices(feature_map, share=1.0).fit(x, 2.0, SOURCE, ledger)
    assert model.decoder is None
    rows = x.double() if feature_map is None else feature_map(x)
    projected = rows @ model.pca.components.T @ model.pca.components
    assert torch.allclose(
        model.reconstruct(x), projected if feature_map is None else feature_map.inverse(projected), atol=1e-12
    )
    (entry,) = ledger.entries
    assert (entry.label, entry.noise_multiplier, entry.sample_rate) == ("DP-PCA", 2.0, 1.0)


@pytest.mark.parametrize("feature_map", [None, LowFrequencies(6, 20, 0.5)], ids=["none", "low frequencies"])
def test_a_solved_output_layer_sees_what_a_linear_code_cannot(feature_map):
    x = curved_rows(1500) - (0.5 if feature_map is None else 0.0)
    curved = choices(feature_map, code=2, features=100, norm=0.5, threshold=10.0)

    def error(c):
        return float((c.fit(x, 0.0, SOURCE, Ledger()).reconstruct(x) - x).square().sum(dim=1).mean())

    assert error(curved) < 0.6 * error(replace(curved, share=1.0))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_ledger_holds_two_events_that_compose_to_one(share):
    ledger = Ledger()
    choices(LowFrequencies(6, 20, 0.5), share=share).fit(curved_rows(300), 4.0, SOURCE, ledger)
    assert [entry.label for entry in ledger.entries] == ["DP-PCA", "output layer"]
    assert [entry.sample_rate for entry in ledger.entries] == [1.0, 1.0]
    assert [dict(entry.scales) for entry in ledger.entries] == [{"second moments": 1.0}, {"output layer slope": 0.3}]
    first, second = (entry.noise_multiplier for entry in ledger.entries)
    assert first**-2 + second**-2 == pytest.approx(4.0**-2, rel=1e-12)
    assert first**-2 * 4.0**2 == pytest.approx(share)
    assert ledger.epsilon(1e-5) == pytest.approx(epsilon_of([Mechanism(4.0)], 1e-5), rel=1e-3)


def test_seeds_repeat_and_no_draw_is_used_twice(monkeypatch):
    x, c = curved_rows(100), choices()
    drawn = []
    original = SeededNoise.normal

    def listening(self, shape, device="cpu"):
        drawn.append(original(self, shape, device))
        return drawn[-1]

    first = c.fit(x, 2.0, SeededNoise(0), Ledger()).reconstruct(x)
    monkeypatch.setattr(SeededNoise, "normal", listening)
    assert torch.equal(first, c.fit(x, 2.0, SeededNoise(0), Ledger()).reconstruct(x))
    heads = [float(draw.flatten()[0]) for draw in drawn]  # of the noise of two releases, the features, the fake codes
    assert len(heads) == len(set(heads)) == 4
    assert not torch.equal(first, c.fit(x, 2.0, SeededNoise(1), Ledger()).reconstruct(x))


class Silent(SeededNoise):
    def __init__(self, *_):
        super().__init__(0)

    def normal(self, *_):
        raise AssertionError("noise was drawn")

    steps = normal

    def spawn(self, purpose):
        return self


ROWS = curved_rows(20)
BAD = [
    (choices(), ROWS.index_fill(0, torch.tensor([4]), math.nan), 1.0, "x=nan: row 4, column 0"),
    (choices(), ROWS[0], 1.0, r"x='shape \(36,\)'"),
    (choices(), ROWS.long(), 1.0, "x=torch.int64: give a floating-point tensor"),
    (choices(), ROWS[:1], 1.0, "x='1 rows': give at least 2 rows"),
    (choices(), ROWS, -1.0, "noise_multiplier=-1.0"),
    (choices(code=37), ROWS, 1.0, "components=37.*at most 36"),
    (choices(LowFrequencies(5, 9)), ROWS, 1.0, r"x='rows of shape \(36,\)': .*low-frequencies.*\(25,\)"),
    (choices(LowFrequencies(5, 9)), PrivateRows(ROWS), 1.0, r"x='rows of shape \(36,\)'"),
]


@pytest.mark.parametrize(("c", "x", "sigma", "message"), BAD, ids=[m for *_, m in BAD])
def test_bad_rows_spend_nothing(c, x, sigma, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        c.fit(x, sigma, Silent(), ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0.0}, "share=0.0: give the part of the budget for DP-PCA"),
        ({"share": 1.1}, "share=1.1"),
        ({"code": 0}, "code=0"),
        ({"features": 2.5}, "features=2.5"),
        ({"bandwidth": 0.0}, "bandwidth=0.0: give a finite number above 0"),
        ({"norm": math.inf}, "norm=inf"),
        ({"threshold": -1.0}, "threshold=-1.0"),
        ({"ridge": 0.0}, "ridge=0.0"),
        (
            {"feature_map": Ball(torch.zeros(36), 1.0)},
            "feature_map=Ball.*must find its way back: give a feature map with an inverse",
        ),
    ],
)
def test_bad_choices_are_named(changes, message):
    with pytest.raises(ArgumentError, match=message):
        ClosedForm(**changes)
