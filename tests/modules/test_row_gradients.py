"""Every row's gradient of every module of the zoo, against autograd one row at a time; and Opacus's clipped sum."""

from __future__ import annotations

import math
import warnings
from functools import cache

import pytest
import torch
from zoo import CROSS_ENTROPY, Sample, fresh, zoo

from contracts import assert_rows_are_alone
from dpmac.extensions.row_independence import fault_of, trials
from dpmac.kernels.positions import PositionPart
from dpmac.modules import RowGradients, Task, settled
from dpmac.modules.step import ModuleStep
from dpmac.privacy import JointClip, Ledger, Normalise, OuterPart, PrivateRows, TokenPart, release
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

ROWS = 6
NAMES = list(zoo())
BY_ROW = {  # modules with parameters that no rule covers
    "transformer": {"positions.weight"},
    "tied autoencoder": {"code.weight"},
    "own parameters": {"centres", "width"},
    "weight norm": {"0.parametrizations.weight.original0", "0.parametrizations.weight.original1"},
    "bag, max": {"bag.weight"},
    "views of a row, standardised weights": {"conv.weight"},
    "time first": {"inner.weight", "inner.bias"},
}


@cache
def sample(name: str) -> Sample:
    one = fresh(name)
    if any(isinstance(p, torch.nn.UninitializedParameter) for p in one.module.parameters()):
        one.module(*one.rows(2, 0)[:-1])  # lazy layers learn their shapes
    return one


@cache
def gradients(name: str) -> RowGradients:
    one = sample(name)
    return settled(Task(one.module, one.loss, one.names), one.rows(1, 0), SeededNoise(3))


