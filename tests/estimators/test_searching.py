"""A private search: one price, one entry, one model; and nothing else that anybody could learn from it."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

import dpmac
from dpmac import DPMACPCA, ArgumentError, DPMACClassifier, DPMACRegressor, Ledger, Machine, PrivacyWarning
from dpmac.estimators import DPMACModuleClassifier, DPMACSearch, search_tries
from dpmac.estimators import search as searching
from dpmac.estimators.held_out import Rows, check_apart, split
from dpmac.estimators.search_budget import priced
from dpmac.estimators.warning import forget
from dpmac.extensions.entries import search_from
from dpmac.extensions.provenance import origin_of
from dpmac.extensions.searches import SEARCH, Prepaid
from dpmac.kernels.tries import Tries
from dpmac.privacy import Entry, Mechanism, Persons
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import SeededNoise
from dpmac.tables import Category, Number, Schema

pytestmark = pytest.mark.usefixtures("repeatable_noise")
N, HELD = 200, 40
draw = np.random.default_rng(0)
X = draw.uniform(-1, 1, (N, 3)).astype(np.float32)
Y = (X @ [1.0, -1.0, 0.3] > 0).astype(int)
CANDIDATES = {"learning_rate": [0.03, 0.3], "hidden_layer_sizes": [(), (4,)]}


def small(**more):
    """All rows in every step: the account has a closed form, and a fit takes a moment."""
    known = {"feature_range": (-1, 1), "batch_size": N - HELD, "epochs": 4, "classes": [0, 1], "calibrate": False}
    return DPMACClassifier((), **{**known, **more})


def searched(*, tries=3, rows=(X, Y), candidates=CANDIDATES, base=None, fit=None, **more):
    found = DPMACSearch(base or small(), candidates, tries=tries, **{"epsilon": 4.0, "delta": 1e-5, **more})
    return found.fit(*rows, **(fit or {}))


@pytest.fixture
def times(monkeypatch):
    """How many fits a search makes, as this says; and the candidates that were tried, for the test alone."""
    tried = []

    def set_to(count):
        monkeypatch.setattr(Tries, "drawn", lambda *_: count)
        real = search_tries._try

        def noted(which, *more):
            found = real(which, *more)
            tried.append(found)
            return found

        monkeypatch.setattr(search_tries, "_try", noted)
        return tried

    return set_to


# --- one entry ------------------------------------------------------------------------------------------------------


def test_a_search_is_one_entry_that_costs_its_budget():
    found = searched(ledger=(book := Ledger(data_set="made up")))
    (entry,) = book.entries
    assert (entry.label, entry.seeded, entry.unit) == (SEARCH, False, "row")
    assert 3.9 < book.epsilon(1e-5) <= 4.0
    assert found.privacy_.epsilon == book.epsilon(1e-5)
    assert found.best_params_ in [
        {"learning_rate": a, "hidden_layer_sizes": b} for a in (0.03, 0.3) for b in ((), (4,))
    ]
    assert found.best_estimator_.learning_rate == found.best_params_["learning_rate"]
    assert 0.0 < found.run_epsilon_ < 4.0
    assert 0.6 < found.score(X, Y) == np.mean(found.predict(X) == Y)
    assert list(found.classes_) == [0, 1]
    assert found.predict_proba(X).shape == (N, 2)


@pytest.mark.parametrize(("epsilon", "tries"), [(0.5, 5), (0.5, 10), (2.0, 10), (1.0, 1.5), (4.0, 25)])
def test_candidates_have_the_budget_that_was_found_and_not_the_one_that_was_tried_last(epsilon, tries):
    """A search of epsilon 2 and ten tries had paid, and then stopped at its first fit."""
    candidates = [small(epsilon=epsilon, delta=1e-5, learning_rate=rate) for rate in (0.03, 0.3)]
    law = Tries.of_mean(tries, 0.0)
    price = priced(candidates, N - HELD, law, epsilon, 1e-5, "accuracy", free_scores=False)
    for candidate, training in zip(candidates, price.trainings, strict=True):
        assert candidate.epsilon == price.epsilon
        assert tuple(candidate._plan(N - HELD, candidate._schedule(N - HELD), Ledger()).mechanisms()) == training


def test_the_entry_says_what_a_run_may_release_and_the_ledger_alone_gives_the_cost(tmp_path):
    found = searched(ledger=tmp_path / "book", tries=5)
    again = Ledger.load(tmp_path / "book")
    search = again.entries[0].search
    assert search.tries.mean == pytest.approx(5)
    training, score = search.cases
    assert sum(m.count for m in training) == found.best_estimator_.plan_.steps
    assert [m.label for m in score] == ["score"]
    assert again.epsilon(1e-5) == found.privacy_.epsilon
    text = (tmp_path / "book").read_text()
    assert '"search"' in text
    (tmp_path / "book").write_text(text.replace('"count": 4', '"count": 3'))
    with pytest.raises(ValueError, match="edited"):
        Ledger.load(tmp_path / "book")


def test_it_is_paid_for_before_the_first_fit(times, monkeypatch):
    book, tried = Ledger(), times(2)

    def fails(*_):
        assert len(book) == 1
        raise OSError("the disk is full")

    monkeypatch.setattr(search_tries, "_try", fails)
    with pytest.raises(OSError, match="disk is full") as error:
        searched(ledger=book)
    assert error.value.ledger is book
    assert len(book) == 1
    assert not tried


def test_a_run_releases_what_the_entry_says_and_not_more():
    before, step = Ledger(), Mechanism(2.0, 1.0, 2, "training step")
    book = Prepaid(before, [step])
    entry = Entry("training step", 2.0, 1.0)
    book.append(entry)
    assert not book.complete
    with pytest.raises(RuntimeError, match="not paid for"):
        book.append(Entry("training step", 1.0, 1.0))
    book.append(entry)
    assert book.complete
    with pytest.raises(RuntimeError, match="not paid for"):
        book.append(entry)
    assert len(before) == 0


def test_a_rehearsal_refuses_a_first_release_that_would_not_be_paid_for(monkeypatch):
    real, book = searching.priced, Ledger()

    def other_budget(candidates, *known, **more):
        found = real(candidates, *known, **more)
        for candidate in candidates:
            candidate.set_params(epsilon=1.1 * found.epsilon)
        return found

    monkeypatch.setattr(searching, "priced", other_budget)
    with pytest.raises(RuntimeError, match=r"not paid for: training step: Gaussian"):
        searched(ledger=book)
    assert not book.begun


def test_every_try_releases_exactly_what_was_declared(times):
    tried = times(4)
    searched()
    assert len(tried) == 4
    assert all(one.model.ledger.complete for one in tried[:-1] if isinstance(one.model.ledger, Prepaid))


# --- what stays secret ------------------------------------------------------------------------------------------------


def test_neither_the_number_of_fits_nor_a_loser_is_in_anything_public(times, tmp_path, capfd):
    """The same, but for the noise, whether there was one fit or nine."""
    tried = times(9)
    found = searched(ledger=tmp_path / "book", random_state=3)
    assert len(tried) == 9
    others = [one for one in tried if one.model is not found.best_estimator_]
    assert len(others) == 8
    found.save(tmp_path / "run")
    secret = {str(one.score) for one in others} | {run for one in tried for run in one.runs}
    public = [path.read_text(errors="replace") for path in (tmp_path / "run").iterdir()]
    public += [(tmp_path / "book").read_text(), repr(found), str(found.privacy_.statement()), *capfd.readouterr()]
    assert not [text for text in public if any(one in text for one in secret)]
    kept = pickle.dumps(found)
    assert not [one for one in secret if one.encode() in kept]
    weights = [one.model.network_.weight_layers[0].matrix().numpy().tobytes() for one in others]
    assert not [one for one in weights if one in kept]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book", "book.seen", "run"]
    del found
    tries = times  # only the test itself has kept the losers
    assert tries is times


def test_the_public_record_of_one_fit_and_of_many_has_the_same_form(times):
    kinds = []
    for count in (1, 6):
        times(count)
        found = searched(candidates=[{}], random_state=1)
        kinds.append(
            (sorted(vars(found)), len(found.privacy_.ledger), found.best_estimator_.plan_, found.privacy_.notes)
        )
    assert kinds[0] == kinds[1]


def test_warnings_are_shown_by_the_rehearsal_once_and_never_by_a_try(times):
    """And this process remembers one fit of these rows, however many there were."""
    forget()
    times(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        searched(base=small(feature_range=None), rows=(100 * X, Y), candidates=[{}])
        small(feature_range=None, batch_size=N, epsilon=1.0).fit(100 * X, Y)
    said = [str(one.message) for one in caught]
    assert len([one for one in said if "not scaled" in one]) == 2  # by the rehearsal, and by the fit
    assert len([one for one in said if "with this fit 2 times" in one]) == 1
    forget()


def test_a_sign_of_life_says_how_long_and_never_how_far(times, capfd):
    times(3)
    with search_tries.searching(show=True):
        searched(machine=Machine(progress=True))
    shown = capfd.readouterr()
    assert not any(word in shown.out + shown.err for word in ("steps", "fit 1", "/3", "of 3"))


def test_the_note_on_time_is_in_the_statement():
    assert "how long the search took" in str(searched().privacy_.statement())


# --- which is the best ------------------------------------------------------------------------------------------------


def test_the_best_score_wins_and_of_equal_ones_the_first(times, monkeypatch):
    tried = times(4)
    scores = iter([0.5, 0.9, 0.9, 0.1])
    monkeypatch.setattr("dpmac.methods.merits.Score.of", lambda *_: next(scores))
    found = searched()
    assert found.best_score_ == 0.9
    assert found.best_estimator_ is tried[1].model


def test_the_score_is_of_rows_that_were_not_trained_on(times):
    tried = times(1)
    found = searched(epsilon=30.0)  # hardly any noise
    assert found.score_noise_ < 0.02
    assert found.best_score_ == pytest.approx(np.mean(found.predict(X) == Y), abs=0.15)
    assert found.best_estimator_.plan_.n == N - HELD
    assert tried[0].model is found.best_estimator_


def test_every_candidate_is_tried_about_as_often(times):
    tried = times(30)
    searched(base=small(epochs=1), candidates=[{"learning_rate": 0.1 * k} for k in (1, 2, 3)], random_state=5)
    counts = np.bincount([one.which for one in tried], minlength=3)
    assert counts.min() > 4


# --- what has shaped the model ----------------------------------------------------------------------------------------


def test_the_model_owes_the_searchs_entry_and_nothing_else(tmp_path):
    book = Ledger(data_set="made up")
    found = searched(ledger=book)
    (entry,) = book.entries
    for thing in (found.best_estimator_, found.best_estimator_.network_, found):
        assert [run for run, _ in origin_of(thing).runs] == [entry.run]
    again = dpmac.load(found.save(tmp_path / "run"))
    assert origin_of(again.network_).runs == origin_of(found.best_estimator_.network_).runs
    assert again.privacy_.epsilon == found.privacy_.epsilon
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    sentences = (tmp_path / "run" / "statement.txt").read_text()
    assert "the private search that chose this model is an entry of this ledger" in sentences
    assert "the budget of this model was epsilon = 4, its own releases cost 3.99" in sentences
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    assert statement["mechanisms"][0]["label"] == SEARCH
    assert "private search" in (tmp_path / "run" / "README.md").read_text()
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        dpmac.extensions.provenance.check_origin(Ledger(), network=again.network_)
    assert dpmac.extensions.provenance.check_origin(book, network=again.network_)


def test_it_composes_with_what_was_released_before_and_after():
    book = Ledger()
    book.append(Entry("a mean", 20.0, 1.0))
    found = searched(ledger=book, epsilon=2.0)
    assert [entry.label for entry in book.entries] == ["a mean", SEARCH]
    plain, shown = json.loads(json.dumps(found.privacy_.statement().to_dict()))["mechanisms"]
    assert plain["noise_multiplier"] == 20.0
    assert not {"noise_multiplier", "sample_rate"} & set(shown)  # one Gaussian release would cost far less
    assert search_from(shown["search"]) == book.entries[1].search
    assert found.best_estimator_.plan_.before == (Mechanism(20.0, 1.0, 1, "a mean"),)
    total = epsilon_of([Mechanism(20.0), book.entries[1].mechanism()], 1e-5)
    assert found.privacy_.epsilon == pytest.approx(total)
    assert 2.0 < total < 2.2
    left = book.remaining(3.0, 1e-5)
    assert 0.5 < left < 2.5
    small(batch_size=N, epsilon=left * 0.98, delta=1e-5, ledger=book, total_epsilon=3.0).fit(X, Y)
    assert 2.9 < book.epsilon(1e-5) <= 3.0


def test_a_search_in_one_split_costs_nobody_in_another():
    book = Ledger()
    book.divide({"build": 0.5, "rest": 0.5})
    ids = np.arange(N)
    names = np.array(book.splits.names)[book.splits.of(ids)]
    build, rest = (ids[names == name] for name in ("build", "rest"))
    own = book.split("build", build)
    base = small(batch_size=len(build) - int(0.4 * len(build)))  # all that are not held out
    found = searched(base=base, rows=(X[build], Y[build]), ledger=own, held_out=0.4)
    (entry,) = book.entries
    assert (entry.split, entry.label) == ("build", SEARCH)
    assert len(own) == 1
    assert found.privacy_.epsilon == own.epsilon(1e-5) <= 4.0
    assert len(book.split("rest", rest)) == 0
    with pytest.raises(ArgumentError, match="were said to be in the split 'build'"):  # rows of another split are seen
        searched(base=base, rows=(X[build], Y[build]), ledger=own, fit={"held_out_rows": (X[rest], Y[rest])})
    assert len(book) == 1


def test_rows_that_another_estimator_made_need_its_ledger_before_the_search_is_paid_for():
    """Found in an attack: the entry was written, and the first score then refused the model."""
    book = Ledger()
    codes = DPMACPCA(2, epsilon=2.0, delta=1e-5, feature_range=(-1, 1)).fit(X).transform(X)
    with (
        pytest.warns(PrivacyWarning, match="made by another"),
        pytest.raises(ArgumentError, match="both the same ledger"),
    ):
        searched(rows=(codes, Y), ledger=book)
    assert len(book) == 0
    codes = DPMACPCA(2, epsilon=2.0, delta=1e-5, feature_range=(-1, 1), ledger=book).fit(X).transform(X)
    spent = len(book)
    searched(rows=(codes, Y), ledger=book)
    assert [entry.label for entry in book.entries[spent:]] == [SEARCH]


# --- totals -----------------------------------------------------------------------------------------------------------


def test_a_search_that_would_exceed_a_total_is_refused_before_it_spends(tmp_path):
    book = Ledger.init(tmp_path / "book", total_epsilon=5.0, delta=1e-5)
    searched(ledger=book, delta=None)
    assert book.epsilon(1e-5) <= 4.0
    for more in ({"ledger": book}, {"ledger": Ledger.load(tmp_path / "book")}):
        with pytest.raises(ArgumentError, match=r"total_epsilon=5\.0"):
            searched(**more)
    with pytest.raises(ArgumentError, match=r"total_epsilon=3\.5"):
        searched(ledger=Ledger(), total_epsilon=3.5)
    assert len(book) == 1


# --- rows -------------------------------------------------------------------------------------------------------------


def test_places_are_held_out_without_a_look_at_what_they_hold():
    rows = Rows(X, Y)
    training, scored = split(rows, 0.2, SeededNoise(1))
    assert (len(training), len(scored)) == (N - HELD, HELD)
    changed = X.copy()
    changed[7] = 99.0
    other, _ = split(Rows(changed, Y), 0.2, SeededNoise(1))
    assert (training.X != other.X).any(axis=1).sum() <= 1
    both = np.concatenate([training.X, scored.X])
    assert sorted(map(tuple, both)) == sorted(map(tuple, X))


def test_persons_are_held_out_whole():
    ids = np.arange(N) // 4
    training, scored = split(Rows(X, Y, ids), 0.2, SeededNoise(1))
    assert not set(training.groups) & set(scored.groups)
    assert (training.places, scored.places) == (40, 10)
    check_apart(training, scored)
    with pytest.raises(ArgumentError, match="1 persons who are in X, too"):
        check_apart(training, Rows(X[:1], Y[:1], training.groups[:1]))
    with pytest.raises(ArgumentError, match="ids for both"):
        check_apart(training, Rows(X[:1], Y[:1]))


@pytest.mark.parametrize("ids", [[1, 1.0, *range(2, 60)], [True, 1, *range(2, 60)], [(1, "a"), (1.0, "a"), *range(58)]])
def test_who_is_one_person_to_a_training_is_one_to_the_lots(ids):
    """1 and 1.0 are one person to the release. On both sides that person would pay once for what is paid for twice."""
    groups = np.empty(len(ids), dtype=object)
    groups[:] = ids
    rows = Rows(np.arange(float(len(ids)))[:, None], None, groups)
    assert rows.places == len(Persons.of(groups))
    for seed in range(20):
        training, scored = split(rows, 0.3, SeededNoise(seed))
        assert {0.0, 1.0} <= set(training.X[:, 0]) or {0.0, 1.0} <= set(scored.X[:, 0])
        assert training.places + scored.places == rows.places


@pytest.mark.parametrize("here", [[1, 2, 3], ["1", "2", "3"], ["x", " 1 ", "7"], [b"1", b"9", b"8"], ["1e0"]])
@pytest.mark.parametrize("there", [[1.0, 9.5], ["1.0", "y"], [np.float32(1), 12]])
def test_an_id_that_was_read_in_two_ways_is_noticed_in_both_lots(here, there):
    """A column with a gap is read as floating-point numbers, and another one as text."""
    one, other = (Rows(np.zeros((len(ids), 1)), None, np.array(ids, dtype=object)) for ids in (here, there))
    for lots in ((one, other), (other, one)):
        with pytest.raises(ArgumentError, match="1 persons who are in X, too"):
            check_apart(*lots)


def test_a_search_protects_persons():
    ids = np.array([f"p{k // 2}" for k in range(N)])
    book = Ledger()
    found = searched(base=small(batch_size=80), ledger=book, fit={"groups": ids})
    assert book.unit == "person"
    assert found.best_estimator_.plan_.n == 80
    assert "person" in str(found.privacy_.statement())


def test_rows_to_score_on_may_be_given_private_or_public():
    given = {"base": small(batch_size=150), "rows": (X[:150], Y[:150])}
    private = searched(**given, fit={"held_out_rows": (X[150:], Y[150:])})
    public = searched(**given, fit={"public_rows": (X[150:], Y[150:])})
    assert private.best_estimator_.plan_.n == public.best_estimator_.plan_.n == 150
    assert len(private.privacy_.ledger.entries[0].search.cases) == 2
    assert len(public.privacy_.ledger.entries[0].search.cases) == 1
    assert public.score_noise_ == 0.0 < private.score_noise_
    assert public.best_score_ == np.mean(public.predict(X[150:]) == Y[150:])


def test_a_table_with_a_schema():
    cells = {"a": X[:, 0], "b": X[:, 1], "kind": np.where(Y == 1, "yes", "no")}
    columns = {"a": Number(-1, 1), "b": Number(-1, 1), "kind": Category(["no", "yes"])}
    base = small(feature_range=None, classes=None, schema=Schema(columns, target="kind"))
    found = searched(base=base, rows=(cells,), epsilon=30.0)
    assert set(found.predict(cells)) <= {"no", "yes"}
    assert found.score(cells, cells["kind"]) > 0.6
    assert "set of class labels" not in str(found.privacy_.statement())


def test_a_regressor():
    base = DPMACRegressor((), feature_range=(-1, 1), target_range=(-2, 2), batch_size=N - HELD, epochs=4)
    found = searched(base=base.set_params(residuals=False), rows=(X, X @ [1.0, -1.0, 0.3]))
    assert found.predict(X, return_std=False).shape == (N,)
    assert 0.2 < found.best_score_ < 1.2


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss"])
def test_a_torch_module(scoring):
    base = DPMACModuleClassifier(torch.nn.Linear(3, 2), batch_size=N - HELD, epochs=4, calibrate=False)
    found = searched(base=base, candidates={"learning_rate": [0.1, 1.0]}, scoring=scoring)
    assert found.score(X, Y) > 0.5
    assert "read from the data" in str(found.privacy_.statement())


# --- what is refused, before anything is spent ------------------------------------------------------------------------

REFUSED = {
    "estimator=": {"base": DPMACPCA(2)},
    "estimator.ledger=": {"base": small(ledger=Ledger())},
    "estimator.random_state=3": {"base": small(random_state=3)},
    "candidates=None": {"candidates": None},
    "candidates='learning_rate'": {"candidates": "learning_rate"},
    "candidates='epsilon'": {"candidates": {"epsilon": [1.0]}},
    "candidates='machine__threads'": {"candidates": {"machine__threads": [1]}},
    "Invalid parameter 'rate'": {"candidates": {"rate": [1.0]}},
    "tries=1": {"tries": 1},
    "shape=2": {"shape": 2},
    "epsilon=inf": {"epsilon": np.inf},
    "held_out=0.6": {"held_out": 0.6},
    "held_out='4 rows'": {"held_out": 0.02},
    "scoring='error'": {"scoring": "error"},
    "batch_size=500": {"base": small(batch_size=500)},
    "give a learning rate above 0": {"candidates": {"learning_rate": ["fast"]}},
    "this label is not among classes": {"rows": (X, np.arange(N) % 3)},
    "for one label a row": {"rows": (X, np.eye(2, dtype=int)[Y])},
    "public_rows": {"fit": {"public_rows": (X, Y), "held_out_rows": (X, Y)}},
    "checkpoint": {"machine": Machine(checkpoint="nowhere")},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_searched_is_said_before_anything_is_spent(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book, more = Ledger(), dict(REFUSED[said])
    with pytest.raises((ArgumentError, TypeError, ValueError), match=said.replace("(", r"\(")):
        searched(ledger=book, **more)
    assert len(book) == 0


def test_a_candidate_that_cannot_be_fitted_is_found_by_the_rehearsal():
    """It gets as far as its first release, with the rows themselves."""
    book = Ledger()
    with pytest.raises(ArgumentError, match="activation"):
        searched(candidates={"activation": ["relu", "no such"], "hidden_layer_sizes": [(3,)]}, ledger=book)
    assert len(book) == 0


def test_a_search_is_an_estimator_of_scikit_learn():
    one = DPMACSearch(small(), CANDIDATES, tries=4)
    other = clone(one)
    assert other.tries == 4
    assert other.estimator is not one.estimator
    assert one.get_params()["held_out"] == 0.2
    assert "one entry in the ledger" in DPMACSearch.__doc__
