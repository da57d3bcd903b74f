"""One line of a ledger: what is missing, strange or impossible is refused, with no chain to notice it first."""

from __future__ import annotations

import math

import pytest

from dpmac.extensions.entries import from_dict, to_dict
from dpmac.privacy.entry import Entry
from dpmac.privacy.sampling import MIN_OVERFLOW

LINE = to_dict(Entry("step", 1.5, 0.1, scales={"w": 0.5, "unbounded": math.inf}, overflow=2.0**-30))
FROM_0_1 = ("label", "noise_multiplier", "sample_rate", "seeded", "scales")


@pytest.mark.parametrize("name", FROM_0_1)
def test_a_line_without_a_field_that_was_always_there_is_refused(name):
    with pytest.raises((ValueError, KeyError)):
        from_dict({key: value for key, value in LINE.items() if key != name})


@pytest.mark.parametrize(
    "strange",
    [
        {"noise_multiplier": True},
        {"noise_multiplier": "1.5"},
        {"noise_multiplier": None},
        {"sample_rate": True},
        {"overflow": False},
        {"scales": {"w": True}},
        {"scales": {"w": "0.5"}},
        {"seeded": 0},
        {"seeded": "no"},
        {"label": 3},
        {"date": None},
        {"purpose": 1},
        {"model": []},
        {"run": 7},
    ],
    ids=str,
)
def test_a_field_of_another_type_is_refused(strange):
    with pytest.raises(ValueError, match="wrong type"):
        from_dict({**LINE, **strange})


def test_a_field_that_this_version_does_not_know_is_refused():
    """It may change what was paid: a later version's line must not be read as if it were not there."""
    with pytest.raises(ValueError, match=r"its fields are .*'times'"):
        from_dict({**LINE, "times": 1000})


@pytest.mark.parametrize(
    "impossible",
    [
        {"noise_multiplier": -1.5},
        {"noise_multiplier": 1e-5},
        {"sample_rate": 0},
        {"sample_rate": 1.5},
        {"overflow": -0.5},
        {"overflow": 1},
    ],
    ids=str,
)
def test_numbers_that_no_release_has_are_refused_when_they_are_read(impossible):
    """Not only when somebody asks for an epsilon: a ledger that loads can be accounted for."""
    with pytest.raises(ValueError, match=f"{next(iter(impossible))}="):
        from_dict({**LINE, **impossible})


def test_a_line_of_version_0_1_is_read_with_the_room_that_it_had():
    for rate, overflow in ((1.0, 0.0), (0.5, MIN_OVERFLOW)):
        old = {key: LINE[key] for key in FROM_0_1} | {"sample_rate": rate}
        found = from_dict(old)
        assert found == Entry("step", 1.5, rate, scales={"w": 0.5, "unbounded": math.inf}, overflow=overflow)
        assert (found.date, found.purpose, found.model, found.run) == ("", "", "", "")


def test_noise_is_nobodys_seed_unless_an_entry_says_so():
    assert to_dict(Entry("step", 1.0, 0.5))["seeded"] is False


def test_two_releases_are_equal_whenever_and_by_whichever_run_they_were_made():
    assert Entry("step", 1.0, 0.5, date="2026-01-31", run="a") == Entry("step", 1.0, 0.5, date="2026-02-01", run="b")
    assert Entry("step", 1.0, 0.5, model="a") != Entry("step", 1.0, 0.5, model="b")
