"""A search's entry: written and read back, whole; in copies, origins and plans; and nothing that is odd is believed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from dpmac.extensions.entries import from_dict, mechanism_from, to_dict
from dpmac.extensions.provenance import Origin
from dpmac.extensions.searches import entry_of
from dpmac.kernels.selection import Selection, plain_of
from dpmac.kernels.tries import Tries
from dpmac.limits import STEPS
from dpmac.privacy import Entry, Ledger, Mechanism, Plan
from dpmac.saving.states import plan_from

RUN = (Mechanism(1.5, 0.1, 30, "training step", 1e-15), Mechanism(4.0, 1.0, 1, "calibration"))
ENTRY = entry_of(Selection((RUN, (Mechanism(2.0, label="score"),)), Tries.of_mean(7, 0.5)), "person", seeded=True)


def test_an_entry_comes_back_as_it_was(tmp_path):
    book = Ledger(tmp_path / "book")
    book.append(ENTRY)
    book.save(tmp_path / "copy")
    for name in ("book", "copy"):
        (found,) = Ledger.load(tmp_path / name).entries
        assert found == ENTRY
        assert found.mechanism() == ENTRY.mechanism()
        assert found.noise_multiplier == 1.5  # the least of any release
        assert (found.unit, found.seeded, found.sample_rate) == ("person", True, 1.0)
    assert "search" not in to_dict(Entry("a mean", 2.0, 1.0))


def test_origins_and_plans_keep_it():
    book = Ledger()
    book.append(ENTRY)
    known = Origin.of(book)
    assert Origin.from_dict(json.loads(json.dumps(known.to_dict()))) == known
    assert known.mechanisms() == (ENTRY.mechanism(),)
    assert known.within(book)
    plan = Plan(100, 10, 5, 2.0, 1e-5, before=book.mechanisms())
    assert plan_from(json.loads(json.dumps(plan.to_dict()))) == plan
    for one in (RUN[0], replace(RUN[0], split="train"), replace(ENTRY.mechanism(), split="test")):
        assert mechanism_from(plain_of(one)) == one


ODD = {
    "another field": lambda s: s.update(extra=1),
    "no law": lambda s: s.pop("law"),
    "another law": lambda s: s["law"].update(name="poisson"),
    "a law that is none": lambda s: s["law"].update(chance=0.0),
    "a shape beyond": lambda s: s["law"].update(shape=3.0),
    "no cases": lambda s: s.update(cases=[]),
    "an empty case": lambda s: s["cases"].append([]),
    "a release with a field more": lambda s: s["cases"][0][0].update(search=None),
    "a release without noise multiplier": lambda s: s["cases"][0][0].pop("noise_multiplier"),
    "a text for a number": lambda s: s["cases"][0][0].update(noise_multiplier="2"),
    "a number for a label": lambda s: s["cases"][0][0].update(label=2),
    "so many that nobody made them": lambda s: s["cases"][0][0].update(count=STEPS + 1),
    "half a release": lambda s: s["cases"][0][0].update(count=1.5),
    "more noise than was paid for": lambda s: s["cases"][1][0].update(noise_multiplier=1.0),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_search_is_refused(odd):
    line = json.loads(json.dumps(to_dict(ENTRY)))
    assert from_dict(copy.deepcopy(line)) == ENTRY
    ODD[odd](line["search"])
    with pytest.raises((KeyError, TypeError, AttributeError, ValueError)):
        from_dict(line)


def test_a_release_of_a_search_may_be_made_as_often_as_a_training_steps():
    line = json.loads(json.dumps(to_dict(ENTRY)))
    line["search"]["cases"][0][0]["count"] = STEPS
    assert from_dict(line).search.cases[0][0].count == STEPS


def test_a_search_says_its_least_noise_and_no_rate():
    for more in ({"noise_multiplier": 9.0}, {"noise_multiplier": 1.5, "sample_rate": 0.5}):
        with pytest.raises(ValueError, match="give its least_noise"):
            Mechanism(search=ENTRY.search, **more)
