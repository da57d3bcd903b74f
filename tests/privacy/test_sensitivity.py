"""Analytic sensitivities: adversarial ascent against every bound, and the paper's printed bounds refuted by name.

The per-example coefficients here come from autograd on functions written out below, not from the package's
derivatives: value, first and second derivative of T_n at the current weights.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import grad, hessian

from dpmac.checks import ArgumentError
from dpmac.nets import ACTIVATIONS, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from dpmac.nets.sups import THIRD, cells
from dpmac.privacy import SeededNoise
from dpmac.privacy import sensitivity as sens

F = {
    "identity": lambda u: 1.0 * u,
    "relu": torch.relu,
    "softplus": lambda u: torch.logaddexp(u, torch.zeros_like(u)),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": lambda u: torch.where(u > 0, u, torch.expm1(u.clamp(max=0))),
    "gelu": lambda u: 0.5 * u * (1 + torch.erf(u / math.sqrt(2))),
}
CROSS = {"sigmoid-ce": SigmoidCrossEntropy(), "softmax-ce": SoftmaxCrossEntropy()}


def g_of(kind):
    """The loss of each unit; softmax's is not a sum over units, so its rows' values sit in the first column."""
    if kind == "sigmoid-ce":
        return lambda u, y: torch.logaddexp(u, torch.zeros_like(u)) - y * u
    if kind == "softmax-ce":
        return lambda u, y: torch.logsumexp(u, dim=1, keepdim=True) - (y * u).sum(dim=1, keepdim=True)
    return lambda u, z: (z - F[kind](u)).square()


def derivatives(kind, u, z):
    """g per row, dg/du_h and d2g/du_h^2, differentiable once more."""
    if not u.requires_grad:
        u.requires_grad_()
    g = g_of(kind)(u, z)
    (first,) = torch.autograd.grad(g.sum(), u, create_graph=True)
    second = torch.zeros_like(u)
    if kind == "softmax-ce":
        columns = [torch.autograd.grad(first[:, h].sum(), u, create_graph=True)[0][:, h] for h in range(u.shape[1])]
        second = torch.stack(columns, dim=1)
    elif first.requires_grad:
        (found,) = torch.autograd.grad(first.sum(), u, create_graph=True, allow_unused=True)
        second = second if found is None else found
    return g.sum(dim=1), first, second


def terms(kind, weight, bias, x, z):
    """(4, rows): a, -a, ||b||^2 and ||C||^2 of each example; ``bias`` None leaves the constant 1 out of x too."""
    u = x @ weight.T + (0.0 if bias is None else bias)
    g, first, second = derivatives(kind, u, z)
    size = x.square().sum(dim=1) + (bias is not None)
    a = g + (0.5 * u * u * second - u * first).sum(dim=1)
    b = (first - u * second).square().sum(dim=1) * size
    return torch.stack([a, -a, b, (0.5 * second).square().sum(dim=1) * size.square()])


def unit(v):
    return v / (v.norm(dim=1, keepdim=True) + 1e-300)


def into_ball(v, T):
    return v * (T / v.norm(dim=1, keepdim=True).clamp(min=T))


def vertices(kind, gradient):
    """The targets of cross-entropy at which a function convex in them is largest along ``gradient``."""
    if kind == "sigmoid-ce":
        return (gradient > 0).double()
    return torch.eye(gradient.shape[1], dtype=torch.float64)[gradient.argmax(dim=1)]


def starts(kind, weight, T, draw, pool):
    """Inputs along, nearly across and at random to the units, of all sizes; targets on corners and at random."""
    D, d = weight.shape
    w = unit(weight[(draw.uniform(pool) * D).long().clamp(max=D - 1)])
    x, third = unit(draw.normal((pool, d))), pool // 3
    x[:third] = unit(x[:third] - (x[:third] * w[:third]).sum(1, keepdim=True) * w[:third] + 1e-3 * x[-third:])
    x[third : 2 * third] = unit(0.3 * x[third : 2 * third] + torch.sign(draw.normal((third, 1))) * w[third : 2 * third])
    radius = draw.uniform(pool).reshape(-1, 1)
    x = T * x * torch.where(radius < 0.5, 1.0, 10 ** (-8 * (radius - 0.5)))
    corners = torch.eye(D, dtype=torch.float64)[(draw.uniform(pool) * D).long().clamp(max=D - 1)]
    if kind in CROSS:
        return x, corners if kind == "softmax-ce" else (draw.normal((pool, D)) > 0).double()
    z = T * unit(draw.normal((pool, D)))
    z[::2] = T * (corners * torch.sign(draw.normal((pool, 1))))[::2]
    return x, z


def ascend(kind, weight, bias, T, seed=0, pool=240, keep=10, steps=24):
    """Largest |a|, ||b||, ||C|| found: the best of a pool, then projected gradient ascent on the input.

    a, ||b||^2 and ||C||^2 are convex in the target, so jumping to the best target along the gradient never descends;
    -a is concave in it and takes gradient steps.
    """
    x, z = starts(kind, weight, T, SeededNoise(seed, "/ascent"), pool)
    x, z, which = x.repeat(4, 1), z.repeat(4, 1), torch.arange(4).repeat_interleave(pool)
    best = torch.zeros(4, dtype=torch.float64)
    for step in range(steps + 3):
        x, z = x.detach().requires_grad_(), z.detach().requires_grad_()
        found = terms(kind, weight, bias, x, z)
        best = torch.maximum(best, found.detach().amax(dim=1))
        value = found.gather(0, which[None])[0]
        if step == 2:
            order = torch.cat([q * pool + value.detach()[which == q].topk(keep).indices for q in range(4)])
            x, z, which = x.detach()[order], z.detach()[order], which[order]
            continue
        by_x, by_z = torch.autograd.grad(value.sum(), (x, z), allow_unused=True)
        rate = 0.3 * T * 0.8 ** (step - 3) if step > 2 else 0.0
        with torch.no_grad():
            x = into_ball(x + rate * unit(by_x), T)
            if kind in CROSS:
                z = vertices(kind, by_z)
            else:
                jump = ((which != 1) & (by_z.norm(dim=1) > 0))[:, None]
                z = torch.where(jump, T * unit(by_z), into_ball(z + max(rate, 0.1 * T) * unit(by_z), T))
    return max(float(best[0]), float(best[1])), math.sqrt(best[2]), math.sqrt(best[3])


def layer(D, d, scale, offset, seed):
    draw = SeededNoise(seed, "/layer")
    return scale * draw.normal((D, d)) / math.sqrt(d), offset * draw.normal((D,))


def as_tuple(s):
    return s.a, s.b, s.C


# --- the oracle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(F))
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


@pytest.mark.parametrize("name", sorted(F))
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
    assert bool((third_of(name, v).abs() <= THIRD[name](v.detach().abs(), v.detach()) + 1e-12).all())


def third_of(name, v):
    value = F[name](v)
    for _ in range(3):
        if not value.requires_grad:
            return torch.zeros_like(v)
        (value,) = torch.autograd.grad(value.sum(), v, create_graph=True, allow_unused=True)
        if value is None:
            return torch.zeros_like(v)
    return value.detach()


# --- ascent against every bound ---------------------------------------------------------------------------------------

SHAPES = [(1, 4), (3, 2), (4, 8), (8, 3), (24, 6), (1, 1)]
CASES = [
    (D, d, T, scale, offset)
    for D, d in SHAPES
    for T, scale, offset in [(1.0, 0.0, 1.0), (0.3, 3.0, 0.5), (1.0, 1.0, 0.0), (1.0, 1.0, None), (4.0, 1.5, 1.0)]
]


def sound_forms(kind, weight, bias, T):
    D = len(weight)
    if kind in CROSS:
        return {"layer": sens.layer_sensitivity(CROSS[kind], weight, bias, T)}
    forms = {"layer": sens.layer_sensitivity(SquaredError(ACTIVATIONS[kind]), weight, bias, T)}
    forms |= {"general": sens.general(kind, weight, bias, T), "certified": sens.certified(kind, weight, bias, T)}
    free = {"softplus": sens.softplus_weight_free, "relu": sens.relu, "identity": sens.identity}
    if kind in free:
        forms["weight-free"] = free[kind](D, T, bias is not None)
    return forms


def allowed(kind, letter, D, d):
    """How loose a bound may be: 1.5, but for the cases below, where no claim of tightness is made.

    a of many units: their sizes are tied by one number, the spectral norm, and r grows like u^4. One input (d = 1):
    every unit is a multiple of it, which only intervals and ||u|| are made to say. Softmax: rows share a normaliser.
    """
    if kind == "softmax-ce" or d == 1:
        return math.inf
    return 2.6 if letter == "a" and D > 3 else 1.5


@pytest.mark.parametrize("kind", sorted(F) + sorted(CROSS))
def test_no_ascent_exceeds_any_bound_and_the_certified_one_is_tight(kind):
    loose = []
    for seed, (D, d, T, scale, offset) in enumerate(CASES):
        weight, bias = layer(D, d, scale, offset or 0.0, seed)
        bias = None if offset is None else bias
        found = ascend(kind, weight, bias, T, seed)
        for name, bound in sound_forms(kind, weight, bias, T).items():
            for letter, most, stated in zip("abC", found, as_tuple(bound), strict=True):
                assert most <= stated, (kind, name, letter, D, d, T, scale, offset)
                if name == ("certified" if kind in F else "layer") and stated > allowed(kind, letter, D, d) * most:
                    loose.append((stated / most, letter, D, d, T, scale, offset))
    assert not loose


def test_large_and_tiny_layers_are_bounded_and_ordered():
    for kind in F:
        for D, d, T, scale in [(40, 3, 30.0, 5.0), (2, 2, 1e-3, 1.0), (3, 3, 100.0, 1.0)]:
            weight, bias = layer(D, d, scale, 1.0, 7)
            found = ascend(kind, weight, bias, T, pool=120, keep=4, steps=6)
            for bound in sound_forms(kind, weight, bias, T).values():
                assert all(most <= stated < math.inf for most, stated in zip(found, as_tuple(bound), strict=True))


def test_single_precision_weights_and_larger_radii_give_no_smaller_bounds():
    weight, bias = layer(6, 5, 1.0, 0.3, 0)
    for act in F:
        one = sens.certified(act, weight.float(), bias.float(), 1.0)
        two = sens.certified(act, weight.float().double(), bias.float().double(), 1.0)
        assert one == two
        wide = sens.certified(act, weight, bias, 2.0)
        assert all(s < 1.001 * w for s, w in zip(as_tuple(one), as_tuple(wide), strict=True))


@pytest.mark.parametrize("kind", [*sorted(F), *sorted(CROSS)])
def test_dropping_any_row_of_a_table_moves_the_sums_by_no_more_than_stated(kind):
    for seed, (D, d, T) in enumerate([(3, 4, 1.0), (5, 2, 2.0)]):
        weight, bias = layer(D, d, 1.5, 0.5, seed)
        draw = SeededNoise(seed, "/table")
        x = into_ball(2 * T * draw.normal((6, d)), T)
        z = into_ball(2 * T * draw.normal((6, D)), T)
        z = torch.softmax(3 * z, dim=1) if kind == "softmax-ce" else z.abs().clamp(max=1) if kind in CROSS else z

        def sums(x, z, weight=weight, bias=bias):
            u = (x @ weight.T + bias).detach()
            g, first, second = derivatives(kind, u, z)
            one = torch.cat([x, torch.ones(len(x), 1).double()], dim=1)
            a = (g + (0.5 * u * u * second - u * first).sum(dim=1)).sum()
            b = torch.einsum("nh,ni->hi", first - u * second, one)
            return a, b, torch.einsum("nh,ni,nj->hij", 0.5 * second, one, one)

        whole = sums(x, z)
        for row in range(6):
            rest = sums(*(torch.cat([v[:row], v[row + 1 :]]) for v in (x, z)))
            moved = [float((p - q).detach().norm()) for p, q in zip(whole, rest, strict=True)]
            for bound in sound_forms(kind, weight, bias, T).values():
                assert all(m <= s for m, s in zip(moved, as_tuple(bound), strict=True))


# --- the paper's printed bounds (appendices E to H), without 1/(2S) ---------------------------------------------------


def printed_sups(weight, T, name="softplus"):
    """alpha = f(||w|| T), beta = f'(||w|| T), ||w||: the paper's notation; nothing for a bias."""
    norms = weight.norm(dim=1)
    return ACTIVATIONS[name].f(norms * T), ACTIVATIONS[name].df(norms * T), norms


def printed_delta_a_k1(weight, T):
    alpha, beta, _ = printed_sups(weight, T)
    return float(T**2 + 2 * T * alpha.norm() + beta.norm() ** 2)


def printed_delta_a_k2(weight, T):
    alpha, beta, w = printed_sups(weight, T)
    return float(2 * T * (T * (beta * w).norm() + (alpha * beta * w).sum()))


def printed_delta_a_k3(weight, T):
    alpha, beta, w = printed_sups(weight, T)
    return float(T**2 / 4 * (T * w.square().norm() + ((4 * beta**2 + alpha) * w**2).sum()))


def printed_delta_a_k(weight, T):
    return printed_delta_a_k1(weight, T) + printed_delta_a_k2(weight, T) + printed_delta_a_k3(weight, T)


def printed_delta_b_k1_squared(weight, T):
    alpha, beta, _ = printed_sups(weight, T)
    cross = min(float(alpha.sum()), math.sqrt(len(alpha)) * float((alpha * beta**2).max()))
    return float(2 * T**2 * ((alpha * beta).norm() ** 2 + 2 * T * cross + T**2))


def printed_delta_b_k2_squared(weight, T):
    alpha, beta, w = printed_sups(weight, T)
    return float(T**4 / 8 * (T**2 * w.norm() ** 2 + ((4 * beta**2 + alpha) * w).norm() ** 2))


def printed_delta_b_k(weight, T):
    return math.sqrt(printed_delta_b_k1_squared(weight, T) + printed_delta_b_k2_squared(weight, T))


def printed_delta_c_k(weight, T):
    alpha, beta, _ = printed_sups(weight, T)
    return float(T**2 / 2 * (T**2 + (4 * beta**2 + alpha).norm() ** 2).sqrt())


def printed_output(weight, T):
    alpha, beta, w = printed_sups(weight, T)
    a = alpha.sum() + T * (w * beta).sum() + T**2 / 8 * w.norm() ** 2
    b = T * (len(w) + 2 * T * (beta * w).sum() + T**2 * w.norm() ** 2 / 16).sqrt()
    return float(a), float(b), math.sqrt(len(w)) * T**2 / 8


def pieces(weight, x, z, bias=None):
    """|a_k1|, |a_k2|, |a_k3|, |a|, ||b_k1||^2, ||b_k2||^2, ||b||, ||C|| of one example under softplus."""
    x, z = torch.atleast_2d(x).double(), torch.atleast_2d(z).double()
    u = x @ weight.T + (0.0 if bias is None else bias)
    g, first, second = (v.detach() for v in derivatives("softplus", u, z))
    u = u.detach()
    _, _, b, C = terms("softplus", weight, bias, x, z).detach()[:, 0].tolist()
    a2, a3 = float((u * first).sum()), float((0.5 * u * u * second).sum())
    size = float(x.square().sum()) + (bias is not None)
    squares = float(first.square().sum()) * size, float((second * u).square().sum()) * size
    return abs(float(g)), abs(a2), abs(a3), abs(float(g) - a2 + a3), *squares, math.sqrt(b), math.sqrt(C)


def scalar(value):
    return torch.tensor([[value]], dtype=torch.float64)


ZERO_100 = torch.zeros(100, 1, dtype=torch.float64)  # all weights of 100 units are 0
SPREAD = torch.full((1, 100), -0.1, dtype=torch.float64)  # a target of norm 1


@pytest.mark.parametrize(
    ("printed", "piece", "weight", "x", "z", "truth", "stated"),
    [
        (printed_delta_a_k1, 0, scalar(5.0), scalar(1.0), scalar(-1.0), 36.08, 12.00),
        (printed_delta_a_k, 3, ZERO_100, scalar(1.0), SPREAD, 62.91, 39.86),
        (printed_delta_b_k1_squared, 4, scalar(5.0), scalar(1.0), scalar(-1.0), 142.4, 71.2),
        (printed_delta_b_k2_squared, 5, scalar(0.139), scalar(1.0), scalar(-1.0), 0.0407, 0.0112),
        (printed_delta_b_k, 6, ZERO_100, scalar(1.0), SPREAD, 7.93, 5.74),
    ],
)
def test_printed_bounds_that_are_too_small(printed, piece, weight, x, z, truth, stated):
    assert pieces(weight, x, z)[piece] == pytest.approx(truth, rel=2e-2)
    assert printed(weight, 1.0) == pytest.approx(stated, rel=2e-2)
    assert pieces(weight, x, z)[piece] > 1.2 * printed(weight, 1.0)
    ours = sens.certified("softplus", weight, None, 1.0)
    assert pieces(weight, x, z)[3] <= ours.a
    assert pieces(weight, x, z)[6] <= ours.b


def test_the_corrected_a_k1_holds():
    for seed in range(20):
        weight, draw = layer(3, 2, 3.0, 0.0, seed)[0], SeededNoise(seed)
        alpha, _, _ = printed_sups(weight, 1.0)
        x, z = unit(draw.normal((1, 2))), unit(draw.normal((1, 3)))
        assert pieces(weight, x, z)[0] <= (1 + float(alpha.norm())) ** 2


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_printed_bounds_that_hold_do_hold(T):
    """a_k2, a_k3, C_k and the output layer's, with softplus (resp. y in [0, 1]) and no bias."""
    for seed, (D, d, scale) in enumerate([(1, 1, 5.0), (3, 2, 1.0), (6, 4, 0.3), (4, 2, 4.0)]):
        weight = layer(D, d, scale, 0.0, seed)[0]
        assert ascend("softplus", weight, None, T, seed)[2] <= printed_delta_c_k(weight, T)
        found = ascend("sigmoid-ce", weight, None, T, seed)
        assert all(m <= s for m, s in zip(found, printed_output(weight, T), strict=True))
        x, z = starts("softplus", weight, T, SeededNoise(seed), 300)
        for row in range(300):
            _, a2, a3, *_ = pieces(weight, x[row], z[row])
            assert a2 <= printed_delta_a_k2(weight, T) * (1 + 1e-12)  # attained: leave room for rounding
            assert a3 <= printed_delta_a_k3(weight, T) * (1 + 1e-12)


