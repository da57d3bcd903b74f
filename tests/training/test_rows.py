"""Rows as the trainer takes them: looked over before anything is spent, with targets or without, raw or in a table."""

from __future__ import annotations

import math

import pytest
import torch

from conftest import Problem, make_images, make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import FixedPrediction
from dpmac.nets import Conv2d, Dense, Flatten, Network, Unflatten, loss
from dpmac.nets.feature_maps import Affine, LowFrequencies, ToRange
from dpmac.privacy import Ledger, Plan, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer


def trainer_for(problem, steps=3, **more):
    plan = Plan(len(problem.x), 6.0, steps, 1.0, 1e-5)
    return Trainer(problem.network, problem.loss, plan, FixedPrediction(), source=SeededNoise(0), **more)


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def autoencoder():
    problem = make_problem((5, 3, 5), loss_name="squared")
    problem.y = None
    return problem


BAD = [
    (lambda p: (p.x.float(), p.y), "x=torch.float32: the weights are torch.float64"),
    (lambda p: (p.x.long(), p.y), "x=torch.int64"),
    (lambda p: (p.x.numpy(), p.y), "x=dtype.*float64.*: give a floating-point tensor"),
    (lambda p: (p.x[:, :3], p.y), r"x='shape \(12, 3\)': the network needs shape \(n, 5\)"),
    (lambda p: (p.x[:, 0], p.y), r"x='shape \(12,\)': the network needs shape \(n, 5\)"),
    (lambda p: (p.x, p.y[:, 0]), "y='shape"),
    (lambda p: (p.x, p.y.float()), "y=torch.float32: the weights are torch.float64"),
    (lambda p: (p.x, p.y[:5]), "y='5 rows'"),
    (lambda p: (p.x[:11], p.y[:11]), r"x='11 rows': the plan was made for n=12"),
    (lambda p: (p.x.index_fill(0, torch.tensor([4]), math.nan), p.y), "x=nan: row 4, column 0 is not finite"),
    (lambda p: (p.x, p.y.index_fill(1, torch.tensor([1]), math.inf)), "y=inf: row 0, column 1 is not finite"),
    (lambda p: (p.x, p.y + 1), r"y='entries outside \[0, 1\]'"),
    (lambda p: (p.x, p.y / 2), "y='rows that do not sum to 1'"),
    (lambda p: (p.x,), r"y='shape \(12, 5\)': an autoencoder must give back its inputs, of shape \(5,\): give targets"),
    (lambda p: (PrivateRows(p.x, p.y), p.y), "y='a tensor': a private table holds its targets already"),
    (lambda p: (PrivateRows(p.x),), r"y='shape \(12, 5\)': an autoencoder must give back"),
    (lambda p: (PrivateRows(p.x[:, :2], p.y),), r"x='shape \(12, 2\)': the network needs shape \(n, 5\)"),
    (lambda p: (PrivateRows(p.x, p.x),), r"y='shape \(12, 5\)': the network needs shape \(n, 4\)"),
    (lambda p: (PrivateRows(p.x[:9], p.y[:9]),), r"x='9 rows': the plan was made for n=12"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_rows_are_named_and_nothing_is_spent(problem, spoil, message):
    ledger = Ledger()
    start = flat(problem.network)
    with pytest.raises(ArgumentError, match=message):
        trainer_for(problem).fit(*spoil(problem), ledger=ledger)
    assert len(ledger) == 0
    assert torch.equal(flat(problem.network), start)


@pytest.mark.parametrize(
    ("feature_map", "message"),
    [
        (
            ToRange(torch.zeros(4), 1.0),
            r"x='rows of shape \(5,\)': the feature map 'to-range' needs rows of shape \(4,\)",
        ),
        (
            LowFrequencies(3, 4),
            r"x='rows of shape \(5,\)': the feature map 'low-frequencies' needs rows of shape \(9,\)",
        ),
    ],
)
def test_rows_that_do_not_fit_the_feature_map_are_named_and_nothing_is_spent(problem, feature_map, message):
    for rows in ((problem.x, problem.y), (PrivateRows(problem.x, problem.y),)):
        ledger = Ledger()
        with pytest.raises(ArgumentError, match=message):
            trainer_for(problem, feature_map=feature_map).fit(*rows, ledger=ledger)
        assert len(ledger) == 0


def test_a_feature_map_that_does_not_fit_the_network_is_named(problem):
    images = torch.zeros(12, 9)
    with pytest.raises(
        ArgumentError, match=r"x='inputs of shape \(4,\) from the feature map': .* needs shape \(n, 5\)"
    ):
        trainer_for(problem, feature_map=LowFrequencies(3, 4)).fit(images, problem.y)


def test_rows_may_be_images_and_need_their_shape():
    """Images as they are train as the same numbers in flat rows do, with a feature map too."""
    x, y = SeededNoise(1).normal((12, 2, 4, 4)), torch.eye(3).double()[torch.arange(12) % 3]

    def problem(shape, *before):
        stack = [*before, Conv2d(2, 3, 3), "tanh", Flatten(), Dense(12, 3)]
        network = Network(stack, input_shape=shape, source=SeededNoise(0)).double()
        return Problem(network, loss("softmax"), x.reshape(12, *shape), y)

    images, rows = problem((2, 4, 4)), problem((32,), Unflatten((2, 4, 4)))
    for feature_map in (None, Affine(0.1, 0.5)):
        ours, theirs = (trainer_for(p, feature_map=feature_map).fit(p.x, y).model for p in (images, rows))
        assert torch.equal(flat(ours), flat(theirs))
    with pytest.raises(ArgumentError, match=r"x='shape \(12, 2, 4, 4\)': the network needs shape \(n, 32\)"):
        trainer_for(rows).fit(images.x, y)
    with pytest.raises(ArgumentError, match=r"x='shape \(12, 32\)': the network needs shape \(n, 2, 4, 4\)"):
        trainer_for(images).fit(rows.x, y)
    with pytest.raises(ArgumentError, match=r"x='rows of shape \(2, 4, 4\)': the feature map 'to-range' needs"):
        trainer_for(images, feature_map=ToRange(0.0, 1.0)).fit(images.x, y)


@pytest.mark.parametrize("make", [make_problem, make_images])
def test_a_private_table_trains_as_its_columns_do(make):
    problem = make()
    plain = trainer_for(problem).fit(problem.x, problem.y)
    table = trainer_for(problem).fit(PrivateRows(problem.x, problem.y))
    assert torch.equal(flat(plain.model), flat(table.model))
    assert plain.ledger.entries == table.ledger.entries


def test_without_targets_the_inputs_are_the_targets():
    problem = autoencoder()
    alone = trainer_for(problem).fit(problem.x)
    both = trainer_for(problem).fit(problem.x, problem.x)
    table = trainer_for(problem).fit(PrivateRows(problem.x))
    assert torch.equal(flat(alone.model), flat(both.model))
    assert torch.equal(flat(alone.model), flat(table.model))
    assert not torch.equal(flat(alone.model), flat(trainer_for(problem).fit(problem.x, 2 * problem.x).model))


@pytest.mark.parametrize("feature_map", [ToRange(-1.0, torch.arange(1.0, 10.0)), LowFrequencies(3, 5, 0.1)])
def test_without_targets_and_with_a_feature_map_what_it_gives_is_the_target(feature_map):
    """Applied in every step, or once beforehand: the network learns to give back its own inputs, never the raw rows."""
    width = feature_map.shape_after((9,))[0]
    problem = make_problem((width, 3, width), loss_name="squared")
    raw = SeededNoise(4).normal((12, 9))
    inputs = feature_map(raw)
    ours = trainer_for(problem, feature_map=feature_map).fit(raw)
    table = trainer_for(problem, feature_map=feature_map).fit(PrivateRows(raw))
    theirs = trainer_for(problem).fit(inputs, inputs)
    assert torch.equal(flat(ours.model), flat(table.model))
    assert torch.allclose(flat(ours.model), flat(theirs.model), atol=1e-9)
