"""Closed forms of the specification, proofs by loss, and arguments that are refused."""

from __future__ import annotations

import math

import pytest
import torch
from ascent import as_tuple, layer

from dpmac.analytic import Sensitivity, layer_sensitivity
from dpmac.analytic.cross_entropy import sigmoid_cross_entropy
from dpmac.analytic.squared_error import certified, general, straight, weight_free
from dpmac.checks import ArgumentError
from dpmac.nets import ACTIVATIONS, SoftmaxCrossEntropy, SquaredError
from dpmac.nets.activations import SOFTPLUS


def test_closed_forms_of_the_specification():
    D, T = 50, 2.0
    T_in, log2 = math.sqrt(T * T + 1), math.log(2)
    weight, bias = layer(D, 4, 1.0, 0.5, 0)
    free = T * T + 2 * log2 * math.sqrt(D) * T + 1.2779 * D, T_in * (log2 * math.sqrt(D) + 2 * T)
    want = (*free, T_in**2 * (1.04534 * math.sqrt(D) + T / 4))
    assert as_tuple(weight_free(SOFTPLUS.sups, D, T, True)) == pytest.approx(want, rel=1e-4)
    assert as_tuple(straight(D, T, True)) == pytest.approx((T * T, 2 * T * T_in, math.sqrt(D) * T_in**2), rel=2e-6)
    assert straight(D, T, False).b == pytest.approx(2 * T * T, rel=2e-6)
    rho = weight.norm(dim=1) * T + bias.abs()
    phi = torch.sigmoid(rho) - rho * torch.sigmoid(rho) * torch.sigmoid(-rho)
    got = sigmoid_cross_entropy(weight, bias, T)
    want = D * log2, T_in * float(phi.norm()), math.sqrt(D) * T_in**2 / 8
    assert all(g <= w * (1 + 2e-6) for g, w in zip(as_tuple(got), want, strict=True))
    assert got.b == pytest.approx(want[1], rel=1e-5)


@pytest.mark.parametrize("T_z", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_bad_radius(T_z):
    weight, bias = layer(3, 2, 1.0, 1.0, 0)
    for call in (
        lambda: general("tanh", weight, bias, T_z),
        lambda: certified("tanh", weight, bias, T_z),
        lambda: layer_sensitivity(SoftmaxCrossEntropy(), weight, bias, T_z),
        lambda: sigmoid_cross_entropy(weight, bias, T_z),
        lambda: weight_free(SOFTPLUS.sups, 3, T_z, True),
        lambda: straight(3, T_z, False),
    ):
        with pytest.raises(ArgumentError, match=r"T_z=.*: give a finite number above 0"):
            call()


def test_bad_layers_losses_and_counts():
    weight, bias = layer(3, 2, 1.0, 1.0, 0)
    loss = SquaredError(ACTIVATIONS["tanh"])
    for bad in (weight[0], weight[:0], [[1.0]]):
        with pytest.raises(ArgumentError, match=r"weight=.*give a matrix of shape \(units, inputs\)"):
            layer_sensitivity(loss, bad, bias, 1.0)
    for bad in (bias[:2], weight, 0.5):
        with pytest.raises(ArgumentError, match=r"bias=.*give a vector of 3 numbers"):
            layer_sensitivity(loss, weight, bad, 1.0)
    for bad in (math.nan, math.inf):
        spoilt = weight.clone()
        spoilt[1, 1] = bad
        with pytest.raises(ArgumentError, match=rf"weight={bad}: every entry must be finite"):
            certified("relu", spoilt, bias, 1.0)
        with pytest.raises(ArgumentError, match=rf"bias={bad}: every entry must be finite"):
            general("relu", weight, torch.full_like(bias, bad), 1.0)
    with pytest.raises(ArgumentError, match=r"must not exceed 1e30"):
        certified("tanh", 1e31 * weight, bias, 1.0)
    with pytest.raises(ArgumentError, match=r"D=0: give the number of units"):
        weight_free(SOFTPLUS.sups, 0, 1.0, True)
    with pytest.raises(ArgumentError, match=r"activation='swish': choose one of"):
        general("swish", weight, bias, 1.0)
    with pytest.raises(ArgumentError, match=r"loss='hinge': no sensitivity is proven"):
        layer_sensitivity("hinge", weight, bias, 1.0)


@pytest.mark.parametrize(("D", "d", "scale"), [(6, 4, 5.0), (1, 1, 1e8)])
def test_the_layers_bound_is_the_tightest_that_holds_for_its_activation(D, d, scale):
    """Straight ones have the closed form for any weights, softplus its sups, which are the tighter for huge ones."""
    weight, bias = layer(D, d, scale, 0.5, 1)
    for name, act in ACTIVATIONS.items():
        assert act.straight == (name in ("identity", "relu"))
        assert (act.sups is not None) == (name == "softplus")
        forms = [certified(act, weight, bias, 2.0), general(act, weight, bias, 2.0)]
        forms += [straight(D, 2.0, True)] if act.straight else []
        forms += [weight_free(act.sups, D, 2.0, True)] if act.sups else []
        got = layer_sensitivity(SquaredError(act), weight, bias, 2.0)
        assert as_tuple(got) == pytest.approx([min(v) for v in zip(*map(as_tuple, forms), strict=True)], rel=1e-12)


def test_a_loss_of_your_own_registers_its_proof():
    class Own:
        pass

    weight, bias = layer(3, 2, 1.0, 1.0, 0)
    with pytest.raises(ArgumentError, match="no sensitivity is proven"):
        layer_sensitivity(Own(), weight, bias, 1.0)
    layer_sensitivity.register(Own, lambda loss, weight, bias, T_z: Sensitivity(1.0, 2.0, T_z))
    assert layer_sensitivity(Own(), weight, bias, 3.0) == Sensitivity(1.0, 2.0, 3.0)