def test_with_a_bias_the_printed_bounds_fail():
    """W = 0, bias 3: the printed forms see f(0) and T. (The output's a is the exception: it never passes D ln 2.)"""
    weight, bias, T = torch.zeros(2, 3).double(), torch.full((2,), 3.0).double(), 0.1
    found = ascend("softplus", weight, bias, T)
    printed = printed_delta_a_k(weight, T), printed_delta_b_k(weight, T), printed_delta_c_k(weight, T)
    # a shrinks with the bias; its pieces do not: two of the three printed pieces are 0 here
    assert pieces(weight, torch.zeros(3), torch.zeros(2), bias)[1] > printed_delta_a_k2(weight, T) == 0.0
    assert all(m > 2 * p for m, p in zip(found[1:], printed[1:], strict=True))
    output = ascend("sigmoid-ce", weight, bias, T)
    assert all(m > 1.1 * p for m, p in zip(output[1:], printed_output(weight, T)[1:], strict=True))
    assert output[0] <= printed_output(weight, T)[0]
    for kind, most in (("softplus", found), ("sigmoid-ce", output)):
        for bound in sound_forms(kind, weight, bias, T).values():
            assert all(m <= s for m, s in zip(most, as_tuple(bound), strict=True))


def test_the_slope_at_the_largest_pre_activation_is_not_the_largest_slope():
    """The paper's f'(u) <= f'(||w|| T) is false for tanh (and sigmoid, GELU); plugged into C it breaks the bound."""
    for name, at in (("tanh", 0.0), ("sigmoid", 0.0), ("gelu", 1.4)):
        slope = ACTIVATIONS[name].df
        assert float(slope(scalar(at))) > float(slope(scalar(4.0)))
    weight = torch.tensor([[4.0, 0.0]]).double()
    alpha, beta, _ = printed_sups(weight, 1.0, "tanh")
    gamma = 4 / (3 * math.sqrt(3))
    with_endpoints = float(beta**2 + alpha * ACTIVATIONS["tanh"].d2f(weight[:, :1]).abs().squeeze()) + gamma
    assert ascend("tanh", weight, None, 1.0)[2] > with_endpoints
    assert ascend("tanh", weight, None, 1.0)[2] <= sens.general("tanh", weight, None, 1.0).C


