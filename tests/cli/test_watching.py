"""The epsilon that is shown while a training runs is never smaller than what was spent."""

from __future__ import annotations

import pytest

from dpmac.cli import watching
from dpmac.cli.watching import Watch, work_shown
from dpmac.privacy import Entry, Ledger, epsilon_of
from dpmac.showing import shown


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
        at_most = watch.epsilon(done)
        assert at_most is not None
        assert at_most >= epsilon_of([step.mechanism()] * (before + done), 1e-5)


def test_work_off_a_terminal_is_a_line_every_few_seconds_at_most(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    with work_shown(unit=""), shown("effects of columns") as tell:
        for done in range(1, 13):
            clock[0] = float(done)
            tell(done * 100, 1200)
    assert capsys.readouterr().err == "effects of columns: 500 of 1,200\neffects of columns: 1,000 of 1,200\n"
    with work_shown(show=False), shown("effects of columns") as tell:
        clock[0] = 99.0
        tell(1, 2)
    assert capsys.readouterr().err == ""
