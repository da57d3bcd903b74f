"""The statement: what it must say, and that no figure in it is below the true one."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError
from dpmac.privacy import Entry, Ledger, Mechanism, Statement
from dpmac.privacy.accounting import ROUNDOFF, UNIT, epsilon_of
from dpmac.privacy.statement import NOT_COVERED, round_up

STEP, PCA = Entry("training step", 1.5, 0.1), Entry("DP-PCA", 8.0, 1.0)


def filled(*more):
    ledger = Ledger()
    for entry in (PCA, STEP, STEP, STEP, *more):
        ledger.append(entry)
    return ledger


@pytest.fixture(scope="module")
def whole():
    return filled().statement(1e-5)


def test_the_statement_says_what_it_must(whole):
    text = str(whole)
    assert UNIT == "one row, there or blank (the number of rows is public)"
    assert f"Unit of privacy: {UNIT}." in text
    assert f"with epsilon = {math.ceil(filled().epsilon(1e-5) * 100) / 100:.2f} at delta = 1e-05." in text
    assert "dp-accounting 0." in text
    assert "privacy loss distributions" in text
    assert f"(RDP) gives epsilon = {round_up(filled().epsilon(1e-5, 'rdp'))}" in text
    assert "DP-PCA: Gaussian mechanism, noise multiplier 8, on all rows, once" in text
    assert "noise multiplier 1.5, on a Poisson sample of the rows (rate 0.1), 3 times" in text
    assert "hyper-parameters" in text
    assert "metric computed on the training data" in text
    assert "seed" not in text.replace("seedless", "")
    assert "other releases from the same rows" in text


def test_a_machine_reads_the_same(whole):
    facts = whole.to_dict()
    assert (facts["epsilon"], facts["epsilon_rdp"]) == (filled().epsilon(1e-5), filled().epsilon(1e-5, "rdp"))
    assert (facts["private"], facts["seeded"], facts["delta"], facts["unit"]) == (True, False, 1e-5, UNIT)
    assert facts["accountant"].startswith("PLD, dp-accounting 0.")
    assert [(m["label"], m["noise_multiplier"], m["sample_rate"], m["count"]) for m in facts["mechanisms"]] == [
        ("DP-PCA", 8.0, 1.0, 1),
        ("training step", 1.5, 0.1, 3),
    ]
    assert facts["not_covered"] == list(NOT_COVERED)
    noted = filled().statement(1e-5, ("the choice of T;",))
    assert noted.to_dict()["not_covered"] == ["the choice of T;", *NOT_COVERED]
    assert "  - the choice of T;" in str(noted)


def test_a_seeded_release_marks_the_statement():
    ledger = filled(Entry("training step", 1.5, 0.1, True))
    text = str(ledger.statement(1e-5))
    assert "The released model is" not in text
    assert "seeded: not private against someone who knows the seed" in text
    assert ledger.statement(1e-5).to_dict()["seeded"] is True
    assert ledger.statement(1e-5).to_dict()["private"] is False  # for whoever reads nothing else
    assert ledger.statement(1e-5).noisy


def test_a_release_without_noise_makes_it_not_private():
    statement = filled(Entry("training step", 0.0, 0.1)).statement(1e-5)
    assert not statement.private
    assert "NOT PRIVATE" in str(statement)
    assert "differentially private with" not in str(statement)
    assert statement.to_dict()["epsilon"] is None


@pytest.mark.parametrize("delta", [0.5, 0.9, 1.0, 2.0, 0.0, 1e-13, math.nan, "small", None])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(ArgumentError, match=r"delta=.*far below 1 over the number of rows"):
        filled().statement(delta)


def test_a_large_delta_is_called_so():
    assert "So large a delta says little" in str(filled().statement(0.01))
    assert "So large" not in str(filled().statement(9e-4))


def test_an_empty_ledger_spent_nothing():
    assert "epsilon = 0" in str(Ledger().statement(1e-5))
    assert Ledger().epsilon(1e-5) == 0


def test_the_accountant_that_is_trusted_is_named():
    m = Mechanism(0.7, 1e-4, 10_000)
    assert "moments accountant (RDP, dp-accounting" in str(Statement((m,), 1e-12, False))
    assert "lost in rounding" in str(Statement((m,), 1e-12, False))
    assert Statement((m,), 1e-12, False).to_dict()["accountant"].startswith("RDP")


def test_the_accountant_that_is_named_gave_the_figure():
    """A reader's case: of two bounds the smaller one is the figure, and it is not the one that was looked at."""
    m = (Mechanism(1.0, 0.01, 10), Mechanism(50.0, 0.5, overflow=1e-12))
    statement = Statement(m, 2.1e-12, False)
    doubled = (Mechanism(1.0, 0.01, 10), Mechanism(25.0, 0.5))
    assert statement.epsilon == epsilon_of(doubled, 2.1e-12) < statement.epsilon_rdp
    assert statement.to_dict()["accountant"].startswith("PLD")
    assert "privacy loss distributions (dp-accounting" in str(statement)
    assert "lost in rounding" not in str(statement)


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(
    ("mechanisms", "kinds"),
    [
        ((Mechanism(2.0),), {"GAUSSIAN"}),
        ((Mechanism(2.0, count=3), Mechanism(5.0)), {"GAUSSIAN"}),
        ((Mechanism(2.0, 0.1, 3), Mechanism(5.0)), {"PLD"}),
        ((Mechanism(0.7, 1e-4, 10_000),), {"PLD", "RDP"}),
    ],
)
def test_the_named_accountant_alone_gives_the_same_figure(mechanisms, kinds, delta):
    """By dp-accounting's own functions where they are quick; RDP's figure is the one that is asked for by name."""
    statement = Statement(mechanisms, delta, False)
    kind = statement.to_dict()["accountant"].split(",")[0]
    assert kind in kinds
    if kind == "GAUSSIAN":
        sigma = sum(m.count / m.noise_multiplier**2 for m in mechanisms) ** -0.5
        spare = ROUNDOFF * (1 + sum(m.count for m in mechanisms))
        assert statement.epsilon == pytest.approx(get_epsilon_gaussian(sigma, delta - spare), rel=1e-9)
        assert "closed form of the Gaussian mechanism (dp-accounting" in str(statement)
    if kind == "RDP":
        assert statement.epsilon == statement.epsilon_rdp
    assert ("closed form" in str(statement)) == (kind == "GAUSSIAN")
    assert ("privacy loss distributions (dp-accounting" in str(statement)) == (kind == "PLD")


