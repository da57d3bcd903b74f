"""Fits into a ledger that was opened with a total: held to it without being told, and refused before they spend."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from patients import FEW, small
from sklearn.exceptions import NotFittedError

import dpmac
from dpmac import DPMACPCA, ArgumentError, Ledger
from dpmac.nets import LOSSES, DenseNetwork
from dpmac.privacy import Entry, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer

ROWS = np.random.default_rng(0).uniform(-1, 1, (300, 3))


def opened(path, total=2.0, delta=1e-6, **more):
    return Ledger.init(path, total_epsilon=total, delta=delta, **more)


def pca(ledger, epsilon=1.0, **more):
    return DPMACPCA(2, epsilon=epsilon, ledger=ledger, feature_range=(-1, 1), **more)


def advised(error):
    """The epsilon that an error advises."""
    return float(re.search(r"lower epsilon to ([\d.]+) at most$", str(error))[1])


@pytest.mark.parametrize("by", ["path", "object"])
@pytest.mark.parametrize("kind", ["released at once", "trained"])
def test_a_fit_is_held_to_the_total_without_being_told(tmp_path, by, kind):
    """And the advice holds: what it says fits, and a thirtieth more does not."""
    ledger = opened(tmp_path / "book")
    if by == "path":
        ledger = tmp_path / "book"

    def fit(epsilon):
        if kind == "trained":
            return small(epsilon=epsilon, ledger=ledger).fit(FEW)
        return pca(ledger, epsilon).fit(ROWS)

    first = fit(1.5).privacy_
    assert first.delta == 1e-6  # the account's
    assert 1.4 < first.epsilon <= 1.5
    before = (tmp_path / "book").read_bytes()
    with pytest.raises(ArgumentError, match=r"total_epsilon=2.0: the ledger holds 1.\d\d already, and with") as error:
        fit(1.5)
    most = advised(error.value)
    with pytest.raises(ArgumentError, match="total_epsilon="):
        fit(most * 1.03 + 0.01)
    assert (tmp_path / "book").read_bytes() == before
    assert 1.97 < fit(most).privacy_.epsilon <= 2.0


def test_where_nothing_is_left_no_epsilon_is_advised(tmp_path):
    ledger = opened(tmp_path / "book", total=1.0)
    pca(ledger, 1.0).fit(ROWS)
    model = pca(ledger, 0.5)
    with pytest.raises(ArgumentError, match="nothing is left: these rows have given what they may"):
        model.fit(ROWS)
    with pytest.raises(NotFittedError):
        model.transform(ROWS)


def test_a_total_of_ones_own_is_advised_on_too():
    ledger = Ledger()
    pca(ledger, 1.0).fit(ROWS)
    with pytest.raises(ArgumentError) as error:
        pca(ledger, 2.0, total_epsilon=2.0).fit(ROWS)
    most = advised(error.value)
    assert pca(ledger, most, total_epsilon=2.0).fit(ROWS).privacy_.epsilon <= 2.0


def test_the_stricter_of_two_totals_holds_and_a_larger_one_is_refused(tmp_path):
    ledger = opened(tmp_path / "book", total=2.0)
    with pytest.raises(ArgumentError, match=r"total_epsilon=3.0: the ledger was opened with a total of 2, which holds"):
        pca(ledger, 1.0, total_epsilon=3.0).fit(ROWS)
    with pytest.raises(ArgumentError, match=r"total_epsilon=0.5: the ledger holds 0.00 already"):
        pca(ledger, 1.0, total_epsilon=0.5).fit(ROWS)
    assert len(ledger) == 0
    pca(ledger, 1.0, total_epsilon=1.2).fit(ROWS)
    with pytest.raises(ArgumentError, match=r"total_epsilon=1.2"):
        pca(ledger, 1.0, total_epsilon=1.2).fit(ROWS)


def test_a_fit_at_a_larger_delta_is_counted_at_the_accounts(tmp_path):
    """An epsilon of 2 at 1e-3 is more than 2 at 1e-9."""
    ledger = opened(tmp_path / "book", total=2.0, delta=1e-9)
    with pytest.raises(ArgumentError, match=r"total_epsilon=2.0: .* \(at delta 1e-09\): lower epsilon to"):
        pca(ledger, 2.0, delta=1e-3).fit(ROWS)
    assert len(ledger) == 0


def test_a_delta_that_is_none_for_so_few_rows_is_refused(tmp_path):
    ledger = opened(tmp_path / "book", delta=0.01)
    with pytest.raises(
        ArgumentError, match=r"^delta=None: the ledger's account was opened at delta 0.01, .* too large"
    ):
        pca(ledger).fit(ROWS)
    assert len(ledger) == 0
    pca(ledger, delta=1e-4).fit(ROWS)


def test_nothing_of_an_account_stays_with_the_estimator(tmp_path):
    model = pca(opened(tmp_path / "book")).fit(ROWS)
    assert "_account" not in vars(model)
    model.set_params(ledger=Ledger())
    assert model.fit(ROWS).privacy_.delta == 1e-5


def test_a_person_account_says_groups_to_a_fit_of_rows(tmp_path):
    ledger = opened(tmp_path / "book", unit="person")
    with pytest.raises(ArgumentError, match="give groups=, the ids of the persons"):
        pca(ledger).fit(ROWS)
    pca(ledger, max_rows=2).fit(ROWS, groups=np.arange(300) // 2)
    assert ledger.unit == "person"


def test_a_trainer_is_held_to_it_before_its_first_step(tmp_path):
    plan = Plan.for_budget(epsilon=1.0, delta=1e-5, n=300, batch_size=30, steps=20)
    ledger = opened(tmp_path / "book", total=0.5, delta=1e-4)
    trainer = Trainer(DenseNetwork([3, 2], source=SeededNoise(0)), LOSSES["softmax"], plan)
    with pytest.raises(ArgumentError, match="total_epsilon="):
        trainer.fit(torch.zeros(300, 3), torch.eye(2)[torch.zeros(300, dtype=torch.long)], ledger=ledger)
    assert len(ledger) == 0


# --- threads ----------------------------------------------------------------------------------------------------------


def in_the_middle(model, work):
    """Fit ``model``; while it has its ledger and has not yet spent anything, ``work`` is done by another thread. What
    that raised."""
    found, holding = [], model._with_ledger

    def worked():
        try:
            work()
        except Exception as error:
            found.append(error)

    @contextmanager
    def held():
        with holding():
            other = threading.Thread(target=worked)
            other.start()
            other.join(60)
            yield

    model._with_ledger = held
    model.fit(FEW)
    return found


def test_a_thread_that_shares_a_path_is_refused_and_the_fit_ends_well(tmp_path):
    """Each loaded the file, and the second one's first release broke the first one's training in the middle."""
    path = tmp_path / "book"
    first, second = (small(epsilon=0.5, ledger=path, epochs=3) for _ in range(2))
    (error,) = in_the_middle(first, lambda: second.fit(FEW))
    assert "has been writing to it since" in str(error)
    assert len(Ledger.load(path)) == 3
    with pytest.raises(NotFittedError):
        second.predict(FEW)
    second.fit(FEW)  # as the error says: when the first has ended
    assert len(Ledger.load(path)) == 6
    assert sorted(found.name for found in tmp_path.iterdir()) == ["book", "book.seen"]


def test_threads_that_share_an_account_do_not_exceed_it(tmp_path):
    opened(tmp_path / "book", total=1.2)
    errors = []

    def fit():
        try:
            pca(tmp_path / "book").fit(ROWS)
        except ArgumentError as error:
            errors.append(error.name)

    threads = [threading.Thread(target=fit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(errors) == 2
    assert set(errors) <= {"ledger", "total_epsilon"}  # refused beside the first, or after it
    assert Ledger.load(tmp_path / "book").epsilon(1e-6) <= 1.2


def test_a_release_beside_a_fit_is_refused(tmp_path):
    """A training checks at its end that the ledger holds what it planned: nobody else may write in between."""
    ledger = Ledger(tmp_path / "book")
    (error,) = in_the_middle(small(ledger=ledger, epochs=3), lambda: ledger.append(Entry("mean", 8.0, 1.0)))
    assert isinstance(error, ArgumentError)
    assert "a ledger has one writer" in str(error)
    assert "mean" not in {entry.label for entry in ledger.entries}
    ledger.append(Entry("mean", 8.0, 1.0))


def test_a_trainer_and_an_evaluation_refuse_other_threads_as_well(tmp_path, monkeypatch):
    """Each checks what a ledger holds, and then takes long."""
    model = small(ledger=Ledger(tmp_path / "book"), epochs=3).fit(FEW)
    tried, exclusive = [], Ledger.exclusive

    @contextmanager
    def seen(self, **how):
        with exclusive(self, **how):
            if how and not tried:
                other = threading.Thread(target=lambda: tried.append(refused(self)))
                other.start()
                other.join(60)
            yield

    def refused(ledger):
        with pytest.raises(ArgumentError, match="one writer"):
            ledger.append(Entry("mean", 8.0, 1.0))
        return True

    monkeypatch.setattr(Ledger, "exclusive", seen)
    dpmac.evaluate(model, FEW, epsilon=1.0)
    assert tried == [True]
    tried.clear()
    plan = Plan.for_budget(epsilon=1.0, delta=1e-5, n=300, batch_size=30, steps=2)
    trainer = Trainer(DenseNetwork([3, 2], source=SeededNoise(0)), LOSSES["softmax"], plan)
    trainer.fit(torch.zeros(300, 3), torch.eye(2)[torch.zeros(300, dtype=torch.long)], ledger=Ledger())
    assert tried == [True]
