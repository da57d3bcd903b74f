"""The page of results shows what its file holds, and the file what an audit writes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpmac.audit import FULL, QUICK, Finding, chosen_cases
from dpmac.privacy.statement import round_up

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = json.loads((RESULTS / "audit.json").read_text("utf-8"))
PAGE = (RESULTS / "audit.md").read_text("utf-8")


def down(value):
    return f"{math.floor(value * 100) / 100:.2f}"


@pytest.mark.parametrize("name", KEPT["audits"])
def test_every_row_of_the_page_is_in_the_file(name):
    kept = KEPT["audits"][name]
    best = {}
    for one in kept["findings"]:
        if one["case"] not in best or one["ratio"] > best[one["case"]]["ratio"]:
            best[one["case"]] = one
    for case, one in best.items():
        row = [case, round_up(one["claimed_epsilon"], 2), down(one["epsilon"]), down(one["ratio"]), down(one["reach"])]
        assert f"| {' | '.join(row)} |" in PAGE, row
    assert f"`{kept['command']}`" in PAGE
    assert f"{kept['looks']} looks" in PAGE


def test_no_committed_audit_exceeds_a_claim_and_its_fields_are_those_of_a_finding():
    fields = set(Finding.__dataclass_fields__) - {"claim"}
    for kept in KEPT["audits"].values():
        assert len(kept["findings"]) == kept["looks"]
        for one in kept["findings"]:
            assert set(one) == fields
            assert max(one["ratio"], one["reach"]) <= 1.0
            assert one["epsilon"] <= one["claimed_epsilon"]


@pytest.mark.parametrize("effort", [QUICK, FULL], ids=lambda effort: effort.name)
def test_the_page_says_how_many_cases_there_are(effort):
    assert f"{len(chosen_cases(effort))} cases, {effort.draws:,} releases each" in PAGE
