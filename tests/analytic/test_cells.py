"""The coefficient functions against Taylor expansions by autograd, and certified sups against what they bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from ascent import F, terms
from torch.func import grad, hessian

from dpmac.analytic.cells import cells
from dpmac.checks import ArgumentError
from dpmac.nets import ACTIVATIONS
from dpmac.randomness import SeededNoise

each_activation = pytest.mark.parametrize("name", sorted(F))


@each_activation
def test_closed_form_coefficients_equal_the_taylor_expansion_in_the_weights(name):
    draw, act = SeededNoise(1), ACTIVATIONS[name]
    for _ in range(5):
        w, x, z = draw.normal((2, 4)), torch.cat([draw.normal((3,)), torch.ones(1).double()]), draw.normal((2,))

        def loss_of(flat, x=x, z=z):
            return (z - F[name](flat.reshape(2, 4) @ x)).square().sum()

        flat = w.reshape(-1)
        first, second = grad(loss_of)(flat), hessian(loss_of)(flat)
        u = w @ x
        f, df, d2f = act.f(u), act.df(u), act.d2f(u)
        p, phi, t = f - df * u + d2f * u**2 / 2, df - d2f * u, df**2 + f * d2f
        r, s = (f - df * u) ** 2 + f * d2f * u**2, f * phi - df**2 * u
        a = loss_of(flat) - flat @ first + flat @ second @ flat / 2
        assert torch.allclose(a, (z**2 - 2 * z * p + r).sum(), atol=1e-9)
        assert torch.allclose(first - second @ flat, (2 * (s - z * phi)[:, None] * x).reshape(-1), atol=1e-9)
        C = torch.block_diag(*[c * torch.outer(x, x) for c in t - z * d2f])
        assert torch.allclose(second / 2, C, atol=1e-9)
        weight, bias = w[:, :3], w[:, 3]
        got = terms(name, weight, bias, x[None, :3], z[None])[:, 0]
        parts = [a, -a, (first - second @ flat).square().sum(), (second / 2).square().sum()]
        assert torch.allclose(got, torch.stack(parts), atol=1e-9)


@each_activation
def test_cells_bound_what_they_claim_to(name):
    reach = 12.0
    grid, act = cells(ACTIVATIONS[name], reach), ACTIVATIONS[name]
    u = torch.cat([torch.linspace(-reach, reach, 200_001).double(), torch.tensor([0.0, -1e-12, 1e-12]).double()])
    f, df, d2f = act.f(u), act.df(u), act.d2f(u)
    phi, r = df - d2f * u, (f - df * u) ** 2 + f * d2f * u**2
    values = {"f": f, "df": df, "d2f": d2f, "p": f - df * u + d2f * u**2 / 2, "phi": phi, "s": f * phi - df**2 * u}
    values = {k: v.abs() for k, v in values.items()} | {"t": (df**2 + f * d2f).abs(), "rise": r, "fall": -r}
    index = grid.index(u, u)
    for key, value in values.items():
        bound = grid.sup(getattr(grid, key), index)
        assert bool((value <= bound + 1e-12).all()), key  # rounding of the values themselves
        everywhere = grid.sup(getattr(grid, key), grid.index(u[:1], -u[:1]))
        assert float(everywhere) <= 1.01 * float(value.max()) + 1e-2, key
    v = u[u.abs() > 1e-6].clone().requires_grad_()  # third derivatives, against autograd
    assert bool((third_of(name, v).abs() <= act.third(v.detach().abs(), v.detach()) + 1e-12).all())


def third_of(name, v):
    value = F[name](v)
    for _ in range(3):
        if not value.requires_grad:
            return torch.zeros_like(v)
        (value,) = torch.autograd.grad(value.sum(), v, create_graph=True, allow_unused=True)
        if value is None:
            return torch.zeros_like(v)
    return value.detach()


def test_cells_say_what_they_do_not_know():
    with pytest.raises(ArgumentError, match="activation='tanh': no bound of its third derivative is known"):
        cells(replace(ACTIVATIONS["tanh"], third=None), 1.0)
    far = torch.tensor([5.0], dtype=torch.float64)
    with pytest.raises(ArgumentError, match=r"reach=5\.0.*: the cells cover"):
        cells(ACTIVATIONS["tanh"], 1.0).index(-far, far)
