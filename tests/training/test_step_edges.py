"""Whose code a step runs, what it asks, and which steps count as the same kind when they are tried."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import ROWS
from dpmac.mac import AdamCoordinates, FirstOrder, FixedPrediction, SecondOrder
from dpmac.nets import Activation, DenseNetwork, SoftmaxCrossEntropy, loss
from dpmac.nets.activations import TANH
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import JointClip, Normalise, PerLayerClip, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.training import row_independence
from dpmac.training.step import Step, ours


class Own:
    """Somebody's own."""


class OwnModule(nn.Module):
    pass


def own_tanh(name="tanh"):
    return Activation(name, lambda u: torch.tanh(u), TANH.df, TANH.d2f, nn.Tanh)


def network(*activations):
    sizes = (5, *[4] * len(activations), 3)
    return DenseNetwork(sizes, list(activations) if len(activations) > 1 else activations[0], source=SeededNoise(0))


def holding(threshold):
    """A bound of ours, which checks its threshold, with another all the same."""
    bound = PerLayerClip(1.0)
    object.__setattr__(bound, "threshold", threshold)
    object.__setattr__(bound, "also", 1.0)
    return bound


OURS = [None, True, 1, 1.0, "a", torch.ones(1), TANH, [1, TANH], (), {"a": 1, "b": TANH}, FirstOrder, FirstOrder(),
        PerLayerClip(1.0), PerLayerClip((1.0, 2.0)), network("tanh"), Affine(1.0), nn.Sequential(nn.Linear(1, 1)),
        SoftmaxCrossEntropy(), SoftmaxCrossEntropy]  # fmt: skip
OTHERS = [Own(), Own, OwnModule(), own_tanh(), own_tanh("new"), [1, Own()], (Own(), 1), {"a": 1, "b": Own()},
          {"a": Own(), "b": 1}, holding(Own()), holding((1.0, Own())), network(own_tanh()),
          nn.Sequential(nn.Linear(1, 1), OwnModule()), nn.Sequential(nn.Sequential(OwnModule()))]  # fmt: skip


@pytest.mark.parametrize("piece", OURS, ids=lambda piece: type(piece).__name__)
def test_pieces_of_the_package_and_of_torch_are_ours(piece):
    assert ours(piece)


@pytest.mark.parametrize("piece", OTHERS, ids=lambda piece: type(piece).__name__)
def test_whatever_has_a_piece_of_somebody_elses_is_not(piece):
    assert not ours(piece)


@pytest.mark.parametrize("deep", [False, True])
def test_a_hook_or_a_method_put_in_place_makes_a_module_somebody_elses(deep):
    def module():
        inner = nn.Linear(1, 1)
        return (nn.Sequential(nn.Sequential(inner)) if deep else inner), inner

    for change in (
        lambda m: m.register_forward_hook(lambda *_: None),
        lambda m: m.register_forward_pre_hook(lambda *_: None),
        lambda m: setattr(m, "forward", lambda x: x),
    ):
        whole, inner = module()
        assert ours(whole)
        change(inner)
        assert not ours(whole)
    for register in ("register_module_forward_hook", "register_module_forward_pre_hook"):
        handle = getattr(nn.modules.module, register)(lambda *_: None)
        assert not ours(module()[0])
        handle.remove()
        assert ours(module()[0])


# --- queries ----------------------------------------------------------------------------------------------------------


class Moving(JointClip):
    """A bound of somebody's own that promises something else when it likes."""

    now = 1.0

    def promise(self, partitions):
        return JointClip(Moving.now).promise(partitions)


def step(problem, **pieces):
    usual = {"zstep": FixedPrediction(), "expansion": FirstOrder(), "bound": PerLayerClip(1.0)}
    return Step(problem.network, problem.loss, **{**usual, **pieces})


def test_the_same_query_is_asked_as_long_as_its_promise_is_the_same():
    problem = make_problem((5, 4, 3))
    for one in (step(problem), step(problem, expansion=SecondOrder()), step(problem, bound=Moving(1.0))):
        assert one.query() is one.query()
    own = step(problem, bound=Moving(1.0))
    first = own.query()
    Moving.now = 2.0
    try:
        assert own.query() is not first
        assert own.query().partitions == JointClip(2.0).promise(FirstOrder().partitions(problem.network, problem.loss))
    finally:
        Moving.now = 1.0


def test_what_a_step_has_asked_does_not_go_to_a_copy_with_other_pieces():
    """Else the copy would go out under the promise of the first one's bound."""
    problem = make_problem((5, 4, 3))
    first = step(problem, bound=PerLayerClip(1.0))
    first.query()
    other = replace(first, bound=PerLayerClip(0.25))
    assert other.query().partitions == step(problem, bound=PerLayerClip(0.25)).query().partitions
    assert other.query().partitions != first.query().partitions
    assert first == step(problem, bound=PerLayerClip(1.0))
    assert repr(first) == repr(step(problem, bound=PerLayerClip(1.0)))


