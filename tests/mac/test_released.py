"""Released numbers can be anything finite: whatever the noise made of them, what is computed from them is finite."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.analytic import Projected
from dpmac.mac import Averaged, ConjugateGradient, OptimizerStep, RidgeSolve
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.released import LARGEST, WEIGHT, cholesky, eigen, tamed
from dpmac.nets import LOSSES, DenseNetwork
from dpmac.privacy import AdaptiveQuantile, Analytic
from dpmac.randomness import SeededNoise

SIZES = st.sampled_from([0.0, 1e-320, 1e-300, 1e-30, 1.0, 1e15, 1e38, 1e60, 1e154, 1e300, 1.7e308])


@st.composite
def released(draw, *shape, symmetric=False):
    """A tensor of finite numbers: of one size or of several, of any sign, all zero, negative definite."""
    normal = SeededNoise(draw(st.integers(0, 2**32))).normal(shape)
    sizes = torch.tensor(draw(st.lists(SIZES, min_size=1, max_size=3)), dtype=torch.float64)
    values = normal.clamp(-1, 1) * sizes[torch.arange(normal.numel()) % len(sizes)].reshape(shape)
    if symmetric:
        values = values / 2 + values.transpose(-1, -2) / 2
        sign = draw(st.sampled_from([0.0, 1.0, -1.0]))
        values = values if sign == 0.0 else sign * torch.diag_embed(values.diagonal(dim1=-2, dim2=-1).abs())
    assert values.isfinite().all()
    return values


@given(released(2, 4, 4, symmetric=True))
def test_eigenvalues_of_any_matrix_are_finite_and_give_the_matrix_back(matrix):
    values, vectors = eigen(matrix)
    again = (vectors * values.unsqueeze(-2)) @ vectors.transpose(-1, -2)
    cut = tamed(matrix)
    error = (again - cut).abs().amax(dim=(1, 2))
    assert (error <= 1e-12 * cut.abs().amax(dim=(1, 2)) + 1e-300).all()
    assert (values.diff(dim=-1) >= 0).all()


def test_where_the_quick_algorithm_fails_a_slower_one_gives_the_same(monkeypatch):
    normal = SeededNoise(0).normal((3, 5, 5))
    matrix = normal + normal.transpose(-1, -2)
    values, vectors = eigen(matrix)

    def failing(*_):
        raise torch.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(torch.linalg, "eigh", failing)
    others, directions = eigen(matrix)
    assert torch.allclose(values, others)
    assert torch.allclose((directions.transpose(-1, -2) @ vectors).abs(), torch.eye(5, dtype=torch.float64), atol=1e-9)


@given(released(1, 4, 4, symmetric=True), released(3, 4), st.sampled_from([5e-324, 1e-30, 1.0, 1e30]))
def test_the_minimum_of_any_released_polynomial_is_finite(curvature, slope, ridge):
    found = Polynomial(torch.zeros(3, 4, dtype=torch.float64), slope, curvature).floored().minimum(ridge)
    assert found.isfinite().all()
    flat = Polynomial(torch.zeros(3, 4, dtype=torch.float64), slope).minimum(max(ridge, 1e-300))
    assert flat.isfinite().all()


def test_a_factor_is_found_where_rounding_left_a_negative_eigenvalue():
    matrix = torch.diag(torch.tensor([1e12, 1.0, -1e-3], dtype=torch.float64))[None]
    factor = cholesky(matrix, torch.full((1, 1, 1), 1e-9, dtype=torch.float64))
    assert torch.allclose(factor @ factor.transpose(-1, -2), matrix, atol=1.0)


WSTEPS = {
    "adam": OptimizerStep(lr=0.1),
    "sgd": OptimizerStep(lr=9e8, optimizer=torch.optim.SGD, inner_steps=3, options={"momentum": 0.9}),
    "averaged": Averaged(OptimizerStep(lr=0.1)),
    "ridge": RidgeSolve(ridge=1e-300),
    "conjugate gradients": ConjugateGradient(ridge=0.0),
    "line search": ConjugateGradient(ridge=0.0, line_search=True),
}


@pytest.mark.parametrize("name", WSTEPS)
@given(data=st.data())
def test_weights_stay_finite_whatever_was_released(name, data):
    network = DenseNetwork([3, 2], source=SeededNoise(0))
    updater = WSTEPS[name].start(network, 3)
    for _ in range(3):
        slope, bend = data.draw(released(2, 4)), data.draw(released(2, 4, 4, symmetric=True))
        constant = data.draw(released(1))
        polynomial = Polynomial(network.weight_layers[0].matrix(), slope, bend, constant)
        updater.apply([polynomial.floored()])
        assert all(weight.isfinite().all() for weight in network.parameters())
        assert all(weight.isfinite().all() for weight in updater.model.parameters())


@given(st.integers(0, 2**32))
def test_weights_stay_finite_at_order_one_in_single_precision(seed):
    network = DenseNetwork([3, 2], source=SeededNoise(0))
    updater = OptimizerStep(lr=0.1).start(network, 2)
    for size in (3e38, 1e-30):
        slope = (SeededNoise(seed).normal((2, 4)).clamp(-1, 1) * size).float()
        updater.apply([Polynomial(network.weight_layers[0].matrix, slope)])
        assert all(weight.isfinite().all() for weight in network.parameters())


@given(released(4))
def test_adaptive_thresholds_stay_within_what_a_bound_takes(counts):
    bound = AdaptiveQuantile(rate=9.9)
    for _ in range(2):
        bound = bound.learned({f"layer {place} within": count[None] for place, count in enumerate(counts)})
    assert all(1e-30 <= threshold <= 1e30 for threshold in bound.threshold)


@pytest.mark.parametrize("loss", ["squared", "softmax", "sigmoid"])
@pytest.mark.parametrize("size", [1e10, WEIGHT])
def test_proven_sensitivities_of_enormous_weights_are_ones_that_a_release_takes(loss, size):
    network = DenseNetwork([3, 4, 2], "tanh", source=SeededNoise(0))
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(size * SeededNoise(1).normal(tuple(weight.shape)).clamp(-1, 1))
    asked = Projected(1.0, constant=True).partitions(network, LOSSES[loss])
    assert all(1e-30 <= partition.scale <= 1e30 for partition in Analytic().promise(asked))


def test_what_no_release_reaches_is_cut_and_nothing_else_is_touched():
    numbers = torch.tensor([1e300, -1e300, float("inf"), float("nan"), 1e37, -3.0, 5e-324], dtype=torch.float64)
    wanted = torch.tensor([LARGEST, -LARGEST, LARGEST, 0.0, 1e37, -3.0, 5e-324], dtype=torch.float64)
    assert torch.equal(tamed(numbers), wanted)
