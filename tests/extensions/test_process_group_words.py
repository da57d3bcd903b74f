"""What processes say to each other, with threads in their place: who is heard, who is refused, and who pays."""

from __future__ import annotations

import gc
import math
import weakref
from types import SimpleNamespace

import pytest
import torch

from dpmac.extensions import processes
from dpmac.extensions.processes import ProcessGroup, _short, possible_sums
from dpmac.extensions.world import WorldError
from dpmac.privacy import Partition
from dpmac.randomness import SystemNoise
from group_of_threads import Group, Talk, in_threads, values

GROUPS = {"all": (), "some": (Group(first=10),), "words apart": (Group(first=10), Group("words", 10))}


@pytest.mark.parametrize("groups", GROUPS)
def test_everybody_hears_everybody_and_the_leaders_numbers_are_everywhere(groups, monkeypatch):
    def work(world):
        heard = world.everyone({"rank": world.rank, "text": "é" * (5 - world.rank)})
        led = world.leaders(f"of {world.rank}")
        numbers = [torch.full((2, 3), float(world.rank)), torch.full((4,), 10.0 + world.rank, requires_grad=True)]
        world.spread(numbers)
        world.spread([])
        return heard, led, [one.tolist() for one in numbers], world.leads

    said = values(in_threads(monkeypatch, 3, work, *GROUPS[groups]))
    everyone = [{"rank": rank, "text": "é" * (5 - rank)} for rank in range(3)]
    assert [one[:3] for one in said] == [(everyone, "of 0", [[[0.0] * 3] * 2, [10.0] * 4])] * 3
    assert [one[3] for one in said] == [True, False, False]


def test_words_go_over_their_own_group_and_sums_over_the_other(monkeypatch):
    sums, words = Group("sums"), Group("words")
    for groups, spoken in (((sums, words), words), ((sums,), sums)):
        talk = Talk(2)
        values(in_threads(monkeypatch, 2, lambda w: (w.everyone(1), w.agree("a", 1), released(w)), *groups, talk=talk))
        used = {kind: {group for said, group in talk.heard if said == kind} for kind, _ in talk.heard}
        assert used == {"all_gather": {spoken}, "broadcast": {spoken, sums}, "send": {sums}, "recv": {sums}}


# --- agreeing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [1, 2])
def test_what_differs_is_named_in_every_process_and_what_does_not_is_agreed_on(odd, monkeypatch):
    def work(world):
        for name in ("a", "b") if world.rank else ("b", "a"):
            world.note(name, [1, 2])
        world.agree("c", 3)  # in whatever order it was noted
        world.note("first", "same")
        world.note("second", world.rank == odd)
        world.agree("third", world.rank)

    for one in in_threads(monkeypatch, 3, work):
        assert one.words == f"WorldError: second of process {odd} is True, and False of process 0"


def test_what_only_looks_the_same_is_refused(monkeypatch):
    said = in_threads(monkeypatch, 2, lambda w: w.agree("a", 1 if w.rank else 1.0))
    assert [one.words for one in said] == ["WorldError: the processes do not do the same"] * 2


def test_what_was_noted_is_told_once(monkeypatch):
    def work(world):
        world.note("a", 1)
        world.agree("b", 1)
        if world.rank:
            world.note("a", 1)
        world.agree("b", 1)

    assert "a of process 1 is 1, and None of process 0" in in_threads(monkeypatch, 2, work)[0].words


@pytest.mark.parametrize("odd", [0, 2])
def test_what_fails_in_one_process_fails_in_all_and_each_knows_whose_it_was(odd, monkeypatch):
    def work(world):
        assert world.everywhere(lambda: 10 * world.rank) == 10 * world.rank
        world.everywhere(lambda: 1 / int(world.rank != odd))

    for rank, one in enumerate(in_threads(monkeypatch, 3, work)):
        told = f"WorldError: process {odd} could not make its part; nothing was released: see its error"
        assert one.words == ("ZeroDivisionError: division by zero" if rank == odd else told)


