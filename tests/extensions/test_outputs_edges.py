"""When two columns are one: how much they must share, what of them is remembered, and what tells nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac.extensions import outputs
from dpmac.extensions.provenance import PUBLIC
from dpmac.privacy import Entry, Ledger, Origin

DRAW = np.random.RandomState(3)


def made() -> Origin:
    ledger = Ledger()
    ledger.append(Entry("mean", 1.0, 1.0))
    return Origin.of(ledger)


def hashes(*parts):
    return np.concatenate([np.arange(first, last) for first, last in parts]).astype(np.uint64)


@pytest.mark.parametrize(
    ("column", "sample", "common", "one"),
    [
        (200, 200, 10, True),  # eight, if they are a twentieth
        (200, 200, 9, False),
        (40, 40, 8, True),
        (40, 40, 7, False),
        (400, 200, 19, False),
        (40, 6, 3, True),  # of few, half of them
        (15, 15, 7, False),
        (9, 9, 5, True),
        (9, 9, 4, False),
        (4, 4, 3, True),  # and never fewer than three
        (4, 4, 2, False),
        (2, 2, 2, False),
    ],
)
def test_columns_are_one_if_they_share_enough(column, sample, common, one):
    assert outputs._are_one(hashes((1, 1 + column)), hashes((1, 1 + common), (1001, 1001 + sample - common))) is one


def test_of_a_long_column_only_hashes_as_small_as_the_kept_ones_are_compared():
    """Else the 256 kept ones would be too small a share of the other 100,000."""
    column = hashes((1, 100_000))
    assert outputs._are_one(column, column[: outputs._KEPT])
    assert not outputs._are_one(column, column[4 : 4 * outputs._KEPT : 4][: outputs._KEPT - 1])  # all that there were


def test_the_smallest_hashes_are_kept_once_each_and_sorted():
    for count in (10, 4 * outputs._KEPT - 3, 4 * outputs._KEPT - 1, 4 * outputs._KEPT, 4 * outputs._KEPT + 1, 5000):
        numbers = DRAW.permutation(np.arange(1, count + 1)).astype(np.uint64)
        twice = np.concatenate([np.zeros(7, np.uint64), numbers[:3], numbers])
        assert outputs._smallest(twice).tolist() == list(range(1, min(count, outputs._KEPT) + 1))
    assert not outputs._among(numbers, numbers[:0]).any()


def test_hashes_look_random_and_come_up_once():
    """So the smallest are a fair share of any part of a column; 2^16 neighbouring numbers with every last digit."""
    values = (np.arange(2**16, dtype=np.uint32) + np.uint32(0x3F800000)).view(np.float32)[:, None]
    found = outputs._hashes(values)[:, 0]
    kept = found[found > 0]
    assert len(np.unique(kept)) == len(kept) == 2**16 - 2**8  # all but round ones
    for bit in range(64):
        assert 0.45 < ((kept >> np.uint64(bit)) & np.uint64(1)).mean() < 0.55
    smallest = np.sort(np.argsort(kept)[:256])
    assert (np.bincount(smallest * 8 // len(kept), minlength=8) > 10).all()  # 32 of each eighth


def test_every_binary_digit_of_a_number_moves_all_of_its_hash():
    """Also the lower half by the upper digits: a product alone would leave it as it is."""
    bits = DRAW.randint(2**30, 2**30 + 2**29, 4000).astype(np.uint32) | np.uint32(1)
    first = outputs._hashes(bits.view(np.float32)[:, None])
    for digit in (1, 12, 22, 26):
        moved = first ^ outputs._hashes((bits ^ np.uint32(1 << digit)).view(np.float32)[:, None])
        for place in (0, 15, 40, 63):
            assert 0.4 < ((moved >> np.uint64(place)) & np.uint64(1)).mean() < 0.6


def test_round_numbers_and_gaps_are_no_evidence():
    two = DRAW.normal(size=2)
    for rest in (np.zeros(4), np.full(4, np.nan), np.array([0.5, 1.0, 2.0, np.inf])):
        column = np.concatenate([two, rest])[:, None]
        outputs.remember(column, made())
        assert outputs.maker_of(column) == PUBLIC  # two numbers are too few
    outputs.forget()
    outputs.remember(np.zeros((20, 2)), made())
    assert outputs.maker_of(DRAW.normal(size=(20, 2))) == PUBLIC  # nothing is known of any column


def test_outputs_that_are_public_or_empty_push_none_out():
    codes, origin = DRAW.normal(size=(30, 2)), made()
    outputs.remember(codes, origin)
    for _ in range(2 * outputs._OUTPUTS):
        outputs.remember(DRAW.normal(size=(30, 2)), PUBLIC)
        outputs.remember(np.empty((0, 2)), origin)
    assert outputs.maker_of(codes) == origin


# --- orders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(4))
def test_one_column_is_known_by_its_order_alone(place):
    codes, origin = DRAW.normal(size=(40, 4)), made()
    outputs.remember(codes, origin)
    scaled = 3.0 * codes[:, place : place + 1] + 1.0
    assert outputs.maker_of(scaled) == origin
    assert outputs.maker_of(np.hstack([DRAW.normal(size=(40, 2)), -scaled])) == origin


def test_a_single_column_is_known_by_its_order_though_some_of_its_values_are_equal():
    column, origin = DRAW.normal(size=(50, 1)), made()
    column[:20] = 0.0
    outputs.remember(column, origin)
    assert outputs.maker_of(2.0 * column) == origin


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 3.0)])
def test_the_order_of_a_column_of_few_values_tells_nothing(values):
    """Any two tables may have the same labels."""
    labels = np.resize(np.array(values), 60)[:, None]
    outputs.remember(labels, made())
    outputs.remember(np.hstack([labels, labels]), made())
    assert outputs.maker_of(5.0 * labels) == PUBLIC
