"""Every Z-step, with every optimiser it may have: each example is alone, and the network stays as it is.

The contract tests try the registered ones; here are the optimisers that have an epsilon, the losses with Hessians of
their own, and rows that overflow.
"""

from __future__ import annotations

import math

import pytest
import torch
from oracles import DEEP, solve

from conftest import make_images, make_problem
from dpmac.mac import AdamCoordinates, ErrorCoordinates, FirstOrder, FixedPrediction, GaussNewton
from dpmac.mac.zsteps.base import ELEMENTWISE
from dpmac.nets.activations import SIGMOID
from dpmac.nets.losses import SquaredError
from dpmac.privacy import Normalise

ZSTEPS = {
    "fixed": FixedPrediction(),
    "gauss-newton": GaussNewton(),
    "gauss-newton, small mu": GaussNewton(1e-3),
    "error": ErrorCoordinates(),
    **{f"error {o.__name__}": ErrorCoordinates(steps=6, lr=0.02, optimizer=o) for o in ELEMENTWISE},
    **{f"adam {o.__name__}": AdamCoordinates(steps=8, lr=0.05, optimizer=o) for o in ELEMENTWISE},
}
each_zstep = pytest.mark.parametrize("zstep", ZSTEPS.values(), ids=ZSTEPS)


def problems_for(zstep, rows):
    """An optimiser treats numbers alike wherever they come from; a closed form follows activation and loss."""
    yield make_images("relu", "softmax", rows)
    if isinstance(zstep, AdamCoordinates | ErrorCoordinates):
        yield make_problem(DEEP, "tanh", "softmax", rows)
        return
    for hidden in ("tanh", "relu", "softplus", "gelu"):
        for loss_name in ("softmax", "sigmoid", "squared"):
            yield make_problem((5, 7, 6, 3, 4), hidden, loss_name, rows)
        odd = make_problem((5, 7, 6, 3, 4), hidden, "squared", rows)
        odd.loss = SquaredError(SIGMOID)
        yield odd


# in double precision all, in single one of every kind: an optimiser's arithmetic is the same in both
PRECISIONS = [
    pytest.param(zstep, dtype, id=f"{name}-{dtype}".replace("torch.", ""))
    for name, zstep in ZSTEPS.items()
    for dtype in (torch.float64, torch.float32)
    if dtype == torch.float64 or getattr(zstep, "optimizer", torch.optim.Adam) is torch.optim.Adam
]


@pytest.mark.parametrize(("zstep", "dtype"), PRECISIONS)
def test_changing_one_row_changes_only_that_rows_coordinates(zstep, dtype):
    """Bit for bit, with outrageous rows and rows that overflow to inf or NaN; a bound makes the latter zero."""
    others = [n for n in range(20) if n != 7]
    for problem in problems_for(zstep, rows=20):
        problem.network.to(dtype)
        x, y = problem.x.to(dtype), problem.y.to(dtype)
        before = solve(problem, zstep, x, y)
        for value in (1.0, 1e6, 1e30, torch.finfo(dtype).max, math.inf, math.nan):
            changed, targets = x.clone(), y.clone()
            changed[7] = x[7].sign() * value
            targets[7] = y[7].roll(1)
            after = solve(problem, zstep, changed, targets)
            for p, q in zip((*before.inputs, *before.targets), (*after.inputs, *after.targets), strict=True):
                assert torch.equal(p[others], q[others])
            assert not torch.equal(before.targets[0][7], after.targets[0][7])
            for part in Normalise().apply(FirstOrder().parts(problem.network, problem.loss, after)):
                assert part.norms().isfinite().all()


@each_zstep
def test_the_rest_of_the_batch_is_not_felt(zstep):
    """The same rows in a smaller batch get the same coordinates, to rounding: no batch size in any loss."""
    for problem in (make_problem(DEEP, rows=20), make_problem(loss_name="squared", rows=20), make_images(rows=20)):
        whole = solve(problem, zstep)
        for rows in (0, 1, 2, 9, 19):
            few = solve(problem, zstep, problem.x[:rows], problem.y[:rows])
            for p, q in zip(whole.targets, few.targets, strict=True):
                assert torch.allclose(p[:rows], q, atol=1e-10)


@each_zstep
def test_a_second_batch_starts_afresh_and_nothing_else_is_touched(zstep):
    for problem in (make_problem(DEEP), make_images()):
        weights = [p.detach().clone() for p in problem.network.parameters()]
        first, second = solve(problem, zstep), solve(problem, zstep)
        for p, q in zip(first.targets, second.targets, strict=True):
            assert torch.equal(p, q)
            assert p.grad is None
            assert not p.requires_grad
        assert first.inputs[0] is problem.x
        assert first.targets[-1] is problem.y
        for before, after in zip(weights, problem.network.parameters(), strict=True):
            assert torch.equal(before, after)
            assert after.grad is None


@pytest.mark.parametrize("zstep", [FixedPrediction(), GaussNewton()])
def test_the_inputs_are_the_forward_values_where_nothing_descends(zstep):
    for problem in (make_problem(DEEP), make_images()):
        found, plain = solve(problem, zstep), list(problem.network.plain())
        value = problem.x
        for k, stage in enumerate(problem.network.stages[:-1]):
            assert torch.allclose(found.inputs[k], value, atol=1e-12)
            for module in plain[: len(stage.carriers) + 2]:
                value = module(value).detach()
            plain = plain[len(stage.carriers) + 2 :]


@each_zstep
def test_a_linear_model_has_no_coordinates(zstep):
    problem = make_problem((5, 4))
    found = solve(problem, zstep)
    assert len(found.inputs) == len(found.targets) == 1
    assert found.inputs[0] is problem.x
    assert found.targets[0] is problem.y