# --- releases ---------------------------------------------------------------------------------------------------------

PARTS = (Partition("s", (2,)), Partition("t", (1, 2)))


class Sums:
    """What is asked, and sums that say whose they are; ``lie`` is what the process adds."""

    query = SimpleNamespace(partitions=PARTS)
    entry = "entry"

    def __init__(self, world, lie=0.0, limits=(100.0, 100.0, 100.0), about=None):
        self.world, self.lie, self.limits, self.about = world, lie, limits, about or {"what": "a sum"}

    def sums(self, source):
        return torch.tensor([1.0 + self.lie, 10.0 * self.world.rank, 2.0, 2.0]).double()

    def perturbed(self, sums, source):
        return {"t": sums[1], "s": sums[0]}  # in an order of its own


class Books:
    """A ledger that says who wrote to it; ``pay`` may fail."""

    def __init__(self, world, notes, pay=None):
        self.world, self.notes, self.pay = world, notes, pay

    def append(self, entry):
        assert entry == "entry"
        self.notes.append("paid" if self.world.leads else "noted")
        if self.pay is not None:
            self.pay()


@pytest.fixture(autouse=True)
def told_of(monkeypatch):
    """What a release is about, and how much each process can bring, as the test says."""
    monkeypatch.setattr(processes, "described", lambda asked: asked.about() if callable(asked.about) else asked.about)
    monkeypatch.setattr(processes, "most_steps", lambda asked: asked.limits)
    monkeypatch.setattr(processes, "whole_sums", lambda asked, source: asked.sums(source))


def released(world, lie=0.0, limits=(100.0, 100.0, 100.0), about=None, pay=None, notes=None):
    books = Books(world, [] if notes is None else notes, pay)
    answer = world.released(Sums(world, lie, limits, about), SystemNoise(), books)
    return {name: one.tolist() for name, one in answer.items()}


def test_the_leader_adds_up_pays_once_and_everybody_gets_the_answer(monkeypatch):
    notes = {}

    def work(world):
        notes[world.rank] = []
        return [released(world, notes=notes[world.rank]) for _ in range(2)]

    assert values(in_threads(monkeypatch, 3, work)) == [[{"s": [3.0, 30.0], "t": [[6.0, 6.0]]}] * 2] * 3
    assert notes == {0: ["paid"] * 2, 1: ["noted"] * 2, 2: ["noted"] * 2}


@pytest.mark.parametrize("lie", [0.5, 1e6, math.nan, -math.inf])
def test_sums_that_no_rows_make_are_refused_by_name_and_nobody_pays(lie, monkeypatch):
    notes: list[str] = []

    def work(world):
        limits = (100.0, 1e9, 100.0) if lie == 1e6 else (100.0,) * 3  # each process' own
        released(world, lie if world.rank == 2 else 0.0, limits, notes=notes)

    said = in_threads(monkeypatch, 3, work)
    assert said[0].words.startswith("WorldError: process 2 sent sums that no rows of its own could make")
    assert all("process 0, which keeps the ledger, could not" in one.words for one in said[1:])
    assert notes == []


class Cut(Talk):
    """As gloo does with a message that is shorter than the buffer: only its first number arrives from process 2."""

    def recv(self, tensor, src, group):
        if self._local(src, group) != 2:
            super().recv(tensor, src, group)
            return
        said = torch.empty_like(tensor)
        super().recv(said, src, group)
        tensor[:1] = said[:1]


def test_a_message_that_is_too_short_never_brings_another_process_sums_again(monkeypatch):
    """Found in an attack: one buffer served all processes, and what a short message left in it was added twice."""
    notes: list[str] = []
    said = in_threads(monkeypatch, 3, lambda world: released(world, notes=notes), talk=Cut(3))
    assert said[0].words.startswith("WorldError: process 2 sent sums that no rows of its own could make")
    assert notes == []


