"""Adversarial ascent against analytic sensitivities, and the oracle it climbs on.

The per-example coefficients here come from autograd on functions written out below, not from the package's
derivatives: value, first and second derivative of T_n at the current weights.
"""

from __future__ import annotations

import math

import torch

from dpmac.analytic.proofs import layer_sensitivity
from dpmac.analytic.squared_error import certified, general, straight, weight_free
from dpmac.nets import ACTIVATIONS, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from dpmac.nets.activations import SOFTPLUS
from dpmac.randomness import SeededNoise

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


def sound_forms(kind, weight, bias, T):
    D = len(weight)
    if kind in CROSS:
        return {"layer": layer_sensitivity(CROSS[kind], weight, bias, T)}
    forms = {"layer": layer_sensitivity(SquaredError(ACTIVATIONS[kind]), weight, bias, T)}
    forms |= {"general": general(kind, weight, bias, T), "certified": certified(kind, weight, bias, T)}
    if kind == "softplus":
        forms["weight-free"] = weight_free(SOFTPLUS.sups, D, T, bias is not None)
    if kind in ("relu", "identity"):
        forms["weight-free"] = straight(D, T, bias is not None)
    return forms


def assert_within(found, bound, *where):
    """No number of (|a|, ||b||, ||C||) that was found exceeds what is stated."""
    for letter, most, stated in zip("abC", found, as_tuple(bound), strict=True):
        assert most <= stated < math.inf, (letter, *where)
