"""Rare places at the edges of their proof: its constants, a U on an edge between two gaps, and words that tie."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from test_gaps import Told

from dpmac.kernels import gaps
from dpmac.kernels.gaussian import places
from dpmac.kernels.streams import AESStream

V = Fraction(1, 2**53)
KEY = bytes(range(32))


@pytest.mark.parametrize("rate", [1e-9, 1e-4, 1 / 32, 0.5])
def test_the_bound_is_what_the_errors_of_all_operations_add_up_to(rate):
    """The digits not drawn, two roundings of u, four units in the last place for each logarithm, half for a ratio."""
    leads = [1, 2, 3, 5, *(2**k + j for k in range(4, 63) for j in (-1, 1)), 2**63 - 1]
    ratios, offs = gaps._ratio(torch.tensor(leads), rate)
    slope = Fraction(-math.log1p(-rate))
    for lead, ratio, off in zip(leads, ratios.tolist(), offs.tolist(), strict=True):
        u, digits = Fraction(2 * lead + 1, 2**64), Fraction(1, 2**64)
        argument = 2 * V + digits / (u - digits)
        needed = argument / slope + (8 + 8 + 1) * V * abs(Fraction(ratio))
        assert Fraction(off) >= needed * (1 - 8 * V)


def test_a_word_of_zeros_leaves_every_gap_open():
    """Nothing is known of how long it is."""
    for rate in (1e-9, 1e-3, 1 / 32, 0.5, 0.9):
        ratio, off = gaps._ratio(torch.tensor([0]), rate)
        assert float(torch.floor(ratio - off)) < float(torch.floor(ratio + off))


def test_hardly_any_gap_is_decided_by_digits(monkeypatch):
    monkeypatch.setattr(gaps, "decided", lambda *_: pytest.fail("digits were drawn"))
    assert len(gaps.gaps(20_000, 0.004, AESStream(iter([KEY])))) == 20_000


@pytest.mark.parametrize(("below", "words"), [(True, [-1, 0, 0]), (False, [0, 1, 0])], ids=["below", "above"])
@pytest.mark.parametrize("gap", [1, 2, 9])
def test_a_u_on_the_edge_between_two_gaps_waits_for_a_digit_that_says_which(gap, below, words):
    """At a rate of 1/2 the edges are powers of it, ends of what 127 digits leave: rounding could go either way."""
    lead = 2 ** (63 - gap)
    if below:
        lead -= 1
    stream = Told(*words)
    assert gaps.decided(lead, 0.5, stream) == gap - (not below)
    assert stream.told == []


@pytest.mark.parametrize("count", [0, 1, 5, 4000])
@pytest.mark.parametrize("lot", [1, 3, 1 << 11])
def test_places_are_where_the_gaps_lead_however_many_are_drawn_at_a_time(count, lot, monkeypatch):
    """The words behind the last place are dropped; the places themselves are those of one long row of gaps."""
    monkeypatch.setattr(gaps, "_LOT", lot)
    rate = 0.3
    row = gaps.gaps(4000, rate, AESStream(iter([KEY]))).tolist()
    reached, wanted = -1, []
    for gap in row:
        reached += gap + 1
        wanted.append(reached)
    found = gaps.rare_places(count, rate, AESStream(iter([KEY])))
    assert found.tolist() == [place for place in wanted if place < count]


def test_a_lot_that_ends_just_behind_the_last_place_has_no_place_beyond_it(monkeypatch):
    """Nine places in a row of which the first eight exist: the ninth is no row."""
    monkeypatch.setattr(gaps, "gaps", lambda lot, *_: torch.zeros(lot, dtype=torch.int64))
    for count in (8, 9, 10):
        assert gaps.rare_places(count, 1e-9, AESStream(iter([KEY]))).tolist() == list(range(count))


def tied(word):
    """Four places of 16 bits each in one word."""
    return int.from_bytes(word.to_bytes(2, "little") * 4, "little", signed=True)


def test_a_place_whose_words_are_exactly_the_rate_does_not_stand():
    """P(word < rate * 2**16) is the rate: at 1/2 a tie is none, and 53 digits of zero do not undo it."""
    assert places(4, 0.5, Told(tied(2**15), 0, 0, 0, 0)).tolist() == []
    assert places(4, 0.5, Told(tied(2**15 - 1))).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("digits", "stands"), [(2**51, True), (2**52, False)])
def test_a_single_tie_is_decided_by_its_digits(digits, stands):
    rate = (2**15 + 0.5) / 2**16
    words = [2**15, 2**16 - 1, 2**16 - 1, 2**16 - 1]
    told = int.from_bytes(b"".join(word.to_bytes(2, "little") for word in words), "little", signed=True)
    assert places(4, rate, Told(told, digits)).tolist() == ([0] if stands else [])
