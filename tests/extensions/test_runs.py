"""What a ledger holds of every run: how often each kind of release, and by which name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dpmac.extensions.runs import counted, listed, name_of, released
from dpmac.privacy import Entry, Ledger, Mechanism

ONE, OTHER = Mechanism(2.0, label="a"), Mechanism(3.0, 0.1, label="b")


def test_releases_of_a_kind_are_counted_whatever_their_split():
    made = [replace(ONE, count=3), OTHER, replace(ONE, split="train"), replace(ONE, label="c")]
    found = counted(made)
    assert found == Counter({ONE: 4, OTHER: 1, replace(ONE, label="c"): 1})
    assert {one.count for one in found} == {1}
    assert listed({"r": found}) == (("r", (replace(ONE, count=4), replace(ONE, label="c"), OTHER)),)


def test_runs_are_listed_in_one_order():
    few, many = {"b": counted([ONE, OTHER]), "a": counted([ONE])}, {"a": counted([ONE]), "b": counted([OTHER, ONE])}
    assert listed(few) == listed(many)
    assert [run for run, _ in listed(few)] == ["a", "b"]


def test_a_release_without_a_runs_name_is_named_by_what_it_says_and_its_day():
    """Version 0.2 wrote no runs, and seconds: a copy to publish has the day alone, and the same name."""
    old = Entry("mean", 4.0, 1.0, date="2026-01-31T10:11:12", purpose="study", model="first")
    name = name_of(old)
    assert name.startswith("unnamed ")
    assert name_of(replace(old, date="2026-01-31")) == name_of(replace(old, date="2026-01-31T23:00:00")) == name
    for other in ({"date": "2026-01-30"}, {"purpose": "x"}, {"model": "x"}, {"noise_multiplier": 5.0}, {"label": "x"}):
        assert name_of(replace(old, **other)) != name
    assert name_of(replace(old, run="r")) == "r"
    ledger = Ledger()
    ledger._entries = [old, replace(old, run="r"), old]
    assert released(ledger) == {name: counted([old.mechanism()] * 2), "r": counted([old.mechanism()])}
