"""The turns of threads: releases wait for each other, and whatever comes beside a fit is refused."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from dpmac import ArgumentError
from dpmac.extensions.turns import Turns


def beside(work):
    """``work`` in another thread: the error that it raised, or None."""
    found = []

    def worked():
        try:
            work()
        except ArgumentError as error:
            found.append(error)

    other = threading.Thread(target=worked)
    other.start()
    other.join(30)
    assert not other.is_alive()
    return found[0] if found else None


def take(turns, **how):
    with turns.taken(None, **how):
        pass


def test_who_refuses_is_named_without_control_characters(tmp_path):
    turns, name = Turns(), threading.current_thread().name
    threading.current_thread().name = "fit\x1b[2J"
    try:
        with turns.taken(None, refusing=True):
            for how in ({}, {"refusing": True}):
                error = beside(lambda how=how: take(turns, **how))
                assert error.name == "ledger"
                assert str(error).startswith("ledger='in memory': the thread 'fit\\x1b[2J' of this process has been ")
    finally:
        threading.current_thread().name = name
    assert beside(lambda: take(turns)) is None


def test_a_short_one_is_waited_for_and_its_owner_may_take_it_again():
    turns, order, waits = Turns(), [], threading.Event()

    def later():
        waits.set()
        with turns.taken(None, refusing=True):
            order.append("second")

    other = threading.Thread(target=later)
    with turns.taken(None):
        other.start()
        waits.wait(30)
        take(turns)
        other.join(0.05)
        order.append("first")
    other.join(30)
    assert order == ["first", "second"]


def test_whoever_waits_when_a_fit_begins_is_refused():
    """It waited for a release, after which the same thread began a fit."""
    turns, errors, waits = Turns(), [], threading.Event()

    def later():
        waits.set()
        with pytest.raises(ArgumentError) as said:
            take(turns)
        errors.append(said.value)

    other = threading.Thread(target=later)
    with turns.taken(None):
        other.start()
        waits.wait(30)
        with turns.taken(None, refusing=True):
            with turns._changed:
                turns._changed.notify_all()
            other.join(30)
        assert not other.is_alive()
        waits.clear()
        last = threading.Thread(target=take, args=(turns,))  # the fit is over, the release is not: this one waits
        last.start()
        last.join(0.05)
        assert last.is_alive()
    last.join(30)
    assert len(errors) == 1


def test_it_is_given_back_by_an_error_too():
    turns = Turns()
    with pytest.raises(KeyError), turns.taken(None, refusing=True):
        raise KeyError
    assert beside(lambda: take(turns)) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_its_parents_threads():
    turns, held, done = Turns(), threading.Event(), threading.Event()

    def hold():
        with turns.taken(None):
            held.set()
            done.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)
    child = multiprocessing.get_context("fork").Process(target=take, args=(turns,))
    child.start()
    child.join(30)
    code = child.exitcode
    child.kill()
    done.set()
    other.join(30)
    assert code == 0
