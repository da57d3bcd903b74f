"""Checks of arguments: what is taken, what is refused at either end, and that an error names it all."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmac.checks import ArgumentError, check_utf8, chosen, integer, is_number, number, public_text

NOT_NUMBERS = [
    True,
    False,
    np.bool_(True),
    torch.tensor(True).numpy()[()],
    "2",
    b"2",
    None,
    [],
    [1.0, 2.0],
    1j,
    object(),
]


@pytest.mark.parametrize("value", [0, -3, 2.5, math.inf, math.nan, np.float16(0.5), np.int64(7), Decimal("0.1")])
def test_real_numbers_are_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_no_number_is_refused_by_name(value):
    assert not is_number(value)
    for check in (number, integer):
        with pytest.raises(ArgumentError, match=r"size=.*: give one") as error:
            check("size", value, "give one")
        assert (error.value.name, error.value.fix) == ("size", "give one")


@given(st.floats(-3, 3), st.booleans())
def test_a_number_is_taken_within_its_bounds_and_nowhere_else(value, strict):
    inside = -1 < value < 2 if strict else -1 <= value <= 2
    if inside:
        assert number("x", value, "", low=-1.0, high=2.0, strict=strict) == value
    else:
        with pytest.raises(ArgumentError):
            number("x", value, "", low=-1.0, high=2.0, strict=strict)


def test_both_ends_belong_to_it_unless_it_is_strict():
    for end in (-1.0, 2.0):
        assert number("x", end, "", low=-1.0, high=2.0) == end
        with pytest.raises(ArgumentError):
            number("x", end, "", low=-1.0, high=2.0, strict=True)


def test_without_bounds_everything_but_nan_is_taken():
    for value in (-math.inf, -1e300, 0.0, math.inf):
        assert number("x", value, "") == value
    for strict in (False, True):
        with pytest.raises(ArgumentError, match="x=nan"):
            number("x", math.nan, "", strict=strict)


def test_numbers_are_plain_afterwards():
    assert type(number("x", np.float16(0.5), "")) is float
    assert type(integer("x", np.int64(5), "")) is int
    assert type(integer("x", 5.0, "")) is int


@given(st.integers(-5, 5))
def test_an_integer_is_taken_within_its_bounds_and_nowhere_else(value):
    if -2 <= value <= 3:
        assert integer("k", value, "", low=-2, high=3) == value
    else:
        with pytest.raises(ArgumentError, match=f"k={value}"):
            integer("k", value, "", low=-2, high=3)


def test_an_integer_is_at_least_one_unless_something_else_is_said():
    assert integer("k", 1, "") == 1
    assert integer("k", 10**30, "") == 10**30
    for bad in (0, -1, 1.5, math.inf, -math.inf, math.nan):
        with pytest.raises(ArgumentError, match="k="):
            integer("k", bad, "")


def test_what_has_a_name_is_looked_up_and_an_object_is_taken_as_it_is():
    known = {"tanh": math.tanh, "sin": math.sin}
    assert chosen("hidden", "tanh", known) is math.tanh
    assert chosen("hidden", math.cos, known) is math.cos
    with pytest.raises(ArgumentError, match="hidden='cos': choose one of tanh, sin"):
        chosen("hidden", "cos", known)


def test_text_that_came_of_bytes_that_are_no_utf_8_is_refused():
    check_utf8("path", "Zürich 東京")
    with pytest.raises(ArgumentError, match=r"path=.*not UTF-8"):
        check_utf8("path", b"\xff".decode(errors="surrogateescape"))


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5), torch.tensor(0.5)])
def test_an_error_shows_a_scalar_as_a_plain_number(value):
    error = ArgumentError("rate", value, "give less")
    assert str(error) == "rate=0.5: give less"
    assert (error.name, error.value, error.fix) == ("rate", 0.5, "give less")


@pytest.mark.parametrize("value", [np.ones(1), torch.ones(2), {"a": 1}.items(), "text"])
def test_an_error_shows_anything_else_as_it_is(value):
    assert ArgumentError("rate", value, "give less").value is value


def test_an_object_with_an_item_of_its_own_is_not_taken_for_a_scalar():
    class Shop:
        def item(self):
            raise AssertionError("nobody asked for it")

    shop = Shop()
    assert ArgumentError("shop", shop, "give another").value is shop


def test_a_text_of_the_user_is_one_line_that_every_file_can_hold():
    assert public_text("why", "  rows of\n other   people.; ", "say why") == "rows of other people"
    for wrong in (None, 3, b"rows", "", " \n\t"):
        with pytest.raises(ArgumentError, match=r"why=.*: say why"):
            public_text("why", wrong, "say why")
    with pytest.raises(ArgumentError, match="not UTF-8 text"):
        public_text("why", "rows of \udcff", "say why")


def test_a_text_of_the_user_has_10000_characters_at_most_once_it_is_on_one_line():
    assert len(public_text("why", "a \n" + 9_998 * "b" + "..", "say why")) == 10_000
    with pytest.raises(ArgumentError, match=r"why='b{40}\.\.\.': it has 10,001 characters, and 10,000 are the most"):
        public_text("why", 10_001 * "b", "say why")
