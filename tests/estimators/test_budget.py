"""What an estimator asks of its budget before anything is spent: totals, deltas, seeds and the other processes."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch

from dpmac import DPMACPCA, ArgumentError, DPMACClassifier, Machine
from dpmac.estimators.budget import alone_with_ledger
from dpmac.extensions.world import WorldError
from dpmac.privacy import Entry, Ledger, Mechanism
from dpmac.privacy.accounting import epsilon_of
from dpmac.training.defaults import safe_delta
from talking import talk

OWN = [Mechanism(6.0, 1.0, 1, "another")]


def spent():
    ledger = Ledger()
    ledger.append(Entry("mean", 4.0, 1.0))
    return ledger


# --- totals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_a_total_has_room_for_exactly_what_ledger_and_fit_cost_together(delta):
    ledger = spent()
    whole = epsilon_of([*ledger.mechanisms(), *OWN], delta)
    assert whole > max(ledger.epsilon(delta), epsilon_of(OWN, delta))
    for enough in (None, math.inf, whole + 1e-9, whole):
        DPMACPCA(total_epsilon=enough)._check_total(ledger, lambda _: OWN, delta)
    for little in (math.nextafter(whole, 0.0), ledger.epsilon(delta), 1e-3):
        with pytest.raises(ArgumentError, match="total_epsilon="):
            DPMACPCA(total_epsilon=little)._check_total(ledger, lambda _: OWN, delta)
    assert len(ledger) == 1


def test_the_ledgers_account_holds_whoever_asks_and_beside_a_total_of_ones_own():
    """Of an estimator's own fit it was read beforehand; anybody else finds it in the ledger."""
    whole = epsilon_of(OWN, 1e-6)
    enough, little = (Ledger.init(total_epsilon=total, delta=1e-6) for total in (whole, math.nextafter(whole, 0.0)))
    for total in (None, whole):  # the account's own total, said once more, is that
        DPMACPCA(total_epsilon=total)._check_total(enough, lambda _: OWN, 1e-6)
    with pytest.raises(ArgumentError, match="total_epsilon="):
        DPMACPCA()._check_total(little, lambda _: OWN, 1e-6)
    with pytest.raises(ArgumentError, match=r"was opened with a total of .*, which holds: leave this out"):
        DPMACPCA(total_epsilon=math.nextafter(whole, 9.0))._check_total(enough, lambda _: OWN, 1e-6)


@pytest.mark.parametrize("name", ["epsilon", "total_epsilon"])
@pytest.mark.parametrize("value", [0, 0.0, -1.0, math.nan, "much", True])
def test_a_budget_that_is_no_number_above_0_is_refused(name, value):
    with pytest.raises(ArgumentError, match=rf"^{name}="):
        DPMACPCA(**{name: value})._check_budget()


# --- delta ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 300, 10**7])
def test_delta_is_safely_below_one_row_unless_another_is_given(n):
    assert DPMACPCA()._delta(n) == safe_delta(n) < 1 / n
    assert DPMACPCA(delta=3e-8)._delta(n) == 3e-8
    for bad in (1 / n, 1.5 / n, 0.0, -1e-5, math.nan):
        with pytest.raises(ArgumentError, match=r"^delta="):
            DPMACPCA(delta=bad)._delta(n)


# --- seeds and devices ------------------------------------------------------------------------------------------------


def test_states_give_seeds_of_their_own_and_the_same_state_the_same():
    seeds = [DPMACPCA(random_state=np.random.RandomState(number))._seed() for number in range(200)]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [DPMACPCA(random_state=np.random.RandomState(number))._seed() for number in range(200)]


def test_a_seed_is_taken_as_it_is_or_refused():
    for seed in (None, 0, 7, 2**63 - 1):
        assert DPMACPCA(random_state=seed)._seed() == seed
    for seed in (-1, 2**63, 0.5, "1"):
        with pytest.raises(ArgumentError, match=r"^random_state="):
            DPMACPCA(random_state=seed)._seed()


def test_without_a_seed_an_estimator_is_not_deterministic_and_says_so():
    assert DPMACPCA().__sklearn_tags__().non_deterministic
    assert not DPMACPCA(random_state=0).__sklearn_tags__().non_deterministic


def test_a_private_classifier_may_score_poorly_and_an_exact_one_may_not():
    assert DPMACClassifier(epsilon=2.0).__sklearn_tags__().classifier_tags.poor_score
    assert not DPMACClassifier(epsilon=math.inf).__sklearn_tags__().classifier_tags.poor_score


def test_a_device_that_is_not_there_is_named():
    """``xpu`` and others are known by name, and may be missing all the same."""
    assert Machine().available_device() == torch.device("cpu")
    missing = [name for name in ("cuda:99", "xpu:99", "mps:99", "nonsense") if _is_missing(name)]
    assert "nonsense" in missing
    for name in missing:
        with pytest.raises(ArgumentError, match=r"^device=.*use 'cpu'"):
            Machine(device=name).available_device()


def _is_missing(name):
    try:
        torch.zeros(1, device=name).cpu()
    except Exception:
        return True
    return False


# --- others -----------------------------------------------------------------------------------------------------------


def test_processes_with_other_budgets_are_refused_before_they_look_at_a_row():
    def work(world):
        DPMACPCA(epsilon=1.0 + world.rank, machine=Machine(world=world))._check_budget()

    assert all(isinstance(one.error, WorldError) for one in talk(2, work))
    same = talk(2, lambda world: DPMACPCA(epsilon=1.0, machine=Machine(world=world))._check_budget())
    assert [one.error for one in same] == [None, None]


def test_the_leaders_seed_is_everybodys():
    ended = talk(3, lambda world: DPMACPCA(random_state=world.rank + 5, machine=Machine(world=world))._seed())
    assert [one.value for one in ended] == [5, 5, 5]


def test_while_a_fit_has_a_ledger_no_other_thread_records_anything_in_it():
    ledger, errors = Ledger(), []

    class Model(DPMACPCA):
        @alone_with_ledger
        def fit(self, X):
            other.start()
            other.join(30)
            ledger.append(Entry("mean", 4.0, 1.0))  # the fit itself may
            return X

    def record():
        with pytest.raises(
            ArgumentError, match=r"^ledger='in memory': the thread 'MainThread' of .* one writer"
        ) as said:
            ledger.append(Entry("mean", 4.0, 1.0))
        errors.append(said.value)

    other = threading.Thread(target=record)
    assert Model(ledger=ledger).fit("rows") == "rows"
    assert len(errors) == len(ledger) == 1
    ledger.append(Entry("mean", 4.0, 1.0))


@pytest.mark.parametrize("ledger", [None, "a/path"])
def test_a_fit_whose_ledger_is_no_object_yet_is_called_as_it_is(ledger):
    class Model(DPMACPCA):
        @alone_with_ledger
        def fit(self, X, *, groups=None):
            return X, groups

    assert Model(ledger=ledger).fit("rows", groups="who") == ("rows", "who")
