"""``answers.toml`` from a folder that somebody else has made: what it costs to find out that it is no such file."""

from __future__ import annotations

import tracemalloc

import pytest

from dpmac.checks import ArgumentError
from dpmac.disclosure.answers import NAME, read_answers, template

HUGE = ["a." * 50_000 + "b = 1", "[" + "'a' . " * 50_000 + "b]", 'x = {"=" . ' + "a." * 50_000 + "b = 1}"]


@pytest.mark.parametrize("text", HUGE)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(text, tmp_path):
    """Found in an attack: 100 KB took more than 3 GB, the square of the number of parts."""
    (tmp_path / NAME).write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ArgumentError, match="a key of more than 30 parts"):
            read_answers(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_a_file_that_is_larger_than_all_answers_is_refused(tmp_path):
    (tmp_path / NAME).write_text("#" * 2**22 + "\n")
    with pytest.raises(ArgumentError, match="larger than"):
        read_answers(tmp_path)


def test_texts_with_many_dots_are_answers(tmp_path):
    text = "1.3.6.1.4.1.311.21.20 ... e.g. a.b.c. " * 100
    (tmp_path / NAME).write_text(template({"purpose": text, "curators": [text, "x"]}))
    found = read_answers(tmp_path)
    assert found.text("purpose") == text.strip()
    assert found.several("curators") == [text.strip(), "x"]
