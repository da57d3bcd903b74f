"""Texts drawn from word frequencies: tokens of a public word list, the commonest first, by Zipf's law."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import integer
from dpmac.priors.base import MOST_ROWS, Prior
from dpmac.priors.draws import Array, Draws
from dpmac.tables.kinds.shared import on_grid

FLAT = 10.0  # frequencies go with 1 / (rank + FLAT): a few dozen words are about equally common
SHORTEST = 5  # words


class WordsPrior(Prior):
    """Rows of ``length`` tokens: texts of 5 to ``length`` words out of ``vocabulary``, then ``padding``.

    Tokens are ``first``, the commonest word, to ``first + vocabulary - 1``. Words are drawn independently.
    """

    kind = "words"

    def __init__(self, vocabulary: int, length: int = 40, first: int = 1, padding: int = 0, seed: int = 0) -> None:
        self.vocabulary = integer("vocabulary", vocabulary, "give the number of words, 1 to 10 million", high=10**7)
        fix = f"give the most words of a text, from {SHORTEST} to 100,000"
        self.length = integer("length", length, fix, low=SHORTEST, high=10**5)
        self.first = integer("first", first, "give the token of the commonest word", low=0, high=2**31)
        self.padding = integer("padding", padding, "give the token that follows a text", low=0, high=2**31)
        self.seed = Draws(seed, self.kind).seed

    def drawn(self, rows: int) -> Tensor:
        integer("rows", rows, f"give a number of rows from 1 to {MOST_ROWS:,}", high=MOST_ROWS)
        draw = Draws(self.seed, self.kind)
        words = zipf(draw.uniform(rows, self.length), self.vocabulary) + self.first
        counts = text_lengths(draw, rows, self.length)
        there = np.arange(self.length) < counts[:, None]
        return torch.from_numpy(np.where(there, words, self.padding))

    def described(self) -> str:
        words = f"texts of {SHORTEST} to {self.length} words by Zipf's law over a list of {self.vocabulary:,}"
        return f"{words}, drawn by the program dpmac.priors.WordsPrior, seed {self.seed}"

    def arguments(self) -> dict[str, Any]:
        known = {"vocabulary": self.vocabulary, "length": self.length, "first": self.first}
        return {**known, "padding": self.padding, "seed": self.seed}

    @classmethod
    def sample(cls) -> WordsPrior:
        return cls(50, 8)


def zipf(uniform: Array, vocabulary: int) -> Array:
    """For each number in [0, 1) the rank of a word, from 0 on: rank r has a frequency of 1 / (r + FLAT)."""
    odds = 1.0 / (np.arange(vocabulary) + FLAT)
    edges = on_grid(np.cumsum(odds) / np.sum(odds))
    found: Array = np.minimum(np.searchsorted(edges, uniform, side="right"), vocabulary - 1)
    return found


def text_lengths(draw: Draws, rows: int, longest: int) -> Array:
    """The numbers of words of texts, each from SHORTEST to ``longest`` equally likely."""
    found: Array = SHORTEST + np.floor(draw.uniform(rows) * (longest - SHORTEST + 1)).astype(np.int64)
    return found
