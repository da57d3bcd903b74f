"""The epsilon that is shown while a training runs is never smaller than what was spent."""

from __future__ import annotations

import pytest

from dpmac.cli.watching import Watch
from dpmac.privacy import Entry, Ledger, epsilon_of


@pytest.mark.parametrize("before", [0, 3])
def test_progress_never_shows_less_than_was_spent(before):
    """The curve is known at a few steps; in between, the next one's epsilon is shown."""
    step, ledger = Entry("training step", 1.0, 0.1), Ledger()
    for _ in range(before + 2):
        ledger.append(step)
    watch = Watch(ledger, before, 60, 1e-5)
    watch.price()
    assert len(watch._curve) == 10
    for done in (2, 3, 8, 20, 41, 60):
        shown = watch.epsilon(done)
        assert shown is not None
        assert shown >= epsilon_of([step.mechanism()] * (before + done), 1e-5)
