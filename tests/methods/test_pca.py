"""DP-PCA: the right noise, one event, a sensitivity that outrageous rows cannot break, and plain PCA without noise."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import pld
from sklearn.decomposition import PCA

from dpmac.checks import ArgumentError
from dpmac.methods import DPPCA, ReleasedPCA
from dpmac.nets.feature_maps import LowFrequencies, ToRange
from dpmac.privacy import Ledger, Plan, PrivateRows
from dpmac.randomness import SeededNoise, SystemNoise

DRAW = SeededNoise(0, "/test")
SPREAD = torch.linspace(2.0, 0.2, 6, dtype=torch.float64)
ROWS = 0.3 * DRAW.normal((40, 6)) * SPREAD + 0.1  # within the ball of radius sqrt(6), and clearly ordered


def fit(config, rows=ROWS, source=None, ledger=None, **more):
    return config.fit(rows, SystemNoise() if source is None else source, Ledger() if ledger is None else ledger, **more)


class Fixed(SystemNoise):
    """Draws what it is told."""

    def __init__(self, values):
        self.values = values

    def steps(self, sizes, bits, device="cpu"):
        return iter((self.values.flatten().double() * 2.0**bits).round().split(list(sizes)))


# --- the guarantee --------------------------------------------------------------------------------------------------


def test_noise_of_the_matrix_within_two_percent():
    """sigma on the diagonal, sigma / sqrt(2) off it, in any radius; standard errors 0.4 % and 0.04 %."""
    sigma, d, fits = 1.7, 80, 400
    rows = torch.full((3, d), 0.01, dtype=torch.float64)
    exact = fit(DPPCA(1, 0.0, radius=0.2), rows).moment
    noisy = [fit(DPPCA(1, sigma, radius=0.2), rows, SeededNoise(seed)).moment for seed in range(fits)]
    noise = torch.stack(noisy) - exact
    assert torch.equal(noise, noise.transpose(1, 2))
    on = noise.diagonal(dim1=1, dim2=2)
    upper = noise[:, *torch.triu_indices(d, d, offset=1)]
    assert float(on.std()) == pytest.approx(sigma, rel=0.01)
    assert float(upper.std()) == pytest.approx(sigma / math.sqrt(2), rel=0.005)
    assert abs(float(upper.mean())) < 6 * sigma / math.sqrt(2 * upper.numel())
    assert float(torch.corrcoef(upper[:, :60].T).fill_diagonal_(0).abs().max()) < 6 / math.sqrt(fits)


OUTRAGEOUS = torch.tensor(
    [
        [1e308, -1e308, 1e308, 0.0],
        [1e30, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [1e-200, 0.0, 0.0, 1e-300],
        [2.0, 0.0, 0.0, 0.0],
        [-1.0, 1.0, -1.0, 1.0],
        [0.1, 0.2, 0.3, 0.4],
        [3.0, -4.0, 12.0, 84.0],
    ],
    dtype=torch.float64,
)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("radius", [None, 0.5, 1e-3, 1e20])
@pytest.mark.parametrize("centre", [0.0, torch.tensor([0.5, -3.0, 1e3, 0.0], dtype=torch.float64)])
def test_blanking_any_row_moves_the_matrix_by_one_at_most(normalise, radius, centre):
    config, table = DPPCA(2, 0.0, centre, radius, normalise), PrivateRows(OUTRAGEOUS)
    whole = fit(config, table).moment
    assert bool(torch.isfinite(whole).all())
    others = [fit(config, table.without(place)).moment for place in range(len(OUTRAGEOUS))]
    moves = [float(torch.linalg.matrix_norm(whole - other)) for other in others]
    assert max(moves) <= 1.0
    assert max(moves) > 0.9999  # and the noise is not larger than it need be


def test_the_ledger_holds_one_unsampled_event_and_its_epsilon():
    ledger = Ledger()
    released = fit(DPPCA(2, 1.9), source=SystemNoise(), ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.label, entry.noise_multiplier, entry.sample_rate, entry.seeded) == ("DP-PCA", 1.9, 1.0, False)
    assert entry.scales == {"second moments": 1.0}
    direct = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(1.9)).get_epsilon(1e-5)
    assert ledger.epsilon(1e-5) == pytest.approx(direct, rel=1e-9)
    assert released.mechanism() == DPPCA(2, 1.9).mechanism() == entry.mechanism()
    plan = Plan(1000, 100, 5, 2.0, 1e-5, before=(released.mechanism(),))
    assert plan.epsilon() > direct


def test_no_noise_is_no_privacy():
    ledger = Ledger()
    fit(DPPCA(2, 0.0), ledger=ledger)
    assert ledger.epsilon(1e-5) == math.inf


def test_seeds_and_micro_batches():
    config = DPPCA(3, 2.0)
    ledger = Ledger()
    first = fit(config, source=SeededNoise(4), ledger=ledger)
    assert ledger.seeded
    assert torch.equal(first.moment, fit(config, source=SeededNoise(4)).moment)
    assert torch.equal(first.components, fit(config, source=SeededNoise(4)).components)
    assert not torch.equal(first.moment, fit(config, source=SeededNoise(5)).moment)
    assert not torch.equal(fit(config).moment, fit(config).moment)
    pieces = fit(config, source=SeededNoise(4), micro_batch=7)  # pure performance: apart by the snapping at most
    assert torch.allclose(first.moment, pieces.moment, atol=1e-5)


BAD_ROWS = [
    (DPPCA(2, 1.0), torch.tensor([[1.0, math.nan], [0.0, 0.0]]), "x=nan"),
    (DPPCA(2, 1.0), torch.tensor([[1.0, 0.0], [-math.inf, 0.0]]), "x=-inf"),
    (DPPCA(2, 1.0), torch.zeros(4), "shape"),
    (DPPCA(2, 1.0), torch.zeros(4, 0), "shape"),
    (DPPCA(2, 1.0), torch.zeros(2, 3, 4), "shape"),
    (DPPCA(2, 1.0), torch.zeros(4, 3).long(), "floating-point"),
    (DPPCA(2, 1.0), np.zeros((4, 3)), "floating-point"),
    (DPPCA(2, 1.0), torch.zeros(1, 3), "at least 2 rows"),
    (DPPCA(4, 1.0), torch.zeros(5, 3), "components=4.*at most 3"),
    (DPPCA(2, 1.0, torch.zeros(2)), torch.zeros(5, 3), "centre='2 numbers'.*3 features"),
]


@pytest.mark.parametrize(("config", "rows", "message"), BAD_ROWS, ids=[m for *_, m in BAD_ROWS])
def test_bad_rows_spend_nothing(config, rows, message):
    class Silent(SystemNoise):
        def normal(self, *_):
            raise AssertionError("noise was drawn")

        steps = normal

    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        fit(config, rows, Silent(), ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"components": 0}, "components=0"),
        ({"components": 1.5}, "components=1.5"),
        ({"noise_multiplier": -1.0}, "noise_multiplier=-1.0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier=nan"),
        ({"radius": 0.0}, "radius=0.0"),
        ({"radius": -2.0}, "radius=-2.0"),
        ({"radius": math.inf}, "radius=inf"),
        ({"centre": math.nan}, "centre=nan"),
        ({"centre": torch.tensor([0.0, math.inf])}, "centre="),
        ({"centre": torch.zeros(2, 2)}, "centre="),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        DPPCA(**{"components": 2, "noise_multiplier": 1.0, **changes})


# --- the components -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("centre", [0.0, 0.3])
def test_without_noise_it_is_plain_pca_of_uncentred_second_moments(centre):
    released = fit(DPPCA(3, 0.0, centre))
    rows = (ROWS.numpy() - centre) / math.sqrt(6)
    assert np.linalg.norm(rows, axis=1).max() < 1  # nothing is clipped, so nothing may differ
    np.testing.assert_allclose(released.moment, rows.T @ rows, atol=1e-12)
    theirs = PCA(3, svd_solver="full").fit(np.concatenate([rows, -rows]))  # mean 0, the same second moment
    overlap = np.abs(released.components.numpy() @ theirs.components_.T)
    np.testing.assert_allclose(overlap, np.eye(3), atol=1e-9)
    expected = np.linalg.svd(rows, compute_uv=False)[:3] ** 2
    np.testing.assert_allclose(released.eigenvalues, expected, rtol=1e-9)


def test_components_are_orthonormal_with_a_fixed_sign():
    released = fit(DPPCA(4, 3.0))
    np.testing.assert_allclose(released.components @ released.components.T, np.eye(4), atol=1e-12)
    for row in released.components:
        assert float(row[row.abs().argmax()]) > 0
    assert released.eigenvalues.tolist() == sorted(released.eigenvalues.tolist(), reverse=True)


def test_a_direction_of_negative_noise_is_never_taken_for_signal():
    draws = torch.zeros(6, 6)
    draws[5, 5] = -1000.0  # by singular values, the strongest direction of all
    released = fit(DPPCA(3, 1.0), source=Fixed(draws))
    assert float(torch.linalg.eigvalsh(released.moment).min()) < -900
    assert float(released.components[:, 5].abs().max()) < 0.1
    assert float(released.eigenvalues.min()) > 0


def test_normalising_gives_every_row_the_same_say():
    rows = torch.tensor([[0.01, 0.0], [0.0, 0.5], [0.0, 100.0]], dtype=torch.float64)
    moment = fit(DPPCA(1, 0.0, normalise=True), rows).moment
    np.testing.assert_allclose(moment, [[1.0, 0.0], [0.0, 2.0]], atol=1e-4)


def test_components_within_a_public_span():
    released = fit(DPPCA(2, 0.5), source=SeededNoise(0))
    basis = torch.eye(6)[[1, 2, 4]]
    inside = released.within(basis)
    np.testing.assert_allclose(inside.components @ inside.components.T, np.eye(2), atol=1e-12)
    assert not inside.components[:, [0, 3, 5]].any()
    kept = released.moment[[1, 2, 4]][:, [1, 2, 4]]
    np.testing.assert_allclose(inside.eigenvalues, torch.linalg.eigvalsh(kept).flip(0)[:2], atol=1e-12)
    np.testing.assert_allclose(released.within(torch.eye(6)).components, released.components, atol=1e-12)
    for bad in (torch.eye(6)[:1], 2 * basis, torch.eye(5)):
        with pytest.raises(ArgumentError, match="basis"):
            released.within(bad)


# --- codes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transform_is_per_example(normalise, dtype):
    released = fit(DPPCA(3, 0.1, 0.2, 1.0, normalise))
    rows = ROWS.to(dtype)
    codes = released.transform(rows)
    assert (codes.dtype, codes.shape) == (dtype, (40, 3))
    changed = rows.clone()
    changed[7] = 1e6
    moved = (released.transform(changed) != codes).any(dim=1)
    assert moved.nonzero().flatten().tolist() == [7]
    alone = torch.cat([released.transform(row[None]) for row in rows])
    torch.testing.assert_close(alone, codes)


def test_transform_scales_and_clips_as_fitting_did():
    config = DPPCA(6, 0.0, 0.3, 0.5)
    released = fit(config)
    codes = released.transform(ROWS)
    assert float(torch.linalg.vector_norm(codes, dim=1).max()) <= 1.0
    scaled = (ROWS - 0.3) / 0.5
    norms = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    assert bool((norms > 1).any())
    assert bool((norms < 1).any())
    clipped = scaled / torch.clamp(norms, min=1.0)
    np.testing.assert_allclose(codes, clipped @ released.components.T, atol=2e-5)
    np.testing.assert_allclose(codes.T @ codes, torch.diag(released.eigenvalues), atol=1e-9)  # the same rows exactly


def test_all_components_give_back_rows_in_the_ball():
    released = fit(DPPCA(6, 5.0, 0.3))
    np.testing.assert_allclose(released.reconstruct(released.transform(ROWS)), ROWS, atol=1e-12)
    with pytest.raises(ArgumentError, match=r"x='shape \(40, 5\)'"):
        released.transform(ROWS[:, :5])
    with pytest.raises(ArgumentError, match="codes="):
        released.reconstruct(ROWS[:, :5])


@pytest.mark.parametrize("normalise", [False, True])
def test_its_feature_map_is_the_map_from_raw_rows_to_codes(normalise):
    """And with a length, the same codes put on a sphere: for a model that takes private rows inside the release."""
    released = fit(DPPCA(3, 0.1, 0.2, 1.0, normalise))
    moved = ROWS - 0.2
    norms = moved.norm(dim=1, keepdim=True)
    codes = moved / (norms if normalise else norms.clamp(min=1.0)) @ released.components.T
    assert torch.allclose(released.feature_map()(ROWS), codes, atol=2e-5)
    assert torch.equal(released.feature_map()(ROWS), released.transform(ROWS))
    assert released.feature_map().shape_after((6,)) == (3,)
    long = released.feature_map(length=7.0)(ROWS)
    assert torch.allclose(long, 7.0 * codes / codes.norm(dim=1, keepdim=True), atol=1e-9)


def test_a_table_behind_a_feature_map_gives_the_components_of_what_comes_through_it():
    feature_map = LowFrequencies(3, 4, 0.25)
    images = DRAW.spawn("images").normal((30, 9))
    ours = fit(DPPCA(2, 0.0), PrivateRows(images).behind(feature_map))
    theirs = fit(DPPCA(2, 0.0), feature_map(images))
    assert ours.components.shape == (2, 4)
    assert torch.allclose(ours.moment, theirs.moment, atol=1e-12)
    clipped = fit(DPPCA(2, 0.0), PrivateRows(1e6 * ROWS).behind(ToRange(-1.0, 1.0)))
    assert torch.allclose(clipped.moment, fit(DPPCA(2, 0.0), (1e6 * ROWS).clamp(-1, 1)).moment, atol=1e-12)


def test_saving_and_loading(tmp_path):
    released = fit(DPPCA(2, 1.1, torch.linspace(0, 1, 6), 0.7, normalise=True))
    released.save(tmp_path / "pca.safetensors")
    back = ReleasedPCA.load(tmp_path / "pca.safetensors")
    for name in ("components", "eigenvalues", "moment", "centre"):
        assert torch.equal(getattr(back, name), getattr(released, name))
    assert (back.radius, back.ball.normalise, back.mechanism()) == (0.7, True, released.mechanism())
    assert torch.equal(back.transform(ROWS), released.transform(ROWS))


def test_a_file_that_is_not_ours_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"components": torch.zeros(2)}, str(tmp_path / "x.safetensors"))
    with pytest.raises(ValueError, match="not a dpmac PCA"):
        ReleasedPCA.load(tmp_path / "x.safetensors")
