"""Autoencoders that start on the linear path of a released PCA."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.methods import DPPCA, follow_linear_path, linear_autoencoder
from dpmac.nets import ACTIVATIONS, Conv2d, Dense, DenseNetwork, Flatten, Network, Unflatten
from dpmac.privacy import Ledger
from dpmac.randomness import SeededNoise

HIDDEN = list(ACTIVATIONS)
EXACT = ["identity", "relu", "elu"]
D, K = 24, 5


def ball_rows(count, radius, centre, seed=1, d=D):
    """Rows spread over the ball, out to its very edge."""
    draw = SeededNoise(seed, "/test")
    directions = torch.nn.functional.normalize(draw.normal((count, d)), dim=1)
    lengths = torch.linspace(0, 1, count, dtype=torch.float64)[:, None]
    return centre + radius * lengths * directions


def released(components=K, centre=0.2, radius=3.0, d=D):
    stretch = torch.linspace(2.0, 0.2, d, dtype=torch.float64)
    rows = centre + (ball_rows(200, radius, 0.0, d=d) * stretch)
    return DPPCA(components, 0.5, centre, radius).fit(rows, SeededNoise(2), Ledger())


def projection(pca, x):
    moved = x - pca.centre
    return pca.centre + moved @ pca.components.T @ pca.components


def deep(hidden, sizes=(D, 30, 12, K, 12, 30, D), seed=3):
    return DenseNetwork(sizes, hidden, source=SeededNoise(seed)).double()


def real_images():
    """USPS if it is at hand, else scikit-learn's digits; rows in [0, 1]."""
    folders = [os.environ.get("DPMAC_DATA"), Path(__file__).parents[3] / "shared" / "data"]
    for path in (Path(folder) / "usps" / "usps_all.mat" for folder in folders if folder):
        if path.exists():
            from scipy.io import loadmat

            images = loadmat(path)["data"][:, :500].astype(np.float64) / 255  # 256 x 500 x 10
            return torch.from_numpy(images.reshape(256, -1).T.copy())
    from sklearn.datasets import load_digits

    return torch.from_numpy(load_digits().data / 16.0)


def relative_error(network, pca, x):
    """Departure from the linear reconstruction, relative to how far that is from the centre."""
    linear = projection(pca, x)
    away = torch.linalg.vector_norm(network(x).detach() - linear)
    return float(away / torch.linalg.vector_norm(linear - pca.centre))


# --- the linear autoencoder -----------------------------------------------------------------------------------------


def test_the_linear_autoencoder_is_the_projection():
    pca = released()
    network = linear_autoencoder(pca)
    assert network.sizes == (D, K, D)
    assert [stage.activation.name for stage in network.stages] == ["identity"] * 2
    x = 7.0 * ball_rows(50, 3.0, 0.2)  # far outside the ball too: nothing is clipped
    torch.testing.assert_close(network(x.float()).double(), projection(pca, x), rtol=1e-5, atol=1e-5)
    inside = ball_rows(50, 2.99, 0.2)
    ours = pca.reconstruct(pca.transform(inside))
    torch.testing.assert_close(network(inside.float()).double(), ours, rtol=1e-5, atol=1e-5)


# --- the linear path ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_network_starts_as_the_projection(hidden):
    pca = released()
    network = follow_linear_path(deep(hidden), pca)
    assert relative_error(network, pca, ball_rows(300, 3.0, 0.2)) < (1e-10 if hidden in EXACT else 0.03)
    edge = pca.centre + 3.0 * torch.cat([pca.components, -pca.components])  # the worst: all of a row in one code
    assert relative_error(network, pca, edge) < (1e-10 if hidden in EXACT else 0.09)


@pytest.mark.parametrize("hidden", ["tanh", "sigmoid", "softplus", "gelu"])
def test_a_smaller_gain_is_straighter(hidden):
    pca, x = released(), ball_rows(300, 3.0, 0.2)
    usual, small = (relative_error(follow_linear_path(deep(hidden), pca, gain=g), pca, x) for g in (1.0, 0.1))
    assert small < usual / 5


def test_mixed_activations_and_other_depths():
    pca, x = released(), ball_rows(300, 3.0, 0.2)
    mixed = deep(["relu", "tanh", "identity", "gelu", "sigmoid"])
    assert relative_error(follow_linear_path(mixed, pca), pca, x) < 0.03
    assert relative_error(follow_linear_path(deep("tanh", (D, K, D)), pca), pca, x) < 0.01
    assert relative_error(follow_linear_path(deep("tanh", (D, D)), pca), pca, x) < 1e-10


