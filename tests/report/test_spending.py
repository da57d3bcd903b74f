"""Epsilon along a ledger, groups of it, and noise norms that match what noise really does."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from dpmac import DPMACClassifier, Ledger
from dpmac.privacy.entry import Entry
from dpmac.report.spending import epsilon_over_releases, groups_of, signals_of


def ledger_of(*entries):
    ledger = Ledger()
    for entry in entries:
        ledger.append(entry)
    return ledger


def test_epsilon_rises_along_the_ledger_to_what_the_ledger_says():
    ledger = ledger_of(Entry("mean", 9.0, 1.0), *(Entry("training step", 5.0, 1.0) for _ in range(30)))
    found = epsilon_over_releases(ledger, 1e-5)
    assert found[0] == (0, 0.0)
    assert found[1] == (1, ledger_of(ledger.entries[0]).epsilon(1e-5))
    assert found[-1] == (31, ledger.epsilon(1e-5))
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))
    assert len(found) <= 16
    assert epsilon_over_releases(Ledger(), 1e-5) == []
    assert epsilon_over_releases(ledger_of(Entry("x", 0.0, 1.0)), 1e-5)[-1] == (1, math.inf)


def test_groups_count_neighbours_that_are_alike():
    step = Entry("training step", 5.0, 0.1, date="2026-01-02T03:04:05+00:00", model="m")
    entries = [step, step, Entry("calibration", 9.0, 1.0, date=step.date, model="m"), step]
    assert [(g.label, g.count, g.date, g.model) for g in groups_of(entries)] == [
        ("training step", 2, "2026-01-02", "m"),
        ("calibration", 1, "2026-01-02", "m"),
        ("training step", 1, "2026-01-02", "m"),
    ]


@pytest.fixture(scope="module")
def drowned():
    """A network trained at so small a budget that its releases are noise, after an earlier fit in the same ledger."""
    draw, ledger = np.random.default_rng(0), Ledger()
    X, y = draw.uniform(-1, 1, (200, 6)), draw.integers(0, 3, 200)
    same = {"ledger": ledger, "feature_range": (-1, 1), "classes": range(3), "batch_size": 200, "calibrate": False}
    DPMACClassifier((), epsilon=0.01, epochs=3, **same).fit(X, y)
    return DPMACClassifier((20,), epsilon=0.02, epochs=40, **same).fit(X, y)


def test_the_noise_s_norm_is_what_noise_alone_releases(drowned):
    layers = signals_of(drowned, drowned.plan_, drowned.privacy_.ledger, drowned.history_)
    assert [(layer.name, layer.numbers) for layer in layers] == [("layer 1", 140), ("layer 2", 63)]
    for layer in layers:
        assert len(layer.released) == len(layer.noise) == len(drowned.history_)
        ratio = math.fsum(r**2 for r in layer.released) / math.fsum(n**2 for n in layer.noise)
        assert ratio == pytest.approx(1, abs=6 * math.sqrt(2 / (layer.numbers * len(layer.released))))
        assert layer.signal <= 2 * layer.uncertain


def test_no_layers_where_nothing_was_trained_by_steps(drowned):
    ledger = drowned.privacy_.ledger
    assert signals_of(drowned, None, ledger, drowned.history_) == []
    assert signals_of(drowned, drowned.plan_, ledger, []) == []
    assert signals_of(object(), drowned.plan_, ledger, drowned.history_) == []
    assert signals_of(drowned, drowned.plan_, Ledger(), drowned.history_) == []