def test_what_a_query_reads_are_all_weights_and_buffers_and_of_somebody_elses_nobody_knows():
    problem, feature_map = make_problem((5, 4, 3)), Affine(1.0)
    feature_map.register_buffer("more", torch.ones(1))
    weights = list(problem.network.parameters())
    assert [id(t) for t in step(problem).query().reads] == [id(t) for t in weights]
    assert [id(t) for t in step(problem, feature_map=feature_map).query().reads][: len(weights)] == [
        id(t) for t in weights
    ]
    assert any(t is feature_map.more for t in step(problem, feature_map=feature_map).query().reads)
    assert step(problem, bound=Moving(1.0)).query().reads is None


def test_slopes_come_in_the_networks_precision_and_everything_else_in_double():
    problem = make_problem((5, 4, 3))
    problem.network.float()
    assert step(problem).dtype == torch.float32
    assert step(problem, expansion=SecondOrder()).dtype == torch.float64


# --- trying -----------------------------------------------------------------------------------------------------------


def kind(problem, **pieces):
    return row_independence._kind(step(problem, **pieces), PrivateRows(problem.x, problem.y).blank(ROWS))


def test_steps_are_of_one_kind_only_if_all_their_pieces_compute_alike():
    problem = make_problem((5, 4, 3))
    others = [make_problem((5, 6, 3)), make_problem((5, 4, 3), "relu"), make_problem((5, 4, 3), loss_name="sigmoid")]
    single = make_problem((5, 4, 3))
    single.network.float()
    kinds = [
        kind(problem), *map(kind, others), kind(single), kind(problem, bound=Normalise()), kind(problem,
        expansion=SecondOrder()), kind(problem, zstep=AdamCoordinates()), kind(problem, feature_map=Affine()),
    ]  # fmt: skip
    assert len(set(kinds)) == len(kinds)
    assert kind(problem, bound=PerLayerClip(2.0)) == kind(problem)  # thresholds are learned, step after step
    assert kind(problem, bound=Moving(1.0)) is None


def test_no_more_kinds_are_remembered_than_there_is_room_for_and_never_somebody_elses(monkeypatch):
    problem = make_problem((5, 4, 3))
    table = PrivateRows(problem.x, problem.y)
    passed: set[object] = set()
    monkeypatch.setattr(row_independence, "_PASSED", passed)
    monkeypatch.setattr(row_independence, "MAX_CACHED", 1)
    row_independence.check_step(step(problem, bound=Moving(1.0)), table)
    assert passed == set()
    for bound in (PerLayerClip(1.0), Normalise()):
        row_independence.check_step(step(problem, bound=bound), table)
        assert passed == {kind(problem)}


class Quiet(SoftmaxCrossEntropy):
    """A loss that says nothing of its targets."""

    def __getattribute__(self, name):
        if name == "free_targets":
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_made_up_targets_are_classes_where_the_loss_takes_classes(monkeypatch):
    asked = []
    monkeypatch.setattr(row_independence, "_PASSED", set())
    monkeypatch.setattr(row_independence, "trials", lambda blank, classes: asked.append(classes) or [])
    monkeypatch.setattr(row_independence, "fault_of", lambda *_: None)
    problem = make_problem((5, 4, 3))
    for some in (problem.loss, loss("squared"), Quiet()):
        row_independence.check_step(replace(step(problem), loss=some), PrivateRows(problem.x, problem.y))
    assert asked == [True, False, False]


@dataclass(frozen=True)
class Levelled(FixedPrediction):
    """Coordinates of unit spread over the batch."""

    def solve(self, network, loss, x, y):
        found = super().solve(network, loss, x, y)
        return replace(found, inputs=tuple(z / z.norm(dim=0) for z in found.inputs))


class OverTheLargest(SoftmaxCrossEntropy):
    def slope(self, u, target):
        slope = super().slope(u, target)
        return slope / slope.abs().amax()


def test_the_piece_is_named_in_a_network_of_one_layer_and_without_targets():
    one = make_problem((5, 3))
    with pytest.raises(ArgumentError, match=r"^loss="):
        row_independence.check_step(replace(step(one), loss=OverTheLargest()), PrivateRows(one.x, one.y))
    back = make_problem((5, 4, 5), loss_name="squared")
    with pytest.raises(ArgumentError, match=r"^zstep="):
        row_independence.check_step(step(back, zstep=Levelled()), PrivateRows(back.x))