def test_a_wider_bound_reaches_rows_outside_the_ball():
    pca, x = released(), ball_rows(300, 9.0, 0.2)
    assert relative_error(follow_linear_path(deep("relu"), pca), pca, x) > 0.01
    assert relative_error(follow_linear_path(deep("relu"), pca, bound=9.0), pca, x) < 1e-10


def test_it_is_a_copy_and_needs_no_draw():
    network, pca = deep("tanh"), released()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first, second = follow_linear_path(network, pca), follow_linear_path(network, pca)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(first.state_dict()[name], second.state_dict()[name])
    single = follow_linear_path(deep("tanh").float(), pca)
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    assert all(p.requires_grad and p.is_leaf for p in single.parameters())


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_other_units_are_random_and_can_learn(hidden):
    pca, x = released(), ball_rows(100, 3.0, 0.2)
    network = follow_linear_path(deep(hidden), pca)
    untouched = deep(hidden).weight_layers[0].weight[K:]
    assert torch.equal(network.weight_layers[0].weight[K:], untouched)
    for step in range(2):
        network.zero_grad()
        (network(x) - x).square().sum(dim=1).mean().backward()
        for before, after in zip(network.weight_layers[:-1], network.weight_layers[1:], strict=True):
            heard = (after.weight.grad[:, K:] != 0).any(dim=0)  # each column: one unit's weights to the next layer
            assert len(heard) == 0 or float(heard.double().mean()) > 0.7  # a relu unit may be dead
            if step:
                felt = (before.weight.grad[K:] != 0).any(dim=1)
                assert len(felt) == 0 or float(felt.double().mean()) > 0.7
        with torch.no_grad():
            for parameter in network.parameters():
                parameter -= 1e-3 * parameter.grad


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_other_units_see_the_codes_loud_and_centred(hidden):
    """After a bottleneck of k units the others see carried codes only: on the input's scale, not the gain's."""
    pca, x = released(), ball_rows(300, 3.0, 0.2)
    network = follow_linear_path(deep(hidden), pca)
    plain = deep(hidden).weight_layers[3].weight[K:].detach()
    at_bottleneck = torch.nn.Sequential(*list(network.children())[:7])(x).detach()[:, K:]  # fourth pre-activation
    expected = (x - pca.centre) @ pca.components.T @ plain[:, :K].T
    away = torch.linalg.vector_norm(at_bottleneck - expected) / torch.linalg.vector_norm(expected)
    assert float(away) < 0.05


def test_narrow_layers_and_wrong_networks_are_refused():
    pca = released()
    with pytest.raises(ArgumentError, match=r"width of layer 3=4: layer 3 has to carry 5 codes.*at least 5 units"):
        follow_linear_path(deep("tanh", (D, 30, 12, 4, 12, 30, D)), pca)
    with pytest.raises(ArgumentError, match="24 inputs and 24 outputs"):
        follow_linear_path(deep("tanh", (D, 30, 10)), pca)
    for changes in ({"gain": 0.0}, {"gain": float("nan")}, {"bound": -1.0}):
        with pytest.raises(ArgumentError, match=next(iter(changes))):
            follow_linear_path(deep("tanh"), pca, **changes)
    odd = replace(ACTIVATIONS["tanh"], name="odd", working_point=None)
    with pytest.raises(ArgumentError, match="activation='odd': it has no working point: give it one"):
        follow_linear_path(deep(odd), pca)
    own = replace(ACTIVATIONS["tanh"], name="odd")  # with a working point, one of your own carries codes as ours do
    assert relative_error(follow_linear_path(deep(own), pca), pca, ball_rows(300, 3.0, 0.2)) < 0.03
    filters = [Unflatten((1, 4, 6)), Conv2d(1, 2, 3), "tanh", Flatten(), Dense(16, D)]
    images = Network(filters, input_shape=(D,), source=SeededNoise(0))
    with pytest.raises(ArgumentError, match="layer 1='conv2d': only dense layers can carry codes"):
        follow_linear_path(images, pca)


@pytest.fixture(scope="module")
def real():
    x = real_images()
    return x, DPPCA(20, 0.6, 0.15).fit(x, SeededNoise(0), Ledger())


@pytest.mark.parametrize("hidden", HIDDEN)
def test_real_images_start_at_the_linear_error(hidden, real):
    x, pca = real
    d = x.shape[1]
    network = DenseNetwork((d, 300, 100, 20, 100, 300, d), hidden, source=SeededNoise(1)).double()
    started = follow_linear_path(network, pca)

    def error(output):
        return float((output.detach() - x).square().sum(dim=1).mean() / 2)

    linear = error(projection(pca, x))
    assert linear < 0.5 * error(torch.full_like(x, 0.15))
    assert error(started(x)) == pytest.approx(linear, rel=1e-9 if hidden in EXACT else 0.03)
