"""A stage before: who is warned of it, and when the warning would say nothing."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from dpmac import DPMACModuleClassifier
from dpmac.checks import PrivacyWarning
from dpmac.estimators.stages import stage_before
from dpmac.extensions import outputs
from dpmac.privacy import Entry, Ledger, Mechanism, Origin
from dpmac.randomness import SeededNoise

ROWS = SeededNoise(7).normal((40, 3))


@pytest.mark.parametrize(
    ("noises", "leads", "warned"),
    [
        ((0.5,), None, True),
        ((0.5, 3.0), True, True),
        ((0.5,), False, False),
        ((1.0, 0.0), True, False),  # its epsilon is infinite with or without
        ((0.0,), True, False),
    ],
)
def test_the_leader_is_warned_of_what_its_ledger_lacks(noises, leads, warned):
    before, more = Ledger(), {} if leads is None else {"leads": leads}
    before.append(Entry("mean", 1.0, 1.0))
    outputs.remember(ROWS.numpy(), Origin.of(before))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        stage = stage_before([torch.clone(ROWS)], Ledger(), [Mechanism(noise) for noise in noises], 1e-5, **more)
    assert [one.category for one in said] == [PrivacyWarning] * warned
    assert stage.origin == Origin.of(before)
    assert len(stage.notes) == 1
    assert stage_before([ROWS], before, [], 1e-5).notes == ()


class Two(nn.Module):
    """Of two inputs, a wide and a narrow one."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, wide, narrow):
        return self.out(torch.cat([wide, narrow], dim=1))


class Items(Dataset):
    def __init__(self, *columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, row):
        wide, narrow, label = (column[row] for column in self.columns)
        return {"wide": wide, "narrow": narrow, "label": int(label)}


@pytest.mark.parametrize("kind", ["in memory", "a dataset"])
def test_every_input_of_a_module_is_looked_at_not_the_widest_alone(kind):
    before = Ledger()
    before.append(Entry("mean", 1.0, 1.0))
    wide, narrow = SeededNoise(8).normal((40, 5)).float(), ROWS.float()
    outputs.remember(narrow.numpy(), Origin.of(before))
    y = (wide[:, 0] > 0).long()
    model = DPMACModuleClassifier(Two, epsilon=1.0, delta=1e-3, epochs=1, classes=(0, 1), calibrate=False)
    given = ({"wide": wide, "narrow": narrow}, y)
    if kind == "a dataset":
        given = (Items(wide, narrow, y), "label")
    with pytest.warns(PrivacyWarning, match="made by another private estimator"):
        model.fit(*given)
    assert any("how the rows were made" in note for note in model.privacy_.notes)
