"""Texts drawn from word frequencies: tokens of a public word list, the commonest first, by Zipf's law."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import integer
from dpmac.priors.base import MOST_ROWS, Prior
from dpmac.priors.draws import Draws
from dpmac.tables.kinds.shared import SHORTEST, text_lengths, zipf


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
        counts = text_lengths(draw.uniform(rows), self.length)
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