# --- closed forms and arguments ---------------------------------------------------------------------------------------


def test_closed_forms_of_the_specification():
    D, T = 50, 2.0
    T_in, log2 = math.sqrt(T * T + 1), math.log(2)
    weight, bias = layer(D, 4, 1.0, 0.5, 0)
    free = T * T + 2 * log2 * math.sqrt(D) * T + 1.2779 * D, T_in * (log2 * math.sqrt(D) + 2 * T)
    want = (*free, T_in**2 * (1.04534 * math.sqrt(D) + T / 4))
    assert as_tuple(sens.softplus_weight_free(D, T, True)) == pytest.approx(want, rel=1e-4)
    for form in (sens.relu, sens.identity):
        assert as_tuple(form(D, T, True)) == pytest.approx((T * T, 2 * T * T_in, math.sqrt(D) * T_in**2), rel=2e-6)
        assert form(D, T, False).b == pytest.approx(2 * T * T, rel=2e-6)
    rho = weight.norm(dim=1) * T + bias.abs()
    phi = torch.sigmoid(rho) - rho * torch.sigmoid(rho) * torch.sigmoid(-rho)
    got = sens.sigmoid_cross_entropy(weight, bias, T)
    want = D * log2, T_in * float(phi.norm()), math.sqrt(D) * T_in**2 / 8
    assert all(g <= w * (1 + 2e-6) for g, w in zip(as_tuple(got), want, strict=True))
    assert got.b == pytest.approx(want[1], rel=1e-5)


