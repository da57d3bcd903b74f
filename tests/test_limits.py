"""What is read from a file has limits, and what exceeds them is refused before memory is spent on it."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.limits import DEPTH, TEXT, VALUES, parsed, read_bytes, read_json

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(PLAIN)
def test_what_is_within_the_limits_is_what_json_says(value):
    assert parsed(json.dumps(value).encode()) == value


def test_a_file_at_its_limit_is_read_and_one_beyond_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert read_bytes(path, 1000) == b"x" * 1000
    with pytest.raises(ValueError, match="larger than the 999 bytes"):
        read_bytes(path, 999)


def test_refusing_a_huge_file_costs_nothing(tmp_path):
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 2**40)  # takes no room on the disk, and packs to nothing
    for huge in (path, Path("/dev/zero")):
        tracemalloc.start()
        with pytest.raises(ValueError, match="larger than"):
            read_bytes(huge, 2**20)
        assert tracemalloc.get_traced_memory()[1] < 2**23
        tracemalloc.stop()
    with pytest.raises(ValueError, match="larger than"):
        read_json(path)


def nested(depth):
    return b"[" * depth + b"1" + b"]" * depth


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (nested(DEPTH), nested(DEPTH + 1), "nested deeper"),
        (b'{"a":' * DEPTH + b"1" + b"}" * DEPTH, b'{"a":' * 100_000, "nested deeper"),
        (b'"%s"' % (b"x" * TEXT), b'"%s"' % (b"x" * (TEXT + 1)), "65,537 characters"),
        (b'{"%s": 1}' % (b"x" * TEXT), b'{"%s": 1}' % (b"x" * (TEXT + 1)), "65,537 characters"),
        (b"[%s1]" % (b"1," * 1000), b"[%s1]" % (b"1," * VALUES), "more than 2,097,152 values"),
        (b"{}", b"[" * (VALUES + 1), "more than 2,097,152 values"),
    ],
    ids=["lists", "objects", "texts", "keys", "values", "brackets"],
)
def test_each_limit_lets_through_what_is_at_it_and_no_more(good, bad, message):
    parsed(good)
    with pytest.raises(ValueError, match=message):
        parsed(bad)
