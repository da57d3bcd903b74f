"""What a fit's budget pays for beside the training, and budgets that several fits share by one ledger."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from patients import FEATURES, FEW, TABLE, UNSEEN, X, Y, labels_of, model, plain, small, watched
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from dpmac import DPMACPCA, ArgumentError
from dpmac.methods import BaseRates, Calibration
from dpmac.privacy import Ledger
from dpmac.tables import Schema

NO_TARGET = Schema(FEATURES)


@pytest.fixture(scope="module")
def private():
    return watched()


# --- calibration ------------------------------------------------------------------------------------------------------


def test_one_fit_costs_its_epsilon_with_the_calibration(private):
    assert 1.99 < private.privacy_.epsilon <= 2.0
    assert labels_of(private.privacy_.ledger) == {"training step": private.plan_.steps, "calibration": 6}


def test_the_network_says_the_calibrated_logits(private):
    slope, offset = private.calibration_
    assert slope > 0
    assert (slope, offset) != (1.0, 0.0)
    assert np.allclose(private.decision_function(UNSEEN), slope * private.before_ + offset, atol=1e-5)


def test_calibrate_false_spends_all_on_the_training(private):
    bare = model(calibrate=False).fit(TABLE)
    assert bare.calibration_ is None
    assert labels_of(bare.privacy_.ledger) == {"training step": 30}
    assert bare.plan_.noise_multiplier < private.plan_.noise_multiplier
    assert 1.99 < bare.privacy_.epsilon <= 2.0


def test_few_rows_have_their_base_rates_alone_and_without_noise_nothing_is_calibrated():
    assert isinstance(model()._calibration(999, 2.0), BaseRates)
    few, more = (model()._calibration(n, 2.0) for n in (249, 250))
    assert few.noise_multiplier < more.noise_multiplier
    assert isinstance(model()._calibration(1000, 2.0), Calibration)
    assert isinstance(model()._calibration(1000, 0.4), BaseRates)
    assert model(calibrate=False)._calibration(300, 2.0) is None
    assert plain().fit(TABLE).calibration_ is None
    fitted = small(epsilon=1.0, calibrate=True).fit(FEW)
    assert fitted.calibration_[0] == 1.0
    assert labels_of(fitted.privacy_.ledger) == {"training step": 30, "base rates": 1}
    assert 0.99 < fitted.privacy_.epsilon <= 1.0


# --- ledgers ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_a_second_fit_with_the_same_ledger_states_both(private):
    ledger = Ledger()
    for entry in private.privacy_.ledger.entries:  # the first fit's, as if it had been given this ledger
        ledger.append(entry)
    second = small(ledger=ledger).fit(FEW)
    assert second.privacy_.ledger is ledger
    assert labels_of(ledger) == {"training step": 60, "calibration": 6}
    alone = small().fit(FEW)
    assert second.plan_.noise_multiplier == alone.plan_.noise_multiplier  # what was spent before costs it no noise
    assert second.privacy_.epsilon > max(private.privacy_.epsilon, alone.privacy_.epsilon) + 0.5
    assert second.privacy_.statement().epsilon == second.privacy_.epsilon
    third = clone(second)
    assert third.ledger is ledger
    third.fit(FEW)
    assert len(ledger) == 36 + 30 + 30
    assert third.privacy_.epsilon == second.privacy_.epsilon  # of one ledger, whoever asks


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")  # it fits the same rows again on purpose
def test_a_ledger_of_our_own_is_new_for_every_fit():
    fitted = small()
    assert len(fitted.fit(FEW).privacy_.ledger) == len(fitted.fit(FEW).privacy_.ledger) == 30


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_path_is_begun_and_gone_on_with(tmp_path, kind):
    path = tmp_path / "ledger.jsonl"
    fitted = small(ledger=kind(path)).fit(FEW)
    once = fitted.privacy_.epsilon
    assert len(Ledger.load(path)) == 30
    again = clone(fitted).fit(FEW)
    assert Ledger.load(path).entries == again.privacy_.ledger.entries
    assert len(again.privacy_.ledger) == 60
    assert again.privacy_.epsilon > once + 0.5


def test_cross_validation_over_one_ledger_counts_every_fit():
    ledger = Ledger()
    scores = cross_val_score(small(ledger=ledger), X[:600], Y[:600], cv=2)
    assert (scores > 0.5).all()
    assert len(ledger) == 2 * 30


def test_total_epsilon_refuses_before_anything_is_released(private):
    ledger = Ledger()
    first = small(ledger=ledger, total_epsilon=2.0).fit(FEW)  # what fits is fitted
    before = ledger.entries
    held = first.privacy_.epsilon
    second = small(ledger=ledger, total_epsilon=held + 0.5)
    with pytest.raises(ArgumentError, match=r"total_epsilon=.*: the ledger holds .* already.*: lower epsilon"):
        second.fit(FEW)
    assert ledger.entries == before
    with pytest.raises(NotFittedError):
        second.predict(FEW)
    both = second.set_params(total_epsilon=4.0).fit(FEW).privacy_.epsilon
    assert held + 0.5 < both <= 4.0


def test_total_epsilon_counts_the_calibration_too(private):
    """Between what the training costs by itself, and what it costs with the calibration after it."""
    training = Ledger()
    for entry in private.privacy_.ledger.entries[:30]:
        training.append(entry)
    between = (training.epsilon(1e-5) + private.privacy_.epsilon) / 2
    assert training.epsilon(1e-5) < between - 0.01
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="total_epsilon="):
        model(ledger=ledger, total_epsilon=between).fit(TABLE)
    assert len(ledger) == 0


# --- threads ----------------------------------------------------------------------------------------------------------


def in_a_thread(work):
    """What ``work`` raised in another thread, or None."""
    found = []

    def worked():
        try:
            work()
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=worked, name="the other")
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return found[0] if found else None


def fit_of(kind, **more):
    """A model that is trained, or one by a single release, and its rows."""
    if kind == "trained":
        return small(**more, epochs=3)
    return DPMACPCA(1, schema=NO_TARGET, **more)


@pytest.mark.parametrize("where", ["in memory", "by path", "two objects of a path"])
@pytest.mark.parametrize("kind", ["trained", "released at once"])
def test_threads_that_share_a_ledger_are_refused_before_anything_is_spent(kind, where, tmp_path):
    """Found in an attack: four threads all found room in a total of 1.2, and together spent 2.138."""
    first = others = Ledger()
    if where == "by path":
        first = others = tmp_path / "book"
    if where == "two objects of a path":
        first, others = Ledger(tmp_path / "book"), Ledger(tmp_path / "book")
    budget = {"epsilon": 1.0, "total_epsilon": 1.2}
    model, errors = fit_of(kind, ledger=first, **budget), []
    holding = model._with_ledger

    @contextmanager
    def held():
        """In the middle of its fit, the model waits until others have tried theirs."""
        with holding():
            tried = (fit_of(kind, ledger=others, **budget), fit_of("trained", ledger=others, **budget))
            errors.extend(in_a_thread(partial(other.fit, FEW)) for other in tried)
            yield

    model._with_ledger = held
    model.fit(FEW)
    assert len(errors) == 2
    for error in errors:
        assert isinstance(error, ArgumentError)
        assert error.name == "ledger"
        said = str(error)
        assert re.search(r"the thread 'MainThread' of this process has been writing to it since \d{4}-\d\d-\d\d", said)
        assert said.endswith("a ledger has one writer: wait until that has ended, or stop it, and start this again")
    book = model.privacy_.ledger
    assert len({entry.run for entry in book.entries}) == 1
    spent = book.epsilon(1e-4)
    assert 0.5 < spent <= 1.2
    late = in_a_thread(lambda: fit_of(kind, ledger=first, **budget).fit(FEW))
    assert late.name == "total_epsilon"
    assert in_a_thread(lambda: fit_of(kind, ledger=first, **{**budget, "epsilon": 0.1}).fit(FEW)) is None
    assert book.epsilon(1e-4) >= spent