@pytest.mark.parametrize("T_z", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_bad_radius(T_z):
    weight, bias = layer(3, 2, 1.0, 1.0, 0)
    for call in (
        lambda: sens.general("tanh", weight, bias, T_z),
        lambda: sens.certified("tanh", weight, bias, T_z),
        lambda: sens.layer_sensitivity(SoftmaxCrossEntropy(), weight, bias, T_z),
        lambda: sens.sigmoid_cross_entropy(weight, bias, T_z),
        lambda: sens.softplus_weight_free(3, T_z, True),
        lambda: sens.relu(3, T_z, False),
    ):
        with pytest.raises(ArgumentError, match=r"T_z=.*: give a finite number above 0"):
            call()


def test_bad_layers_losses_and_counts():
    weight, bias = layer(3, 2, 1.0, 1.0, 0)
    loss = SquaredError(ACTIVATIONS["tanh"])
    for bad in (weight[0], weight[:0], [[1.0]]):
        with pytest.raises(ArgumentError, match=r"weight=.*give a matrix of shape \(units, inputs\)"):
            sens.layer_sensitivity(loss, bad, bias, 1.0)
    for bad in (bias[:2], weight, 0.5):
        with pytest.raises(ArgumentError, match=r"bias=.*give a vector of 3 numbers"):
            sens.layer_sensitivity(loss, weight, bad, 1.0)
    for bad in (math.nan, math.inf):
        spoilt = weight.clone()
        spoilt[1, 1] = bad
        with pytest.raises(ArgumentError, match=rf"weight={bad}: every entry must be finite"):
            sens.certified("relu", spoilt, bias, 1.0)
        with pytest.raises(ArgumentError, match=rf"bias={bad}: every entry must be finite"):
            sens.general("relu", weight, torch.full_like(bias, bad), 1.0)
    with pytest.raises(ArgumentError, match=r"must not exceed 1e30"):
        sens.certified("tanh", 1e31 * weight, bias, 1.0)
    with pytest.raises(ArgumentError, match=r"D=0: give the number of units"):
        sens.softplus_weight_free(0, 1.0, True)
    with pytest.raises(ArgumentError, match=r"activation='swish': choose one of"):
        sens.general("swish", weight, bias, 1.0)
    with pytest.raises(ArgumentError, match=r"loss='hinge': no sensitivity is proven"):
        sens.layer_sensitivity("hinge", weight, bias, 1.0)
