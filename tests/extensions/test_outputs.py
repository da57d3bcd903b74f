"""Outputs of a released model are known again when they come back as rows; other tables never are."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac.extensions import outputs
from dpmac.extensions.provenance import PUBLIC
from dpmac.privacy import Entry, Ledger, Origin

DRAW = np.random.RandomState(0)
CODES = DRAW.normal(size=(1000, 4))
SHUFFLED = DRAW.permutation(1000)


def made(label="mean") -> Origin:
    ledger = Ledger()
    ledger.append(Entry(label, 1.0, 1.0))
    return Origin.of(ledger)


WAYS = {
    "as they are": lambda c: c,
    "a copy": np.copy,
    "in single precision": lambda c: c.astype(np.float32),
    "a view": lambda c: c[:],
    "some rows": lambda c: c[300:400],
    "every third row": lambda c: c[::3],
    "shuffled": lambda c: c[SHUFFLED],
    "drawn again and again": lambda c: c[DRAW.randint(0, 1000, 1000)],
    "one column": lambda c: c[:, 2:3],
    "columns in another order": lambda c: c[:, ::-1],
    "beside other columns": lambda c: np.hstack([DRAW.normal(size=(1000, 5)), c, np.ones((1000, 2))]),
    "among other rows": lambda c: np.vstack([DRAW.normal(size=(1000, 4)), c]),
    "with gaps": lambda c: np.where(DRAW.uniform(size=c.shape) < 0.2, np.nan, c),
    "scaled and shifted": lambda c: (c - c.mean(axis=0)) / c.std(axis=0),
    "turned round": lambda c: 3.0 - 0.5 * c,
    "squashed": np.tanh,
    "in Fortran's order": np.asfortranarray,
    "a list": lambda c: np.array(c.tolist()),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_output_is_known_again(way):
    origin = made()
    outputs.remember(CODES, origin)
    assert outputs.maker_of(WAYS[way](CODES)) == origin


@pytest.mark.parametrize("n", [3, 4, 12, 20])
def test_a_small_output_is_known_again(n):
    origin = made()
    outputs.remember(CODES[:n], origin)
    assert outputs.maker_of(CODES[:n]) == origin
    assert outputs.maker_of(CODES[500 : 500 + n]) == PUBLIC


@pytest.mark.parametrize("n", [5, 30, 1000])
def test_other_tables_are_not(n):
    """Not other reals, not whole numbers, dates or decimals, though an output may hold them; not what is sorted."""
    draw = np.random.RandomState(1)
    odd = np.hstack([CODES[:n], draw.randint(0, 3, (n, 2)), np.zeros((n, 1)), np.arange(n)[:, None]])
    for _ in range(4):
        outputs.remember(odd, made())
        odd[:, :4] = draw.normal(size=(n, 4))
    for other in (
        draw.normal(size=(1000, 30)),
        draw.uniform(-1, 1, (1000, 3)),
        draw.randint(0, 3, (n, 4)),
        np.round(draw.normal(size=(n, 4)), 2),
        np.zeros((n, 3)),
        np.full((n, 3), np.nan),
        np.arange(float(n))[:, None],
        np.sort(draw.normal(size=(n, 2)), axis=0),
        np.empty((0, 3)),
        np.empty((3, 0)),
    ):
        assert outputs.maker_of(other) == PUBLIC


def test_what_has_no_origin_is_not_remembered():
    outputs.remember(CODES, PUBLIC)
    assert outputs.maker_of(CODES) == PUBLIC


def test_outputs_of_two_models_in_one_table_are_both_known():
    one, other = made(), made("DP-PCA")
    outputs.remember(CODES[:, :2], one)
    outputs.remember(CODES[:, 2:], other)
    assert outputs.maker_of(CODES) == Origin.merged(one, other)


def test_what_is_remembered_is_bounded_and_never_a_value():
    for _ in range(3 * outputs._OUTPUTS):
        outputs.remember(DRAW.normal(size=(2000, 2)), made())
    assert len(outputs._remembered) == outputs._OUTPUTS
    assert all(len(sample) <= outputs._KEPT for one in outputs._remembered for sample in one.samples)
    outputs.forget()
    outputs.remember(CODES, made())
    outputs.remember(CODES, outputs._remembered[0].origin)  # asked for again, and remembered once
    assert len(outputs._remembered) == 1
    kept = np.concatenate(outputs._remembered[0].samples)
    assert not np.isin(kept, CODES.astype(np.float32).view(np.uint32)).any()


def test_long_tables_are_known_again_by_a_part():
    long = DRAW.normal(size=(100_000, 3))
    origin = made()
    outputs.remember(long, origin)
    assert outputs.maker_of(long) == origin
    assert outputs.maker_of(long[DRAW.permutation(len(long))]) == origin