def alone(task: Task, columns, n: int) -> dict[str, torch.Tensor]:
    """Autograd's gradient of the loss of row n, in a block of its own: no code of ours but the task's conversions."""
    with torch.enable_grad():
        loss = task.losses(tuple(column[n : n + 1] for column in columns))
        found = torch.autograd.grad(loss.sum(), list(task.parameters.values()))
    return dict(zip(task.parameters, found, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_row_s_gradient_is_autograd_s_of_that_row_alone(name):
    found, columns = gradients(name), sample(name).rows(ROWS, 5)
    with torch.no_grad():
        parts = found.parts(*columns)
    assert all(not tensor.requires_grad for part in parts for tensor in [part.explicit()])
    for n in range(ROWS):
        expected = alone(found.task, columns, n)
        size = max(float(g.abs().max()) for g in expected.values())
        for part, gradient in zip(parts, expected.values(), strict=True):
            off = (part.explicit()[n] - gradient.reshape(part.shape).double()).abs().max()
            assert float(off) <= 1e-5 * size


@pytest.mark.parametrize("name", NAMES)
def test_only_what_no_rule_covers_is_differentiated_row_by_row(name):
    assert set(gradients(name).whole) == BY_ROW.get(name, set())
    assert gradients(name).vmapped == (name != "bag, max")  # which torch cannot vectorise


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_alone(name):
    """No bit of a row's parts changes with another row, plainly or outrageously changed."""
    one = sample(name)
    step = ModuleStep(gradients(name), JointClip(1.0))
    columns = one.rows(ROWS, 5)
    with torch.no_grad():
        if columns[0].dtype.is_floating_point:
            assert_rows_are_alone(step.bounded, *columns)
        blank = tuple(column.new_zeros(32, *column.shape[1:]) for column in columns)
        assert fault_of(step.bounded, trials(blank, tokens=True, source=SeededNoise(1))) is None


@pytest.mark.parametrize("name", NAMES)
def test_bounded_parts_keep_the_promise_and_the_module_is_left_as_it_was(name):
    one = sample(name)
    step = ModuleStep(gradients(name), JointClip(0.01))
    before = {key: value.clone() for key, value in one.module.state_dict().items()}
    with torch.no_grad():
        parts = step.bounded(*one.rows(ROWS, 5))
    norms = torch.stack([part.norms() for part in parts]).square().sum(dim=0).sqrt()
    assert float(norms.max()) <= 0.01 * (1 - SLACK / 2)
    assert float(norms.max()) >= 0.0098  # and are not clipped by much more than that
    assert all(torch.equal(value, before[key]) for key, value in one.module.state_dict().items())
    assert all(parameter.grad is None for parameter in one.module.parameters())
    assert not any(hooks for part in one.module.modules() for hooks in (part._forward_hooks, part._backward_hooks))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("name", [name for name in NAMES if zoo()[name].rows(1, 0)[0].dtype.is_floating_point])
def test_a_row_that_makes_no_number_counts_as_blank_and_touches_no_other(name, bad):
    one = sample(name)
    columns = one.rows(64, 5)
    query = ModuleStep(gradients(name), JointClip(1.0)).query()
    wild = (columns[0].clone(), *columns[1:])
    wild[0][3] = bad
    table, blank = PrivateRows(*wild), PrivateRows(*columns).without(3)
    how = {"noise_multiplier": 0.0, "source": SeededNoise(1)}
    with_it = release(table.everything(), query, ledger=Ledger(), **how)
    without = release(blank.everything(), query, ledger=Ledger(), **how)
    for key, total in with_it.items():
        assert torch.isfinite(total).all()
        if bad != 1e30:  # which some losses can bear
            assert torch.allclose(total, without[key], atol=1e-4)


@pytest.mark.parametrize("name", ["LSTM", "transformer", "bag", "attention pooling", "masked attention"])
@pytest.mark.parametrize("bad", [-1, 11, 10**9])
def test_a_token_or_class_that_there_is_not_makes_its_row_blank(name, bad):
    one = sample(name)
    columns = one.rows(64, 5)
    query = ModuleStep(gradients(name), JointClip(1.0)).query()
    how = {"noise_multiplier": 0.0, "source": SeededNoise(1)}
    expected = release(PrivateRows(*columns).without(3).everything(), query, ledger=Ledger(), **how)
    for place in (0, len(columns) - 1):
        wild = [column.clone() for column in columns]
        wild[place][3] = bad
        found = release(PrivateRows(*wild).everything(), query, ledger=Ledger(), **how)
        for key, total in found.items():
            assert torch.allclose(total, expected[key], atol=1e-4)


@pytest.mark.parametrize("name", [name for name in NAMES if zoo()[name].opacus])
def test_the_clipped_sum_is_opacus_s(name):
    from opacus.grad_sample import GradSampleModule

    one, columns, clip = sample(name), sample(name).rows(ROWS, 5), 0.5
    with torch.no_grad():
        mine = JointClip(clip).apply(gradients(name).parts(*columns))
        total = {key: part.total() for key, part in zip(gradients(name).task.parameters, mine, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GradSampleModule(fresh(name).module, loss_reduction="sum")
        theirs._module.load_state_dict(one.module.state_dict())
        one.loss(theirs(*columns[:-1]), columns[-1]).sum().backward()
    samples = {key: p.grad_sample for key, p in theirs._module.named_parameters()}
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in samples.values()]).norm(dim=0)
    factors = (clip / norms).clamp(max=1.0)
    for key, gradient in samples.items():
        expected = torch.einsum("n,n...->...", factors, gradient)
        # ours leaves room for single precision's rounding, 0.9 %, in every norm
        assert torch.allclose(total[key].reshape(expected.shape).float(), expected, rtol=0.01, atol=0.01 * clip)


def test_kinds_of_parts():
    """An embedding is never built for the whole table, one position is an outer product, and on a CPU no row's
    gradient of a layer with many positions is kept."""
    columns = sample("LSTM").rows(ROWS, 5)
    with torch.no_grad():
        parts = dict(zip(gradients("LSTM").task.parameters, gradients("LSTM").parts(*columns), strict=True))
    assert type(parts["table.weight"]) is TokenPart
    assert type(parts["layer.weight_hh_l0"]) is PositionPart
    assert type(parts["out.weight"]) is OuterPart


def test_a_module_whose_calls_depend_on_the_rows_is_an_error_that_names_the_call():
    class Fickle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.one(x) + (self.two(x) if len(x) < 20 or float(x[0, 0]) < 100 else self.one(x))

    task = Task(Fickle(), CROSS_ENTROPY)
    rows = lambda n: (torch.zeros(n, 3), torch.zeros(n).long())  # noqa: E731
    found = settled(task, rows(1), SeededNoise(1))
    wild = (torch.full((30, 3), 200.0), rows(30)[1])
    with pytest.raises(RuntimeError, match=r"linear\(one.weight, one.bias\) where it had linear\(two.weight"):
        found.parts(*wild)


def test_normalise_bounds_every_parameter_by_itself():
    step = ModuleStep(gradients("residual"), Normalise())
    with torch.no_grad():
        parts = step.bounded(*sample("residual").rows(ROWS, 5))
    assert all(0.9 < float(part.norms().max()) <= 1.0 for part in parts)
