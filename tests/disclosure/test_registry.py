"""An entry for the registry: its keys and types, and YAML that reads back as it was meant."""

from __future__ import annotations

import copy
import re

import pytest

from dpmac.checks import ArgumentError
from dpmac.disclosure import Detail
from dpmac.disclosure.answers import QUESTIONS, Answers
from dpmac.disclosure.registry import FORM, as_yaml, check_entry, registry_entry
from dpmac.privacy import Mechanism, Statement

KEYS = (
    "budget",
    "neighbours",
    "contributions",
    "clipping",
    "sampling",
    "floating_point",
    "randomness",
    "audit",
    "code",
)
DETAILS = [Detail(key, key.title(), f"{key}: so it was.") for key in KEYS]
CURVE = [(1e-9, 3.0), (1e-5, 1.5)]
ODD = "Überall: \"quoted\", 'single' - 50 %\n# no comment: {x: [1]} \\alpha\n\n| last"


def said(**more):
    given = {one.key: ["Some House"] if one.several else f"the {one.key}" for one in QUESTIONS}
    return Answers({**given, "searched": "no", "publication_date": "2026-11-19", "sector": "Healthcare", **more})


def entry(answers=None, **more):
    statement = Statement((Mechanism(7.0, 0.1, 100, "training step"),), 1e-5, False, **{"unit": "person", **more})
    return registry_entry(answers or said(), statement, DETAILS, CURVE)


def test_an_entry_has_what_the_registry_asks_for():
    found = entry()
    assert (found["status"], found["tier"]) == ("Draft", 3)
    assert found["url_slug"] == "the-name-some-house-2026"
    loss = found["deployment"]["privacy_loss"]
    assert loss["privacy_unit"].startswith("one person")
    assert loss["privacy_parameters"]["epsilon"] >= Statement((Mechanism(7.0, 0.1, 100),), 1e-5, False).epsilon
    assert loss["privacy_parameters"]["delta"] == 1e-5
    assert "3.0000 at 1e-09" in loss["privacy_parameters_details"]
    assert entry(unit="row")["deployment"]["privacy_loss"]["privacy_unit"] == "one record (row)"
    few = {one.key: said().given[one.key] for one in QUESTIONS if one.needed}
    assert "justification" not in entry(Answers(few))["deployment"]["implementation"]


def test_what_nobody_answered_is_named_and_what_is_not_private_has_no_entry():
    lacking = dict(said().given)
    del lacking["region"], lacking["curators"]
    with pytest.raises(ArgumentError, match=r"2 not answered.*curators, region"):
        entry(Answers(lacking))
    loud = Statement((Mechanism(0.0),), 1e-5, False)
    with pytest.raises(ArgumentError, match="not private, or was seeded"):
        registry_entry(said(), loud, DETAILS, CURVE)


BAD = {
    "'surprise' is no key": lambda e: e.update(surprise=1),
    "'status' is not there": lambda e: e.pop("status"),
    r"\.tier=0: give one of": lambda e: e.update(tier=0),
    "order": lambda e: e.update(url_slug=e.pop("url_slug")),
    r"\.name=3: give a text": lambda e: e["deployment"]["basic"].update(name=3),
    r"data_curators=\[\]: give a list": lambda e: e["deployment"]["basic"].update(data_curators=[]),
    "epsilon=inf: give a number": lambda e: e["deployment"]["privacy_loss"]["privacy_parameters"].update(
        epsilon=float("inf")
    ),
    "dp_variant: give an object": lambda e: e["deployment"].update(dp_variant="Pure DP"),
}


@pytest.mark.parametrize("said_so", BAD)
def test_an_entry_that_the_registry_would_refuse_is_refused_here(said_so):
    spoilt = copy.deepcopy(entry())
    BAD[said_so](spoilt)
    with pytest.raises(ValueError, match=said_so):
        check_entry(spoilt)
    check_entry(entry(), FORM)


@pytest.mark.parametrize(
    "odd", [ODD, "two\nlines", " lead\nspace ", "tab\there\nx", "\n", "yes", "1e-5", "null", "a\u2028b\nc"]
)
def test_yaml_reads_back_as_the_entry(odd):
    yaml = pytest.importorskip("yaml")
    found = entry(said(description=odd, justification=odd, curators=[odd, "B"]))
    written = as_yaml(found)
    assert yaml.safe_load(written) == found
    styles = {token.style for token in yaml.scan(written) if hasattr(token, "style")}
    assert styles <= {None, "|", '"'}  # the registry refuses the others
    assert re.search(r"delta: 1\.0e-05$", written, re.MULTILINE)
