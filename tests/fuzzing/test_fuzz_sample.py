"""A fixed sample of ``make fuzz``, and proof that its oracle would notice."""

from __future__ import annotations

import pytest

from dpmac import ArgumentError, Ledger
from dpmac.privacy import Entry
from dpmac.tables import Number
from fuzz.cases import Case
from fuzz.mutations import spoilt_bytes, spoilt_tree
from fuzz.oracle import judged
from fuzz.runner import run_case, surface_of
from fuzz.surfaces import SURFACES

CASES = 160
SLOW = ("commands", "jobs")  # whole trainings: a few of them


@pytest.mark.parametrize("surface", SURFACES)
def test_a_sample_of_the_cases_succeeds_or_is_refused_in_our_words(surface):
    numbers = [number for number in range(CASES) if surface_of(7, number) == surface]
    ends = []
    for number in numbers[:4] if surface in SLOW else numbers:
        case, outcome = run_case(7, number)
        assert outcome.kind != "bug", (
            f"python -m fuzz --seed 7 --case {number}: {case.said}\n{outcome.said}\n{outcome.trace}"
        )
        ends.append(outcome.kind)
    assert "refused" in ends


def test_a_case_is_its_number():
    for surface in ("arrays", "schemas", "csv", "ledgers", "tensors"):
        first, again = (run_case(3, 11, surface) for _ in range(2))
        assert first[0].said == again[0].said
        assert first[1].kind == again[1].kind


def test_all_surfaces_have_their_share():
    assert sum(share for _, share in SURFACES.values()) == 100
    found = [surface_of(5, number) for number in range(100)]
    assert {name: found.count(name) for name in SURFACES} == {name: share for name, (_, share) in SURFACES.items()}


def bad_index():
    return [][1]


def bad_number():
    Number(2, 1)


def test_the_oracle_knows_our_errors_from_others(tmp_path):
    case = Case(0, 0, tmp_path)
    assert judged(case, bad_number).kind == "refused"
    assert judged(case, lambda: 3).kind == "done"
    for action, said in (
        (bad_index, "not one of our kinds"),
        (lambda: int("x"), "not raised by us"),
        (lambda: float("x") if Number(1, 2) else None, "not raised by us"),
    ):
        found = judged(case, action)
        assert found.kind == "bug"
        assert said in found.said


def test_the_oracle_notices_what_a_refusal_leaves(tmp_path):
    path = tmp_path / "ledger"
    case = Case(0, 0, tmp_path, ledgers=[path])

    def leaving():
        (tmp_path / "half").write_text("x")
        bad_number()

    def paying():
        Ledger.at(path).append(Entry("a", 1.0, 1.0))
        bad_number()

    assert "the refusal changed ['half']" in judged(case, leaving).said
    assert "something was paid for" in judged(case, paying).said

    def half():
        (tmp_path / "x.part").write_text("x")

    assert "half-written" in judged(case, half).said
    with pytest.raises(ArgumentError):
        bad_number()


def test_a_mutation_changes_something():
    draw = Case(1, 1, None).random
    tree = {"a": [1, 2, {"b": "c"}], "d": 0.5}
    assert sum(repr(spoilt_tree(draw, tree)[0]) != repr(tree) for _ in range(100)) > 90
    assert sum(spoilt_bytes(draw, b"a,b\n1,2\n3,4\n")[0] != b"a,b\n1,2\n3,4\n" for _ in range(100)) > 80
