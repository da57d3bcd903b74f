"""Pictures are written, and show what they are given."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from dpmac.report.plots import reliability_curves, training_curves
from dpmac.report.reliability import Bin, Reliability
from dpmac.training.run import Record

ONE = Reliability((Bin(0.0, 0.5, 30, 0.2, 0.3), Bin(0.5, 1.0, 10, 0.8, 0.7)))
OTHER = Reliability((Bin(0.5, 1.0, 40, 0.9, 0.6),))


@pytest.fixture
def figures(monkeypatch):
    """The figures that were saved."""
    kept, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (kept.append(self), save(self, *a, **k))[1])
    return kept


def test_reliability_curves_show_every_model_and_every_bin(figures, tmp_path):
    path = reliability_curves({"one": ONE, "other": OTHER}, tmp_path / "r.png", title="People", outcome="rich")
    assert path.read_bytes().startswith(b"\x89PNG")
    upper, lower = figures[0].axes
    texts = [text.get_text() for text in upper.get_legend().get_texts()]
    assert texts == ["as predicted", "one: error 0.100", "other: error 0.300"]
    curves = [container[0] for container in upper.containers]
    assert [curve.get_xydata().tolist() for curve in curves] == [[[0.2, 0.3], [0.8, 0.7]], [[0.9, 0.6]]]
    assert [bar.get_height() for bar in lower.patches] == [30, 10, 40]
    assert "rich" in lower.get_xlabel()
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in lower.patches)
    assert all(right <= left + 1e-12 for (_, right), (left, _) in pairwise(spans))  # none hidden


def test_training_curves_show_every_history(figures, tmp_path):
    history = [Record(k, float(k), 0.1, [], {"validation_accuracy": k / 10}) for k in range(3)]
    training_curves({"a": history, "b": history[:2]}, tmp_path / "c.png", title="Accuracy")
    (axes,) = figures[0].axes
    assert [len(line.get_xdata()) for line in axes.lines] == [3, 2]
    assert axes.lines[0].get_ydata().tolist() == [0.0, 0.1, 0.2]


def test_no_plot_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError):
        reliability_curves({"one": ONE}, tmp_path / "r.png", title="", outcome="")
    assert not list(tmp_path.iterdir())
