"""A search that is killed: paid for once, with the number of fits that it had drawn, and with nothing to read."""

from __future__ import annotations

import json
import os
import signal
import stat

import numpy as np
import pytest

from dpmac import ArgumentError, DPMACClassifier, Ledger, Machine
from dpmac.estimators import DPMACSearch, search, search_tries
from dpmac.estimators.search_state import NAME, SearchState
from dpmac.kernels.tries import Tries
from processes import forked

N = 150
X = np.random.default_rng(0).uniform(-1, 1, (N, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


class Killed(BaseException):
    pass


@pytest.fixture
def drawn(monkeypatch):
    """The numbers of fits that were drawn, one for each time that one was; every draw gives another."""
    found = []

    def draw(*_):
        found.append(2 + len(found))
        return found[-1]

    monkeypatch.setattr(Tries, "drawn", draw)
    return found


@pytest.fixture
def fits(monkeypatch):
    """The candidates of all fits; the ``at``-th of them kills."""
    made, real = [], search_tries._try

    def tried(*arguments):
        made.append(arguments[0])
        if len(made) == tried.at:
            raise Killed
        return real(*arguments)

    tried.at, tried.made = None, made
    monkeypatch.setattr(search_tries, "_try", tried)
    return tried


def searched(folder, *, seed=None, candidates=None, book="book", **more):
    base = DPMACClassifier((), feature_range=(-1, 1), batch_size=120, epochs=3, calibrate=False, classes=[0, 1])
    given = {"epsilon": 4.0, "delta": 1e-5, "tries": 3, "ledger": folder / book, "random_state": seed, **more}
    machine = Machine(checkpoint=folder / "kept")
    return DPMACSearch(base, candidates or [{}, {"learning_rate": 0.3}], machine=machine, **given).fit(X, Y)


def test_a_kill_in_the_middle_draws_no_other_number_and_pays_no_second_time(tmp_path, drawn, fits):
    fits.at = 2
    with pytest.raises(Killed):
        searched(tmp_path)
    line = (tmp_path / "book").read_bytes()
    assert len(Ledger.read(tmp_path / "book")) == 1
    assert json.loads((tmp_path / "kept" / NAME).read_text())["tries"] == 2
    fits.at = None
    found = searched(tmp_path)
    assert drawn == [2]
    assert len(fits.made) == 2 + 2  # all of them anew
    assert (tmp_path / "book").read_bytes() == line
    assert len(found.privacy_.ledger) == 1
    assert not (tmp_path / "kept").exists()
    searched(tmp_path, total_epsilon=9.0)  # another search: another entry, another number
    assert drawn == [2, 3]
    assert len(Ledger.read(tmp_path / "book")) == 2


@pytest.mark.parametrize("where", ["before the entry", "after the entry", "before the number is kept"])
def test_wherever_the_kill_comes_it_is_paid_for_once_before_the_first_fit(tmp_path, drawn, fits, monkeypatch, where):
    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        if where == "before the entry":
            patch.setattr(search, "entry_of", killed)
        elif where == "after the entry":
            patch.setattr(Tries, "drawn", killed)
        else:
            patch.setattr(SearchState, "drawn", killed)
        with pytest.raises(Killed):
            searched(tmp_path)
    assert not fits.made
    assert (tmp_path / "book").exists() is (where != "before the entry")
    found = searched(tmp_path)
    assert len(found.privacy_.ledger) == len(Ledger.read(tmp_path / "book")) == 1


def test_what_is_kept_is_for_the_holder_alone_and_holds_no_numbers_of_a_fit(tmp_path, drawn, fits):
    fits.at = 2
    with pytest.raises(Killed):
        searched(tmp_path)
    kept = tmp_path / "kept"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE((kept / NAME).stat().st_mode) == 0o600
    assert [path.name for path in kept.iterdir()] == [NAME]
    state = json.loads((kept / NAME).read_text())
    assert set(state) == {"format", "run", "settings", "before", "head", "tries"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book", "book.seen", "kept"]


def test_another_search_or_another_ledger_does_not_go_on_with_it(tmp_path, drawn, fits):
    Ledger.init(tmp_path / "book", total_epsilon=20.0)
    fits.at = 1
    with pytest.raises(Killed):
        searched(tmp_path)
    for more, said in (
        ({"candidates": [{}, {}]}, "another candidates"),
        ({"epsilon": 3.0}, "another price"),
        ({"seed": 3}, "another seed"),
        ({"scoring": "log_loss"}, "another price, scoring|another scoring"),
    ):
        with pytest.raises(ArgumentError, match=said):
            searched(tmp_path, **more)
    assert len(Ledger.read(tmp_path / "book")) == 1
    (tmp_path / "kept" / NAME).write_text("{}")
    with pytest.raises(ValueError, match="damaged"):
        searched(tmp_path)
    assert len(fits.made) == 1


def test_a_ledger_that_lacks_the_entries_before_it_is_refused(tmp_path, drawn, fits):
    searched(tmp_path)
    fits.at = len(fits.made) + 1
    with pytest.raises(Killed):
        searched(tmp_path)
    with pytest.raises(ArgumentError, match="the search began with another ledger"):
        searched(tmp_path, book="other")


def test_a_seeded_search_that_is_resumed_ends_where_it_would_have(tmp_path, fits):
    whole = searched(tmp_path, seed=4)
    made = len(fits.made)
    fits.at = made + 1
    with pytest.raises(Killed):
        searched(tmp_path, seed=4, book="again")
    fits.at = None
    again = searched(tmp_path, seed=4, book="again")
    assert len(fits.made) == 2 * made + 1
    assert again.best_score_ == whole.best_score_
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))
    assert again.privacy_.ledger.seeded


def killed_in_its_third_fit(_connection, where):
    real, made = search_tries._try, []

    def tried(*arguments):
        made.append(1)
        if len(made) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    search_tries._try = tried
    Tries.drawn = lambda *_: 5
    searched(where)


@pytest.mark.long
def test_a_real_kill(tmp_path):
    """A process that is killed in its third fit, and the same again."""
    child, connection = forked(killed_in_its_third_fit, tmp_path)
    child.join()
    connection.close()
    assert child.exitcode == -signal.SIGKILL
    assert json.loads((tmp_path / "kept" / NAME).read_text())["tries"] == 5
    found = searched(tmp_path)
    assert len(found.privacy_.ledger) == 1
    assert not (tmp_path / "kept").exists()
