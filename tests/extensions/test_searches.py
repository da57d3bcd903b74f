"""The best of several runs: by an order of their scores, whatever a score is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import pytest
import torch

from dpmac.extensions.searches import Prepaid, Rehearsal, Rehearsed, best_of
from dpmac.methods.merits import MERITS, merit_of
from dpmac.privacy import Entry, Ledger, Mechanism


@dataclass(frozen=True)
class Made:
    score: float


@pytest.mark.parametrize("scores", [(0.1, 0.7, 0.3), (math.nan, 0.2, 0.7), (math.nan, math.nan, 0.1), (0.2, -math.inf)])
def test_the_best_does_not_depend_on_the_order_of_the_runs(scores):
    """What a search costs is proved for an order of what runs may give: a score that is no number has its place in it,
    and does not win by coming first."""
    best = max(score for score in scores if not math.isnan(score))
    for order in permutations(scores):
        assert best_of(len(order), lambda turn, order=order: Made(order[turn])).score == best


def test_the_smallest_difference_decides():
    for scores in ((1e-17, 2e-17), (-2e-17, -1e-17), (0.0, 5e-324)):
        for order in permutations(scores):
            assert best_of(2, lambda turn, order=order: Made(order[turn])).score == max(scores)


@pytest.mark.parametrize("kind", [Prepaid, Rehearsal])
def test_a_runs_ledger_begins_with_all_that_was_released_before(kind):
    """A run plans on top of it; and whatever reads the run's ledger sees the same data set."""
    before = Ledger(data_set="visits")
    before.append(Entry("mean", 4.0, 1.0))
    book = kind(before, [Mechanism(2.0)])
    assert (book.data_set, book.entries) == ("visits", before.entries)
    with pytest.raises(RuntimeError, match="not paid for"):
        book.append(Entry("mean", 3.0, 1.0))
    assert len(before) == len(book) == 1


def test_what_is_paid_for_is_released_once_and_as_often_as_it_says():
    book, entry = Prepaid(Ledger(), [Mechanism(2.0, count=3)]), Entry("mean", 2.0, 1.0)
    for _ in range(3):
        assert not book.complete
        book.append(entry)
    assert book.complete
    with pytest.raises(RuntimeError, match="not paid for"):
        book.append(entry)
    assert len(book) == 3


def test_a_rehearsal_ends_at_what_is_paid_for_and_keeps_nothing():
    book = Rehearsal(Ledger(), [Mechanism(2.0)])
    with pytest.raises(Rehearsed):
        book.append(Entry("mean", 2.0, 1.0))
    assert not len(book)
    assert not issubclass(Rehearsed, Exception)  # or code between would take it for a failure


def test_of_equal_runs_the_first_is_taken():
    made = [Made(0.2), Made(0.7), Made(0.7), Made(0.1)]
    assert best_of(4, made.__getitem__) is made[1]


def test_runs_none_of_which_has_a_score_are_the_first():
    assert math.isnan(best_of(3, lambda _: Made(math.nan)).score)


@pytest.mark.parametrize("name", MERITS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_the_merit_of_a_model_that_has_diverged_is_a_number_on_public_rows_too(name, bad):
    outputs, targets = torch.full((5, 2), bad, dtype=torch.float64), torch.eye(2)[[0, 1, 0, 1, 1]]
    outputs[0] = torch.tensor([2.0, -1.0], dtype=torch.float64)
    assert 0.0 <= merit_of(name, outputs, targets) <= 1.0
