"""The account of a data set that is divided: for each split its own releases with those from all rows, and the largest.

The oracle composes every split's list by itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmac.kernels.moments import merged
from dpmac.privacy import Mechanism, Statement
from dpmac.privacy.accounting import by_split, cost_of, epsilon_of

DELTA = 1e-5
STEPS = Mechanism(1.2, 0.05, 300, "training step", 2.0**-80)
mechanisms = st.builds(
    Mechanism,
    noise_multiplier=st.sampled_from([0.9, 2.0, 5.0]),
    sample_rate=st.sampled_from([1.0, 0.1]),
    count=st.integers(1, 40),
    label=st.sampled_from(["a", "b"]),
    split=st.sampled_from(["", "train", "test", "third"]),
)


def seen_by(split, made):
    return [replace(m, split="") for m in made if m.split in ("", split)]


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@settings(max_examples=8, deadline=None)
@given(made=st.lists(mechanisms, max_size=5))
def test_the_figure_is_the_largest_of_the_splits_own(accountant, made):
    each = [epsilon_of(seen_by(split, made), DELTA, accountant) for split in ("train", "test", "third")]
    assert epsilon_of(made, DELTA, accountant) == pytest.approx(max(each), rel=1e-12, abs=1e-12)
    assert epsilon_of(made, DELTA, accountant) <= epsilon_of([replace(m, split="") for m in made], DELTA, accountant)


def test_a_release_from_all_rows_is_paid_for_in_every_split():
    train, test, whole = (Mechanism(2.0, split=name) for name in ("train", "test", ""))
    assert epsilon_of([train, test], DELTA) == epsilon_of([train], DELTA) == epsilon_of([whole], DELTA)
    assert epsilon_of([train, test, whole], DELTA) == epsilon_of([Mechanism(2.0, count=2)], DELTA)
    assert epsilon_of([train, train], DELTA) == epsilon_of([whole, whole], DELTA)


def test_names_do_not_matter_and_nothing_composes_to_nothing():
    assert epsilon_of([Mechanism(2.0, split="a")], DELTA) == epsilon_of([Mechanism(2.0, split="b")], DELTA)
    assert by_split([]) == [()]
    assert epsilon_of([Mechanism(2.0, count=0, split="a")], DELTA) == 0.0


def test_equal_releases_of_two_splits_stay_apart_when_they_are_merged():
    pair = [Mechanism(2.0, split="train"), Mechanism(2.0, split="test")]
    assert merged(pair) == tuple(pair)
    assert by_split([*pair, Mechanism(2.0)]) == [(Mechanism(2.0, count=2),)] * 2


def test_one_split_without_noise_is_enough_to_promise_nothing():
    made = [STEPS, Mechanism(0.0, split="test")]
    assert math.isinf(epsilon_of(made, DELTA))
    assert not Statement(tuple(made), DELTA, seeded=False).private


def test_what_a_sample_may_overflow_by_is_charged_to_its_own_split():
    likely = Mechanism(1.0, 0.1, 10, overflow=2.0**-20, split="train")
    other = Mechanism(0.9, split="test")
    assert cost_of((likely, other), 1e-4, "pld", _full()) == max(
        cost_of((likely,), 1e-4, "pld", _full()), cost_of((other,), 1e-4, "pld", _full())
    )


def test_a_statement_says_which_rows_were_read_and_how_the_figure_is_made():
    said = Statement((replace(STEPS, split="train"), Mechanism(1.0, split="test")), DELTA, seeded=False)
    lines = "\n".join(said.sentences())
    assert "composed for each split with those on all; the figure above is the largest" in lines
    assert "on a Poisson sample of the rows of the split 'train' (rate 0.05, larger" in lines
    assert "on all rows of the split 'test', once" in lines
    assert [m["split"] for m in said.to_dict()["mechanisms"]] == ["train", "test"]
    assert "all composed in the figure above" in "\n".join(Statement((STEPS,), DELTA, False).sentences())


def _full():
    from dpmac.kernels.loss_distributions import FULL

    return FULL
