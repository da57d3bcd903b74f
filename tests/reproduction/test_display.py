"""How a batch of runs looks while it goes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reproduction import display as display_module
from reproduction.runner import Failure
from reproduction.store import Job, Store


def test_time_left_knows_that_rows_differ(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(display_module.time, "monotonic", lambda: clock.now)
    slow, quick = (Job("mnist", row, "paper", 2.0, 0) for row in ("DP-SGD", "DP-MAC"))
    more = [Job("mnist", "DP-MAC", "paper", 2.0, seed) for seed in range(1, 5)]
    display = display_module.Display(Store(tmp_path), show=False)
    display.begin([slow, quick, *more], 2)
    assert display.time_left() is None
    display.started(quick)
    display.finished(quick, 10.0)
    assert display.time_left() == 5 * 10 / 2  # a row never run counts as the others
    display.started(slow)
    display.finished(slow, 60.0)
    display.started(more[0])
    clock.now += 4
    assert display.time_left() == (6 + 3 * 10) / 2
    clock.now += 100
    assert display.time_left() == 3 * 10 / 2  # overdue is not negative


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (90, "90 s"), (91, "2 min"), (3600, "1 h 00 min"), (7321, "2 h 03 min")]
)
def test_times_are_spoken(seconds, words):
    assert display_module.spoken(seconds) == words


def test_a_bar_on_a_terminal_and_lines_elsewhere(tmp_path, capsys):
    jobs = [Job("mnist", "DP-MAC", "paper", 2.0, seed) for seed in range(2)]
    for show in (True, False):
        with display_module.Display(Store(tmp_path), show=show) as display:
            display.begin(jobs, 1)
            display.started(jobs[0])
            display.finished(jobs[0], 1.0)
            display.failed(Failure(jobs[1], "no luck"))
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "2/2" in shown.err
        assert "1 failed" in shown.err
        assert ("FAILED: no luck" in shown.err) != show