def test_a_leader_that_cannot_pay_ends_it_for_all(monkeypatch):
    notes: list[str] = []

    def full():
        raise OSError("no space left")

    said = in_threads(monkeypatch, 2, lambda world: released(world, pay=full, notes=notes))
    assert [type(one.error) for one in said] == [OSError, WorldError]
    assert notes == ["paid"]


def test_who_asks_for_something_else_or_has_begun_more_releases_stops_all(monkeypatch):
    def other(world):
        released(world, about={"what": "a mean"} if world.rank else None)

    assert "what of process 1 is 'a mean', and 'a sum' of process 0" in in_threads(monkeypatch, 2, other)[0].words

    def more(world):
        if world.rank == 1:
            with pytest.raises(ZeroDivisionError):
                released(world, about=lambda: 1 / 0)  # begun, and given up
        released(world)

    for one in in_threads(monkeypatch, 2, more):
        assert "the number of releases of process 1 is 2, and 1 of process 0" in one.words


def test_possible_sums_are_whole_and_within_the_limit():
    def possible(*numbers, limit=8.0):
        return possible_sums(torch.tensor(numbers, dtype=torch.float64), limit)

    assert possible(8.0, -8.0, 0.0)
    assert not any(possible(1.0, odd) for odd in (9.0, -9.0, 0.5, math.nan, math.inf))
    assert possible(0.5, 1e300, limit=math.inf)  # no noise, no grid
    assert not any(possible(1.0, odd, limit=math.inf) for odd in (math.nan, math.inf))


# --- losing each other ------------------------------------------------------------------------------------------------


class Gone(Talk):
    """Every word fails with ``error``."""

    error: BaseException = RuntimeError("[/a/b.cpp:12] Connection closed by peer. Call stack: x\nmore")

    def all_gather(self, *_, **__):
        raise self.error


@pytest.mark.parametrize(
    ("error", "shown"),
    [(RuntimeError("[/a/b.cpp:12] Connection closed by peer. Call stack: x\nmore"), "Connection closed by peer"),
     (ValueError(""), ""), (RuntimeError("x" * 200), "x" * 120)],
)  # fmt: skip
def test_a_process_that_is_gone_is_said_in_one_line_and_nobody_is_talked_to_again(error, shown, monkeypatch):
    talk = Gone(1)
    talk.error = error

    def work(world):
        with pytest.raises(WorldError) as found:
            world.everyone(1)
        assert found.value.__cause__ is error
        with pytest.raises(WorldError, match="have lost each other before"):
            world.spread([torch.ones(1)])
        return str(found.value)

    (said,) = values(in_threads(monkeypatch, 1, work, talk=talk))
    assert f"cannot be reached ({shown}). What was released" in said


def test_an_interruption_goes_through_and_nobody_is_talked_to_again(monkeypatch):
    talk = Gone(1)
    talk.error = KeyboardInterrupt()

    def work(world):
        with pytest.raises(KeyboardInterrupt):
            world.everyone(1)
        with pytest.raises(WorldError, match="have lost each other before"):
            world.everyone(1)

    values(in_threads(monkeypatch, 1, work, talk=talk))


def test_who_leaves_holds_no_connection_and_talks_to_nobody(monkeypatch):
    group, words = Group("sums"), Group("words")
    held = [weakref.ref(group), weakref.ref(words)]
    worlds: list[ProcessGroup] = []
    values(in_threads(monkeypatch, 1, lambda world: (worlds.append(world), world.leave()), group, words))
    del group, words
    gc.collect()
    assert [one() for one in held] == [None, None]
    with pytest.raises(WorldError, match="have lost each other before"):
        worlds[0].everyone(1)


def test_long_values_are_cut():
    assert _short("x" * 118) == repr("x" * 118)  # 120 characters
    assert _short("x" * 119) == f"'{'x' * 116}..."
