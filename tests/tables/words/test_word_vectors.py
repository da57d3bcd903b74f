"""Lists of words: coordinates in whole numbers, the same everywhere, and back from a model's file."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac import ArgumentError
from dpmac.tables.words.kept import packed_vectors, unpacked_vectors
from dpmac.tables.words.vectors import UNIT, WordVectors, standardised

LISTED = ["the", ",", "Good", "good", "new york", "bad", "x" * 101, "film"]


def vectors_of(rows, seed=0, width=4):
    return np.random.default_rng(seed).normal(size=(rows, width)) * [0.1, 3.0, 1.0, 0.0][:width] + 5.0


def test_words_that_no_text_can_have_are_left_out():
    found = WordVectors.of(LISTED, vectors_of(len(LISTED)))
    assert found.words == ("the", "good", "bad", "film")
    assert WordVectors.of(LISTED, vectors_of(len(LISTED)), most=2).words == ("the", "good")
    assert found.places["good"] == 1


def test_coordinates_are_those_of_plain_standardising():
    raw = vectors_of(500)
    made = standardised(raw) / UNIT
    moved = raw - raw.mean(axis=0)
    assert np.allclose(made[:, :3], moved[:, :3] / raw.std(axis=0)[:3], atol=1.5 / UNIT)
    assert not made[:, 3].any()  # a constant says nothing
    assert np.array_equal(standardised(raw[:, :3] * 8.0), standardised(raw[:, :3]))
    order = np.random.default_rng(1).permutation(500)  # sums are exact, so no order can change them
    assert np.array_equal(standardised(raw[order]), standardised(raw)[order])


def test_a_digest_says_which_list_it_is():
    one = WordVectors.of(["a", "b", "c"], vectors_of(3), "one")
    assert one == WordVectors.of(["a", "b", "c"], vectors_of(3), "under another name")
    others = [WordVectors.of(["a", "b", "d"], vectors_of(3)), WordVectors.of(["a", "b", "c"], vectors_of(3, 1))]
    assert len({one, *others}) == 3
    with pytest.raises(ValueError, match="read-only"):
        one.grid[0, 0] = 1


@pytest.mark.parametrize(
    ("words", "vectors", "said"),
    [
        (["a", "b"], [[1.0], [np.nan]], "finite"),
        (["a", "b"], [[0.0], [0.0]], "differ"),
        (["a", "b"], [[1.0, 2.0]], "one row for each"),
        (["a", "b"], [1.0, 2.0], "one row for each"),
        (["a", ","], [[1.0], [2.0]], "two words"),
        (["a", "b"], np.ones((2, 1001)), "1 to 1,000"),
        (["a", "b"], [["x"], ["y"]], "numbers"),
    ],
)
def test_a_list_that_is_none_is_refused(words, vectors, said):
    with pytest.raises(ArgumentError, match=said):
        WordVectors.of(words, vectors)


def test_lists_come_back_from_bytes_and_damage_is_found():
    lists = [WordVectors.of(["a", "caf\u00e9"], vectors_of(2), "one"), WordVectors.of(["x", "y", "z"], vectors_of(3))]
    raw = packed_vectors(lists)
    again = unpacked_vectors(raw)
    assert again == lists
    assert [(one.words, one.name) for one in again] == [(one.words, one.name) for one in lists]
    assert unpacked_vectors(None) == []
    longer = torch.cat([raw, torch.zeros(1, dtype=torch.uint8)])
    for bad in (raw[:-1], longer, raw[:7], raw[8:], raw.float(), raw[None], torch.zeros(64, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="word vectors are"):
            unpacked_vectors(bad)
    for place in range(0, len(raw), 3):  # whatever a byte becomes, it is an error or a list, and never a crash
        hurt = raw.clone()
        hurt[place] ^= 0xFF
        try:
            assert all(isinstance(one, WordVectors) for one in unpacked_vectors(hurt))
        except ValueError:
            continue
