"""Threads that share one ledger in memory: what one of them has checked is still true when it is recorded.

Each test holds the ledger, lets another thread come as far as asking for it, and changes what that thread relies on.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions.accounts import Account
from dpmac.privacy import Ledger
from dpmac.privacy.entry import Entry

SOON = 60  # seconds: only a test that fails waits so long
HALVES = {"train": 0.5, "test": 0.5}


@contextmanager
def waiting(book, work):
    """Inside, another thread that does ``work`` has asked for ``book`` and waits; what it gave or raised is listed."""
    asked, found, held = threading.Event(), [], book.exclusive

    def exclusive():
        asked.set()
        return held()

    def done():
        try:
            found.append(work())
        except ArgumentError as error:
            found.append(error)

    other = threading.Thread(target=done)
    with held():
        book.exclusive = exclusive
        other.start()
        assert asked.wait(SOON)
        del book.exclusive
        yield found
    other.join(SOON)
    assert not other.is_alive()


def test_releases_of_two_units_do_not_meet_in_one_ledger():
    """Found in an attack: both looked at an empty ledger, and 17 of 200 then held rows and persons."""
    book = Ledger()
    with waiting(book, lambda: book.append(Entry("theirs", 1.0, 1.0, unit="person"))) as found:
        book.append(Entry("ours", 1.0, 1.0))
    assert "whose unit of privacy is a row, not a person" in str(found[0])
    assert [entry.label for entry in book.entries] == ["ours"]


def test_a_data_set_is_divided_by_one_key():
    book = Ledger()
    with waiting(book, lambda: book.divide(HALVES, by="id")) as found:
        ours = book.divide(HALVES, by="id")
    assert found == [ours]
    assert book.splits == ours


def test_a_data_set_is_divided_once_whoever_comes_first():
    book = Ledger()
    with waiting(book, lambda: book.divide({"train": 0.9, "test": 0.1}, by="id")) as found:
        ours = book.divide(HALVES, by="id")
    assert "and stays so" in str(found[0])
    assert book.splits == ours


def test_no_release_comes_between_the_look_at_what_was_spent_and_the_account():
    book = Ledger()
    with waiting(book, lambda: Ledger.init(book, total_epsilon=1.0)) as found:
        book.append(Entry("ours", 1.0, 1.0))
    assert "the ledger holds" in str(found[0])
    assert book.account is None


def test_nothing_is_released_while_a_plan_is_compared_with_what_was_spent():
    book, free = Ledger.init(total_epsilon=2.0), []
    compare = book._allowance.plan

    def plan(*lists):
        another = threading.Thread(target=lambda: free.append(book._lock.acquire(blocking=False)))
        another.start()
        another.join(SOON)
        compare(*lists)

    book._allowance.plan = plan
    book.check_plan([Entry("step", 4.0, 1.0).mechanism()])
    assert free == [False]


def test_the_ledger_of_a_split_gets_no_account_of_its_own():
    """It would be held to by nobody: what is released is recorded in the whole ledger."""
    book = Ledger()
    splits = book.divide(HALVES)
    mine = [one for one in range(100) if splits.of([one])[0] == 0]
    part = book.split("train", mine)
    with pytest.raises(ArgumentError, match="give that of all rows"):
        Ledger.init(part, total_epsilon=1.0)
    with pytest.raises(ArgumentError, match="give that of all rows"):
        part.check_account(Account(1.0))
    assert Ledger.init(book, total_epsilon=1.0).account == part.account
