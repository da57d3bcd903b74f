"""Order 2: slopes and curvatures against autograd's Taylor expansion, and what they cost."""

from __future__ import annotations

import pytest
import torch

from conftest import make_images, make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, FixedPrediction, Polynomial, SecondOrder
from dpmac.mac.coordinates import problems_of
from dpmac.nets import ACTIVATIONS
from dpmac.nets.layers import with_one

CASES = [(act, "softmax") for act in ACTIVATIONS] + [("tanh", "squared"), ("softplus", "sigmoid")]


def answer_of(expansion, problem, coordinates):
    """What a release without noise and without a bound would answer."""
    parts = expansion.parts(problem.network, problem.loss, coordinates)
    asked = expansion.partitions(problem.network, problem.loss)
    assert [p.shape for p in parts] == [p.shape for p in asked]
    return {p.name: part.total() for p, part in zip(asked, parts, strict=True)}


@pytest.mark.parametrize(("hidden", "loss_name"), CASES)
def test_it_equals_autograds_taylor_expansion(hidden, loss_name):
    """Value, slope and Hessian of T_n(w) in the weights, by torch.func, one example and one layer at a time."""
    problem = make_problem((4, 3, 3), hidden, loss_name, rows=5)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = SecondOrder(constant=True).parts(problem.network, problem.loss, coordinates)
    for k, layer in enumerate(problems_of(problem.network, problem.loss)):
        slope, bend, value = parts[3 * k : 3 * k + 3]
        units = slope.shape[0]
        at = layer.stage.layer.matrix()
        for n in range(5):

            def loss_of(weights, k=k, n=n, layer=layer):
                u = torch.nn.functional.linear(coordinates.inputs[k][n : n + 1], weights[:, :-1], weights[:, -1])
                return layer.loss.value(u, coordinates.targets[k][n : n + 1])[0]

            hessian = torch.func.hessian(loss_of)(at)
            diagonal = torch.stack([hessian[h, :, h, :] for h in range(units)])
            ours = bend.weights[n].reshape(-1, 1, 1) * torch.outer(bend.inputs[n], bend.inputs[n])
            assert torch.allclose(ours, diagonal, atol=1e-9)
            if layer.loss.name != "softmax":  # whose units share a normaliser; elsewhere the blocks are all there is
                hidden_rest = hessian - torch.einsum("hij,hk->hikj", diagonal, torch.eye(units, dtype=torch.float64))
                assert hidden_rest.abs().max() < 1e-9
            assert torch.allclose(
                torch.outer(slope.left[n], with_one(slope.right[n])), torch.func.grad(loss_of)(at), atol=1e-9
            )
            assert float(value.values[n]) == pytest.approx(float(loss_of(at)), abs=1e-12)
            assert float(bend.norms()[n]) == pytest.approx(float(diagonal.norm()), rel=1e-9, abs=1e-12)


def test_the_released_polynomial_is_the_papers_a_b_c():
    """Noiseless sums of g and H give back a + b^T w + w^T C w with the paper's coefficients, built here by hand."""
    problem = make_problem((4, 3, 3), "softplus", "squared", rows=6)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    released = answer_of(SecondOrder(constant=True), problem, coordinates)
    for k, layer in enumerate(problems_of(problem.network, problem.loss)):
        sums = [released[f"layer {k + 1} {what}"] for what in ("slope", "curvature", "constant")]
        polynomial = Polynomial(layer.stage.layer.matrix(), *sums)
        x = torch.cat([coordinates.inputs[k], torch.ones(6, 1, dtype=torch.float64)], dim=1)
        u = x @ polynomial.centre.T
        f, df, d2f = (g(u) for g in (layer.loss.activation.f, layer.loss.activation.df, layer.loss.activation.d2f))
        z = coordinates.targets[k]
        first = -2 * z * df + 2 * f * df  # the paper's dT
        second = -2 * z * d2f + 2 * f * d2f + 2 * df.square()  # the paper's d2T
        b = torch.einsum("nh,ni->hi", first - second * u, x)
        C = 0.5 * torch.einsum("nh,ni,nj->hij", second, x, x)
        a = ((z - f).square() - u * first + 0.5 * u.square() * second).sum()
        ours_b, ours_c = polynomial.coefficients()
        assert torch.allclose(ours_b, b, atol=1e-9)
        assert torch.allclose(ours_c, C, atol=1e-9)
        w = polynomial.centre + 0.2
        written = a + (b * w).sum() + torch.einsum("hi,hij,hj->", w, C, w)
        assert torch.allclose(polynomial.value(w).squeeze(), written, atol=1e-8)


def test_the_polynomials_carry_the_losss_weight_and_the_floor():
    problem = make_problem((4, 3, 3), "tanh", "squared", rows=6)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    expansion = SecondOrder(constant=True, floor=0.3)
    released = answer_of(expansion, problem, coordinates)
    for k, found in enumerate(expansion.polynomials(problem.network, problem.loss, released), start=1):
        assert torch.equal(found.centre, problem.network.weight_layers[k - 1].matrix())
        assert torch.allclose(found.slope, 0.5 * released[f"layer {k} slope"])
        assert torch.allclose(found.constant, 0.5 * released[f"layer {k} constant"])
        raw = Polynomial(found.centre, found.slope, 0.5 * released[f"layer {k} curvature"])
        assert torch.allclose(found.curvature, raw.floored(0.3).curvature)


def test_a_shared_curvature_is_exact_for_a_linear_layer_and_an_upper_bound_elsewhere():
    problem = make_problem((4, 5), "tanh", "squared", rows=8)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)

    def polynomial(expansion, problem):
        answer = answer_of(expansion, problem, coordinates)
        (found,) = expansion.polynomials(problem.network, problem.loss, answer)
        return found

    exact, shared = polynomial(SecondOrder(), problem), polynomial(SecondOrder(shared=True), problem)
    assert torch.allclose(exact.curvature, shared.curvature.expand(5, -1, -1), atol=1e-9)
    for name in ("sigmoid", "softmax"):
        problem = make_problem((4, 5), "tanh", name, rows=8)
        bound = polynomial(SecondOrder(shared=True), problem)
        full = problem.loss.hessian(problem.network(problem.x), problem.y)
        x = torch.cat([problem.x, torch.ones(8, 1, dtype=torch.float64)], dim=1)
        hessian = torch.einsum("nhk,ni,nj->hikj", full, x, x).reshape(25, 25)
        major = torch.kron(torch.eye(5, dtype=torch.float64), bound.curvature[0])
        assert torch.linalg.eigvalsh(major - hessian.detach()).min() > -1e-9


def test_what_cannot_be_is_refused_before_any_row_is_seen():
    problem = make_problem((300, 300, 10))
    with pytest.raises(ArgumentError, match=r"layer 1='300 -> 300'.*207 MiB.*shared=True"):
        SecondOrder(memory=100 << 20).partitions(problem.network, problem.loss)
    assert len(SecondOrder(memory=100 << 20, shared=True).partitions(problem.network, problem.loss)) == 4
    images = make_images()
    with pytest.raises(
        ArgumentError, match=r"expansion='order 2': a conv2d layer has no second order .*FirstOrder\(\)"
    ):
        SecondOrder().partitions(images.network, images.loss)
    for change in ({"floor": -1.0}, {"memory": 0}):
        with pytest.raises(ArgumentError, match=f"{next(iter(change))}="):
            SecondOrder(**change)
