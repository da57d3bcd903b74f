"""The numbers of a text: sums over its words, each divided by the root of their number. A text's depend on it alone.

A word has its vector's coordinates and, for what no weighted sum of those can say, ``features`` more: the positive part
of a sum of coordinates with signs and an offset that a public hash gives. Each is taken less its average over common
words (by Zipf's law over the list), so that it says nothing of how long a text is. Then come the text's length, on a
logarithmic scale, and the share of its words that the list does not have.

All sums are of whole numbers and exact, so a text has the same numbers on every machine and in every company.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from dpmac.tables.words.tokens import ITS_WORD, NOT, WORDS
from dpmac.tables.words.vectors import UNIT, WordVectors

Array = np.ndarray[Any, Any]
BESIDE = 2  # numbers of a text beside its sums: length, and words that are not in the list
_COMMON = 2_000  # words over which features are centred
_FLAT = 10  # a word's frequency goes with 1 / (rank + 10)
_GRID = 2.0**20
_BLOCK = 4_096  # texts at a time


class Pooling:
    """What a text becomes by ``vectors``, with so many ``features`` beside their coordinates."""

    def __init__(self, vectors: WordVectors, features: int) -> None:
        self.vectors, self.features = vectors, features

    @property
    def sums(self) -> int:
        """How many sums a text has."""
        return self.vectors.dimensions + self.features

    @property
    def width(self) -> int:
        return self.sums + BESIDE

    def of_tokens(self, texts: Sequence[Sequence[str]]) -> Array:
        """The numbers (texts, width) of texts that are given as their words."""
        places = self._places.get
        ids = [[place for place in map(places, words) if place is not None] for words in texts]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        counts = np.fromiter(map(len, ids), np.int64, len(texts))
        flat = np.fromiter((place for row in ids for place in row), np.int64, int(counts.sum()))
        return self.of_places(flat, counts, lengths)

    def of_places(self, flat: Array, counts: Array, lengths: Array) -> Array:
        """The numbers of texts whose words in the list are ``flat``, ``counts`` of them a text, out of ``lengths``."""
        found = np.empty((len(counts), self.width))
        ends = np.concatenate([[0], np.cumsum(counts)])
        for start in range(0, len(counts), _BLOCK):
            stop = min(start + _BLOCK, len(counts))
            here = ends[start : stop + 1]
            self._sums(flat[here[0] : here[-1]], here - here[0], found[start:stop, : self.sums])
        found[:, -2] = np.round(np.log1p(np.minimum(lengths, WORDS)) / math.log1p(WORDS) * _GRID) / _GRID
        found[:, -1] = (lengths - counts) / np.maximum(lengths, 1)
        return found

    def _sums(self, flat: Array, ends: Array, out: Array) -> None:
        words, columns = np.unique(flat, return_inverse=True)
        ones = np.ones(len(flat))
        counts = csr_matrix((ones, columns, ends), shape=(len(ends) - 1, len(words)))
        scale = UNIT * np.sqrt(np.maximum(np.diff(ends), 1.0))
        out[:] = (counts @ (self._of_words(words) - self._centre)) / scale[:, None]

    def _of_words(self, places: Array) -> Array:
        """Coordinates and features of words as multiples of 1 / UNIT: whole numbers in float64, which is exact."""
        vectors = self.vectors.grid[places].astype(np.float64)
        if not self.features:
            return vectors
        signs, offsets = self._directions
        root = max(1, math.isqrt(self.vectors.dimensions))
        turned = np.floor((vectors @ signs) / root)  # sums below 2**53, so no machine rounds them
        return np.concatenate([vectors, np.maximum(turned + offsets, 0.0)], axis=1)

    @cached_property
    def _directions(self) -> tuple[Array, Array]:
        """Signs (dimensions, features), and offsets from -UNIT to UNIT, by a hash of their numbers."""
        rows, columns = self.vectors.dimensions, self.features
        stream = hashlib.shake_256(f"dpmac features of words: {rows} x {columns}".encode())
        raw = np.frombuffer(stream.digest(columns + (rows * columns + 7) // 8), dtype=np.uint8)
        bits = np.unpackbits(raw[columns:])[: rows * columns].reshape(rows, columns)
        return 2.0 * bits - 1.0, np.floor((raw[:columns] - 127.5) * (UNIT / 127.5))

    @cached_property
    def _centre(self) -> Array:
        """The average word of a text by Zipf's law, rounded to whole numbers."""
        common = min(_COMMON, len(self.vectors))
        odds = np.floor(2.0**20 / (np.arange(common) + _FLAT))
        found: Array = np.rint(odds @ self._of_words(np.arange(common)) / odds.sum())
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        """Each word's place; a list without "n't" reads it as "not"."""
        known = self.vectors.places
        if NOT not in known and ITS_WORD in known:
            return {**known, NOT: known[ITS_WORD]}
        return known
