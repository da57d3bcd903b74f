"""Per-example slopes against autograd, one example at a time."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import AdamCoordinates, FirstOrder, FixedPrediction, Polynomial, SecondOrder, first_order
from dpmac.mac.expansion import weights_of
from dpmac.mac.layers import layers_of
from dpmac.nets import ACTIVATIONS
from dpmac.privacy import PerLayerClip
from dpmac.privacy.bound import SLACK

CASES = [(act, "softmax") for act in ACTIVATIONS] + [("tanh", "squared"), ("softplus", "sigmoid")]


def autograd_slopes(problem, coordinates, n):
    """d T_n / d [W_k, b_k] for every layer of example n, by autograd on that example alone."""
    slopes = []
    for layer, inputs, targets in zip(
        layers_of(problem.network, problem.loss), coordinates.inputs, coordinates.targets, strict=True
    ):
        weight, bias = layer.linear.weight, layer.linear.bias
        value = layer.loss.value(torch.nn.functional.linear(inputs[n : n + 1], weight, bias), targets[n : n + 1])
        by_weight, by_bias = torch.autograd.grad(value.squeeze(0), (weight, bias))
        slopes.append(torch.cat([by_weight, by_bias[:, None]], dim=1))
    return slopes


@pytest.mark.parametrize(("hidden", "loss_name"), CASES)
def test_closed_form_equals_autograd_example_by_example(hidden, loss_name):
    problem = make_problem(hidden=hidden, loss_name=loss_name)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = first_order(problem.network, problem.loss, coordinates)
    assert [p.shape for p in parts] == [b.shape for b in FirstOrder().blocks(problem.network, problem.loss)]
    sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    clipped_sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parts]
    for n in range(len(problem.x)):
        for k, slope in enumerate(autograd_slopes(problem, coordinates, n)):
            assert torch.allclose(torch.outer(parts[k].left[n], parts[k].right[n]), slope, atol=1e-12)
            assert float(parts[k].norms()[n]) == pytest.approx(float(slope.norm()), rel=1e-10, abs=1e-14)
            sums[k] += slope
            clipped_sums[k] += slope * min(1.0, (1 - SLACK) * 0.3 / max(float(slope.norm()), 1e-300))
    clipped = PerLayerClip(0.3).apply(parts)
    for k in range(len(parts)):
        assert torch.allclose(parts[k].total(), sums[k], atol=1e-11)
        assert torch.allclose(clipped[k].total(), clipped_sums[k], atol=1e-11)


@pytest.mark.parametrize("loss_name", ["softmax", "sigmoid", "squared"])
def test_at_fixed_prediction_the_slopes_are_back_propagations_gradients(loss_name):
    problem = make_problem((5, 7, 6, 6, 4), "softplus", loss_name)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    parts = first_order(problem.network, problem.loss, coordinates)
    objective = problem.loss.weight * problem.loss.value(problem.network(problem.x), problem.y).sum()
    objective.backward()
    for layer, part in zip(layers_of(problem.network, problem.loss), parts, strict=True):
        expected = torch.cat([layer.linear.weight.grad, layer.linear.bias.grad[:, None]], dim=1)
        assert torch.allclose(layer.loss.weight * part.total(), expected, atol=1e-12)


@pytest.mark.parametrize(("hidden", "loss_name"), CASES)
def test_second_order_equals_autograds_taylor_expansion(hidden, loss_name):
    """Value, slope and Hessian of T_n(w) in the weights, by torch.func, one example and one layer at a time."""
    problem = make_problem((4, 3, 3), hidden, loss_name, rows=5)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = SecondOrder(constant=True).parts(problem.network, problem.loss, coordinates)
    layers = layers_of(problem.network, problem.loss)
    for k, layer in enumerate(layers):
        slope, bend, value = parts[3 * k : 3 * k + 3]
        units = slope.shape[0]
        at = weights_of(layer)
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
            assert torch.allclose(torch.outer(slope.left[n], slope.right[n]), torch.func.grad(loss_of)(at), atol=1e-9)
            assert float(value.values[n]) == pytest.approx(float(loss_of(at)), abs=1e-12)
            assert float(bend.norms()[n]) == pytest.approx(float(diagonal.norm()), rel=1e-9, abs=1e-12)


def test_the_released_polynomial_is_the_papers_a_b_c():
    """Noiseless sums of g and H give back a + b^T w + w^T C w with the paper's coefficients, built here by hand."""
    problem = make_problem((4, 3, 3), "softplus", "squared", rows=6)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, problem.x, problem.y)
    expansion = SecondOrder(constant=True)
    released = [p.total() for p in expansion.parts(problem.network, problem.loss, coordinates)]
    raw = [
        Polynomial(weights_of(layer), released[3 * k], released[3 * k + 1], released[3 * k + 2])
        for k, layer in enumerate(layers_of(problem.network, problem.loss))
    ]
    for k, (polynomial, layer) in enumerate(zip(raw, layers_of(problem.network, problem.loss), strict=True)):
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


def test_a_shared_curvature_is_exact_for_a_linear_layer_and_an_upper_bound_elsewhere():
    problem = make_problem((4, 5), "tanh", "squared", rows=8)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)

    def polynomials(expansion):
        parts = expansion.parts(problem.network, problem.loss, coordinates)
        return expansion.polynomials(problem.network, problem.loss, [p.total() for p in parts])

    exact, shared = polynomials(SecondOrder()), polynomials(SecondOrder(shared=True))
    assert torch.allclose(exact[0].curvature, shared[0].curvature.expand(5, -1, -1), atol=1e-9)
    for name in ("sigmoid", "softmax"):
        problem = make_problem((4, 5), "tanh", name, rows=8)
        parts = SecondOrder(shared=True).parts(problem.network, problem.loss, coordinates)
        bound = SecondOrder(shared=True).polynomials(problem.network, problem.loss, [p.total() for p in parts])
        full = problem.loss.hessian(problem.network(problem.x), problem.y)
        x = torch.cat([problem.x, torch.ones(8, 1, dtype=torch.float64)], dim=1)
        hessian = torch.einsum("nhk,ni,nj->hikj", full, x, x).reshape(25, 25)
        major = torch.kron(torch.eye(5, dtype=torch.float64), bound[0].curvature[0])
        assert torch.linalg.eigvalsh(major - hessian.detach()).min() > -1e-9


def test_a_curvature_too_large_is_refused_with_its_cost():
    problem = make_problem((300, 300, 10))
    with pytest.raises(ArgumentError, match=r"layer 1='300 -> 300'.*207 MiB.*shared=True"):
        SecondOrder(memory=100 << 20).blocks(problem.network, problem.loss)
    assert len(SecondOrder(memory=100 << 20, shared=True).blocks(problem.network, problem.loss)) == 4
