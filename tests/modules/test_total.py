"""A row that makes no sense to a module counts as blank, wherever its tables are used, and stops no run."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.mac import OptimizerStep
from dpmac.modules import RowGradients, Task, settled
from dpmac.modules.outputs import OutputLoss, RowOutputs, numbers_of
from dpmac.modules.token_limits import token_limits
from dpmac.nets import LOSSES
from dpmac.privacy import JointClip, Plan
from dpmac.randomness import SeededNoise, torch_draws_from
from dpmac.training import Trainer

TOKENS, LENGTH, ROWS = 11, 4, 30


class Bags(nn.Module):
    """An embedding that is used by a rule, or row by row (``mode="max"`` has no rule, and no vmap)."""

    def __init__(self, mode):
        super().__init__()
        self.mode, self.table, self.last = mode, nn.Parameter(torch.randn(TOKENS, 3)), nn.Linear(3, 2)

    def forward(self, tokens):
        if self.mode == "offsets":
            flat, starts = tokens.reshape(-1), torch.arange(0, tokens.numel(), tokens.shape[1])
            return self.last(F.embedding_bag(flat, self.table, starts))
        if self.mode == "embedding":
            return self.last(F.embedding(tokens, self.table).mean(dim=1))
        return self.last(F.embedding_bag(tokens, self.table, mode=self.mode))


def task_of(mode):
    with torch_draws_from(SeededNoise(0)):
        module = Bags(mode)
    return Task(module, OutputLoss(LOSSES["softmax"], 2))


def table(seed=0):
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, TOKENS, (ROWS, LENGTH), generator=draw)
    return tokens, torch.eye(2)[tokens[:, 0] % 2]


@pytest.mark.parametrize("harm", [TOKENS, -1, 2**40])
@pytest.mark.parametrize("mode", ["embedding", "sum", "mean", "max", "offsets"])
def test_a_token_that_no_table_has_makes_its_own_row_nan_and_no_other(mode, harm):
    task, (tokens, y) = task_of(mode), table()
    gradients = settled(task, (tokens[:1], y[:1]), SeededNoise(1))
    assert isinstance(gradients, RowGradients)
    wanted = [part.explicit() for part in gradients.parts(tokens, y)]
    bad = tokens.clone()
    bad[7, 2] = harm
    others = torch.arange(ROWS) != 7
    found = [part.explicit() for part in gradients.parts(bad, y)]
    assert not all(torch.isfinite(part[7]).all() for part in found)
    for part, before in zip(found, wanted, strict=True):
        assert not (torch.isfinite(part[7]) & (part[7] != 0)).any()  # a part of no number, or of none at all
        torch.testing.assert_close(part[others], before[others])
    outputs = RowOutputs(task.module, 2)
    assert outputs(bad)[7].isnan().all()
    torch.testing.assert_close(outputs(bad)[others], RowOutputs(task.module, 2, total=False)(tokens)[others])


@pytest.mark.parametrize("mode", ["embedding", "max"])
def test_a_run_ends_as_if_such_a_row_were_blank(mode):
    task, (tokens, y) = task_of(mode), table()
    found = []
    for token in (TOKENS + 5, -7):
        bad = tokens.clone()
        bad[3] = token
        plan = Plan(ROWS, ROWS, 3, 1.0, 1e-3)
        more = {"wstep": OptimizerStep(0.1), "source": SeededNoise(4)}
        run = Trainer.dp_sgd(task.module, task.loss, plan, JointClip(1.0), **more).fit(bad, y)
        found.append(torch.cat([p.detach().flatten() for p in run.model.parameters()]))
        assert torch.isfinite(found[-1]).all()
    assert torch.equal(*found)


def test_tables_that_a_column_is_read_by_are_found():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.long, self.short, self.other = nn.Embedding(9, 2), nn.Embedding(5, 2), nn.EmbeddingBag(7, 2)

        def forward(self, a, b, c):
            return self.long(a) + self.short(a), self.other(b), self.long(c + 1)

    blank = tuple(torch.zeros(2, 3, dtype=torch.int64) for _ in range(3))
    assert token_limits(Two(), blank) == {0: 5, 1: 7}
    named = ("c", "b", "a")
    assert token_limits(Two(), blank, named) == {1: 7, 2: 5}
    assert token_limits(nn.Linear(2, 2), blank) == {}


def test_outputs_are_one_row_of_numbers_for_each_row():
    class Answer:
        logits = torch.zeros(3, 2)

    assert numbers_of(Answer(), 2) is Answer.logits
    assert numbers_of(torch.zeros(3), 1).shape == (3, 1)
    for outputs, units in ((torch.zeros(3), 2), (torch.zeros(3, 2, 2), 2), ((torch.zeros(3, 2),), 2), (None, 1)):
        with pytest.raises(ArgumentError, match="module='outputs of"):
            numbers_of(outputs, units)


def test_draws_of_torch_follow_from_the_source_and_are_put_back():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    found = []
    for seed in (1, 1, 2):
        with torch_draws_from(SeededNoise(seed)):
            found.append(torch.rand(3))
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