def test_where_moments_are_lost_the_closed_form_without_sampling_is_named():
    statement = Statement((Mechanism(1e3, 1e-9, 10_000),), 1e-12, False)
    assert statement.to_dict()["accountant"].startswith("GAUSSIAN")
    assert statement.epsilon == pytest.approx(get_epsilon_gaussian(10.0, 1e-12), rel=1e-9)  # 1e3 / sqrt(10_000)
    assert "closed form of the Gaussian mechanism for the same releases without sampling" in str(statement)


@given(st.floats(1e-6, 1e4) | st.sampled_from([0.12341, 1.99999999, 2.0, 7.00001]))
def test_a_printed_epsilon_is_never_below_the_true_one(epsilon):
    assert Fraction(round_up(epsilon)) >= Fraction(epsilon)
    assert Fraction(round_up(epsilon)) < Fraction(epsilon) + Fraction(1, 10_000)
    assert round_up(math.inf) == "inf"


@pytest.mark.parametrize("noise", [0.6, 1.5, 40.0, 4000.0])
def test_the_sentence_rounds_epsilon_up_and_says_it_once(noise):
    statement = Statement((Mechanism(noise),), 1e-5, False)
    (said,) = re.findall(r"epsilon = (\S+)", statement.sentences()[0])
    assert 0 <= float(said) - statement.epsilon < max(0.01, statement.epsilon / 10)
    assert float(said) <= statement.epsilon + (0.01 if statement.epsilon >= 0.1 else 1e-4)
