"""The progress bar: silent when it should be, drawn when the work takes a moment."""

from __future__ import annotations

import pytest

from dpmac.checks import ArgumentError
from dpmac.training import progress
from dpmac.training.progress import progress_bar


def test_nothing_is_drawn_off_a_terminal():
    with progress_bar("x", "auto") as on_step:
        assert on_step is None
    with progress_bar("x", False) as on_step:
        assert on_step is None


def test_a_bar_is_drawn_when_asked(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", -1.0)
    with progress_bar("training", True) as on_step:
        assert on_step is not None
        for done in range(1, 4):
            on_step(done, 3)
    seen = capsys.readouterr().err
    assert "training" in seen
    assert "3/3" in seen


def test_quick_work_draws_nothing(capsys):
    with progress_bar("training", True) as on_step:
        on_step(1, 1)
    assert capsys.readouterr().err == ""


def test_strange_values_are_named():
    with pytest.raises(ArgumentError, match="progress='loud'"), progress_bar("x", "loud"):
        pass
