"""The statement at the ends: the smallest noise, the largest delta, and every unit in its words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpmac.checks import ArgumentError
from dpmac.kernels.selection import Selection
from dpmac.kernels.tries import Tries
from dpmac.privacy import Mechanism, Statement, epsilon_of
from dpmac.privacy.accounting import UNIT
from dpmac.privacy.statement import LARGE_DELTA, never_covered, noun, round_up, unit_in_words

LITTLE, MUCH, NONE = Mechanism(0.5, 0.1, 2), Mechanism(50.0), Mechanism(0.0)


def test_every_release_counts_for_whether_it_is_private():
    assert Statement((LITTLE, MUCH), 1e-5, False).private
    assert Statement((LITTLE,), 1e-5, False).noisy
    for mechanisms in ((NONE,), (MUCH, NONE), (NONE, MUCH)):
        statement = Statement(mechanisms, 1e-5, False)
        assert not statement.noisy
        assert not statement.private
        assert statement.sentences()[0].startswith("NOT PRIVATE: at least one release was made without noise")
        assert (statement.to_dict()["epsilon"], statement.to_dict()["epsilon_rdp"]) == (None, None)


def test_noise_that_is_too_little_is_called_so():
    """Half of it is less than there is, and so it is taken for none where samples may find no room."""
    statement = Statement((Mechanism(0.015, 0.1, 2, overflow=0.01),), 1e-5, False)
    assert statement.noisy
    assert not statement.private
    assert statement.sentences()[0].startswith("NOT PRIVATE: at least one release was made with too little noise")


def test_a_seed_is_said_and_is_not_private():
    seeded = Statement((MUCH,), 1e-5, True)
    assert not seeded.private
    assert "With unpredictable noise the model would be" in str(seeded)
    assert "The released model is differentially private with" in str(Statement((MUCH,), 1e-5, False))
    assert "SEEDED RUN" not in str(Statement((MUCH,), 1e-5, False))


def test_both_figures_are_the_accountants():
    statement = Statement((LITTLE, MUCH), 1e-7, False)
    assert statement.epsilon == epsilon_of((LITTLE, MUCH), 1e-7, "pld")
    assert statement.epsilon_rdp == epsilon_of((LITTLE, MUCH), 1e-7, "rdp")
    assert f"epsilon = {round_up(statement.epsilon, 2)} at delta = 1e-07" in str(statement)
    assert f"gives epsilon = {round_up(statement.epsilon_rdp)}." in str(statement)


def test_every_mechanism_has_its_line():
    lines = Statement((LITTLE, MUCH), 1e-5, False).sentences()
    at = lines.index("Mechanisms, all composed in the figure above:")
    assert lines[at + 1 : at + 3] == [f"  - {m.describe()}" for m in (LITTLE, MUCH)]
    assert lines[at + 3] == "Not covered by the guarantee:"


@pytest.mark.parametrize(("delta", "large"), [(9.9e-4, False), (1e-3, True), (1.5e-3, True), (0.49, True)])
def test_a_delta_is_large_from_a_thousandth_on(delta, large):
    assert (LARGE_DELTA in Statement((MUCH,), delta, False).sentences()) == large


@pytest.mark.parametrize("delta", [0.5, math.nextafter(1e-12, 0), math.inf, math.nan])
def test_a_delta_of_a_half_is_none(delta):
    assert Statement((MUCH,), 1e-12, False).delta == 1e-12
    assert Statement((MUCH,), 0.5 - 2**-53, False).delta < 0.5
    with pytest.raises(ArgumentError, match="delta="):
        Statement((MUCH,), delta, False)


def test_nothing_released_is_said_to_be_nothing():
    assert Statement((), 1e-5, False).sentences() == ["Nothing was released, so nothing was spent: epsilon = 0."]
    assert len(Statement((MUCH,), 1e-5, False).sentences()) > 5


def test_the_accountant_named_is_the_one_that_was_asked():
    """Also where some of delta goes to samples that find no room: what is left of it decides."""
    seldom, crowded = Mechanism(1.0, 1e-3, 11), Mechanism(1.0, 1e-3, 11, overflow=1.1e-14)
    for m, delta, kind in ((MUCH, 1e-5, "GAUSSIAN"), (seldom, 1.3e-12, "PLD"), (crowded, 1.3e-12, "RDP")):
        statement = Statement((m,), delta, False)
        assert statement.to_dict()["accountant"].startswith(f"{kind}, dp-accounting")
        assert ("lost in rounding" in str(statement)) == (kind == "RDP")


def test_units_are_said_in_words():
    assert unit_in_words("row") == UNIT
    assert unit_in_words("person").startswith("one person, with all their rows, there or blank")
    assert unit_in_words("person by patient").startswith("one person, all rows with the same 'patient', there or blank")
    assert [noun(unit) for unit in ("row", "person", "person by patient")] == ["row", "person", "person"]
    assert any("the number of persons and of columns" in line for line in never_covered("person by patient"))
    assert "all persons" in str(Statement((MUCH,), 1e-5, False, unit="person by patient"))


def test_four_digits_are_shown_and_the_last_one_is_rounded_up():
    assert [round_up(e) for e in (1.0, 0.12341, 2.00000001)] == ["1.0000", "0.1235", "2.0001"]
    assert round_up(0.12341, digits=2) == "0.13"
    assert [round_up(e) for e in (math.inf, math.nan)] == ["inf", "nan"]


@pytest.mark.parametrize("rates", [(1.0,), (0.5,), (1.0, 0.5), (0.5, 1.0)])
def test_the_closed_form_says_that_it_left_out_the_sampling_if_anything_was_sampled(rates, monkeypatch):
    monkeypatch.setattr(Statement, "_kind", lambda self: "gaussian")
    said = Statement(tuple(Mechanism(2.0, rate, 1, f"at {rate}") for rate in rates), 1e-5, False)._accountant()
    assert ("without sampling" in said) == (min(rates) < 1)


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(0.0625, "0.0625"), (0.0999999, "0.1000"), (0.1, "0.11"), (0.15, "0.15"), (1.0, "1.00")]
)
def test_a_small_epsilon_has_four_digits(epsilon, shown, monkeypatch):
    monkeypatch.setattr(Statement, "epsilon", epsilon)
    assert f"epsilon = {shown} at delta = 1e-05." in Statement((MUCH,), 1e-5, False).sentences()[0]


@pytest.mark.parametrize("others", [(), (MUCH,)])
def test_splits_and_searches_are_spoken_of_beside_other_releases_too(others, monkeypatch):
    split = replace(LITTLE, split="train")
    said = "\n".join(Statement((split, *others), 1e-5, False).sentences())
    assert "Mechanisms, composed for each split with those on all; the figure above is the largest" in said
    search = Mechanism(2.0, search=Selection(((Mechanism(2.0),),), Tries.of_mean(3)))
    monkeypatch.setattr(Statement, "_kind", lambda _: "rdp")
    said = "\n".join(Statement((search, *others), 1e-5, False).sentences())
    assert "the bound by privacy loss distributions is no smaller, or would be lost in rounding" in said
    said = "\n".join(Statement((LITTLE, *others), 1e-5, False).sentences())
    assert "at so small a delta, after so many releases" in said
    assert "Mechanisms, all composed in the figure above:" in said
