"""Arrays of pictures as flat rows: every kind that is taken, every mistake that is named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac import ArgumentError
from dpmac.pictures import arrays
from dpmac.pictures.arrays import array_of, rows_of

DRAW = np.random.RandomState(0)
GREY = DRAW.randint(0, 256, (3, 5, 7), dtype=np.uint8)
COLOUR = DRAW.randint(0, 256, (3, 5, 7, 3), dtype=np.uint8)


@pytest.mark.parametrize("pictures", [GREY, GREY[..., None], COLOUR])
def test_bytes_and_numbers_up_to_1_are_the_same_rows(pictures):
    found, shape = array_of(pictures)
    assert shape == (5, 7, 3 if pictures is COLOUR else 1)
    rows = rows_of(found)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, pictures.reshape(3, -1))
    for kind in (np.float32, np.float64, np.float16):
        again = rows_of(array_of((pictures / 255).astype(kind))[0])
        np.testing.assert_allclose(again, rows, atol=0.13 if kind is np.float16 else 1e-4)
    assert np.array_equal(rows_of(array_of(torch.from_numpy(pictures))[0]), rows)
    assert np.array_equal(rows_of(array_of(list(pictures))[0]), rows)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (GREY[0], r"shape \(5, 7\)': give an array \(n, height, width\)"),
        (GREY.reshape(3, -1), "give an array"),
        (COLOUR[..., None], "give an array"),
        (np.zeros((2, 5, 7, 4), np.uint8), "leave out the transparency"),
        (np.zeros((2, 3, 8, 9), np.uint8), r"X\.transpose\(0, 2, 3, 1\)"),
        (np.zeros((2, 5, 7, 2), np.uint8), "1 or 3 channels"),
        (np.zeros((2, 3, 9), np.uint8), "3 x 9 pixels': give pictures of 4 to 4,096"),
        (np.zeros((0, 5000, 5), np.uint8), "5000 x 5 pixels"),
        (GREY.astype(np.int32), "numbers of type int32': give bytes"),
        (GREY > 99, "numbers of type bool"),
        (GREY.astype(np.float64), r"beyond \[0, 1\], of type float64"),
        (-(GREY / 256), "beyond"),
        (np.where(GREY > 99, np.nan, 0.5), "not finite"),
        (np.where(GREY > 99, np.inf, 0.5), "not finite"),
        ([GREY[0], GREY[0, :4]], "different sizes"),
        (np.array([GREY[0], None], dtype=object), "different sizes"),
        ([["a", "b"]], "give an array"),
    ],
)
def test_what_is_no_array_of_pictures_is_named(bad, said):
    with pytest.raises(ArgumentError, match=said):
        array_of(bad)


def test_large_pictures_are_made_smaller_each_by_itself(monkeypatch):
    monkeypatch.setattr(arrays, "_BLOCK", 2)
    pictures = DRAW.randint(0, 256, (3, 128, 20, 3), dtype=np.uint8)
    rows = rows_of(pictures)
    assert rows.shape == (3, 64 * 20 * 3)
    plain = pictures.astype(np.float64).reshape(3, 64, 2, 20, 3)
    within = (plain.min(axis=(1, 2, 3)), plain.max(axis=(1, 2, 3)))
    smaller = rows.reshape(3, 64, 20, 3)
    assert (smaller.min(axis=(1, 2)) >= within[0]).all()
    assert (smaller.max(axis=(1, 2)) <= within[1]).all()
    np.testing.assert_allclose(smaller.mean(axis=(1, 2)), plain.mean(axis=(1, 2, 3)), atol=1.0)
    for place in range(3):
        assert np.array_equal(rows_of(pictures[place : place + 1])[0], rows[place])
    assert rows_of(pictures, None).shape == (3, 128 * 20 * 3)
    assert rows_of(pictures[:0]).shape == (0, 64 * 20 * 3)
