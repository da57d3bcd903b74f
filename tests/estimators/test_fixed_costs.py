"""What a fit costs beside its steps: no second encoding, no threads that wait for each other.

Nor a compiler: tests/saving/test_coming_back.py has a new process to look for one in.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac.estimators import DPMACClassifier, DPMACRegressor
from dpmac.methods import BaseRates, ResidualScale
from dpmac.tables import TableEncoder

SCHEMA = {
    "columns": {"a": {"kind": "number", "low": 0, "high": 1}, "y": {"kind": "category", "values": ["no", "yes"]}},
    "target": "y",
}


def table():
    a = np.linspace(0, 1, 400)
    return {"a": a, "y": np.where(a > 0.5, "yes", "no")}


def test_every_row_is_encoded_once(monkeypatch):
    """In the training; the calibration goes on from the inputs that the training has made."""
    rows, forward = [], TableEncoder.forward
    monkeypatch.setattr(TableEncoder, "forward", lambda self, x: rows.append(len(x)) or forward(self, x))
    monkeypatch.setattr("dpmac.extensions.feature_maps.check_row_independence", lambda *_: None)
    monkeypatch.setattr("dpmac.training.setup.check_step", lambda *_: None)
    DPMACClassifier(epsilon=2.0, schema=SCHEMA, random_state=0, epochs=1).fit(table())
    assert [count for count in rows if count >= 400] == [400]


@pytest.mark.parametrize(("kind", "method"), [(DPMACClassifier, BaseRates), (DPMACRegressor, ResidualScale)])
def test_what_follows_a_training_has_its_threads(kind, method, monkeypatch):
    """Not all of torch's: on a busy machine they would wait for each other."""
    seen, fit = [], method.fit

    def watched(self, *arguments, **options):
        seen.append(torch.get_num_threads())
        return fit(self, *arguments, **options)

    monkeypatch.setattr(method, "fit", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        made = kind(epsilon=2.0, random_state=0, epochs=1, **{"target_range": (0, 1)} if kind is DPMACRegressor else {})
        made.fit(np.linspace(-1, 1, 400)[:, None], (np.arange(400) > 200).astype(int))
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
