"""What is released after a training survives a crash: no round is paid twice, and none that was kept is lost."""

from __future__ import annotations

import pytest

from dpmac import DPMACClassifier, DPMACRegressor, Machine
from dpmac.methods import calibration, objective
from dpmac.privacy import Ledger
from dpmac.training.checkpoint import Checkpoints
from tests.training.test_resume import SETTINGS, rows

ROUNDS = 6


class Killed(BaseException):
    pass


def fitted(tmp_path, seed, monkeypatch=None, after=None, when="kept"):
    """A fit on the disk; with ``after`` one that dies when so many rounds are ``kept``, or ``released`` and lost."""
    settings = {**SETTINGS, "epochs": 1, "random_state": seed, "classes": [0, 1]}
    kept = {"ledger": tmp_path / "ledger", "machine": Machine(checkpoint=Checkpoints(tmp_path / "kept", keep=True))}
    model = DPMACClassifier(**settings, **kept)
    x, y = rows(2000)
    if monkeypatch is None:
        return model.fit(x, y)
    rounds, release = [], objective.release

    def counted(*arguments, **more):
        if when == "kept" and len(rounds) == after:
            raise Killed
        answer = release(*arguments, **more)
        rounds.append(1)
        if when == "released" and len(rounds) == after:
            raise Killed
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(objective, "release", counted)
        with pytest.raises(Killed):
            model.fit(x, y)
    return None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The fit that nothing interrupts."""
    return fitted(tmp_path_factory.mktemp("whole"), 3)


@pytest.mark.parametrize("after", [1, 4, 5])
@pytest.mark.parametrize("when", ["kept", "released"])
def test_a_seeded_calibration_that_was_killed_ends_as_if_it_had_not_been(tmp_path, monkeypatch, whole, after, when):
    fitted(tmp_path, 3, monkeypatch, after, when)
    found = fitted(tmp_path, 3)
    assert found.calibration_ == whole.calibration_
    assert len(Ledger.read(tmp_path / "ledger")) == len(whole.run_.ledger)


def test_an_unseeded_calibration_goes_on_from_what_was_kept(tmp_path, monkeypatch):
    fitted(tmp_path, None, monkeypatch, 4)
    before = len(Ledger.read(tmp_path / "ledger"))
    starts, exact = [], calibration.Calibration.query
    monkeypatch.setattr(
        calibration.Calibration,
        "query",
        lambda self, u, theta, *a, **k: starts.append(theta) or exact(self, u, theta, *a, **k),
    )
    found = fitted(tmp_path, None)
    assert len(Ledger.read(tmp_path / "ledger")) == before + ROUNDS - 4
    assert len(starts) == ROUNDS - 4
    assert starts[0].tolist() != [1.0, 0.0]  # not from the start
    again = fitted(tmp_path, None)  # killed while the model was being saved, say: nothing is left to release
    assert again.calibration_ == found.calibration_
    assert len(Ledger.read(tmp_path / "ledger")) == before + ROUNDS - 4
    assert again.privacy_.epsilon <= SETTINGS["epsilon"]


@pytest.mark.parametrize(("after", "left"), [(3, 3), (6, 0)])
def test_a_round_whose_result_died_is_paid_for_and_left_out(tmp_path, monkeypatch, after, left):
    fitted(tmp_path, None, monkeypatch, after, "released")
    before = len(Ledger.read(tmp_path / "ledger"))
    with pytest.warns(RuntimeWarning, match="1 releases of the calibration died"):
        found = fitted(tmp_path, None)
    assert found.calibration_ is not None
    assert len(Ledger.read(tmp_path / "ledger")) == before + left


def test_a_calibration_of_which_nothing_is_known_is_left_out(tmp_path, monkeypatch):
    fitted(tmp_path, None, monkeypatch, 6, "released")
    before = len(Ledger.read(tmp_path / "ledger"))
    (tmp_path / "kept" / "after.json").unlink()
    with pytest.warns(RuntimeWarning, match="6 releases of the calibration died"):
        found = fitted(tmp_path, None)
    assert found.calibration_ is None
    assert len(Ledger.read(tmp_path / "ledger")) == before


def test_the_residuals_of_a_regressor_are_kept(tmp_path):
    x, y = rows()
    kept = {"ledger": tmp_path / "ledger", "machine": Machine(checkpoint=Checkpoints(tmp_path / "kept", keep=True))}
    settings = {**SETTINGS, "epochs": 1, "random_state": None, "target_range": (0, 1)}
    first = DPMACRegressor(**settings, **kept).fit(x, y)
    again = DPMACRegressor(**settings, **kept).fit(x, y)
    assert again.residual_std_ == first.residual_std_ is not None
    assert len(Ledger.read(tmp_path / "ledger")) == first.plan_.steps + 1
    (tmp_path / "kept" / "after.json").unlink()
    with pytest.warns(RuntimeWarning, match="residuals died"):
        assert DPMACRegressor(**settings, **kept).fit(x, y).residual_std_ is None
