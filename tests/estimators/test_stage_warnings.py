"""A stage before: who is warned of it, and when the warning would say nothing."""

from __future__ import annotations

import warnings

import pytest
import torch

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
        stage = stage_before(torch.clone(ROWS), Ledger(), [Mechanism(noise) for noise in noises], 1e-5, **more)
    assert [one.category for one in said] == [PrivacyWarning] * warned
    assert stage.origin == Origin.of(before)
    assert len(stage.notes) == 1
    assert stage_before(ROWS, before, [], 1e-5).notes == ()
