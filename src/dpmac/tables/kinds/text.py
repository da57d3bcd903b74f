"""Texts by public word vectors: comments, reviews, notes. Nothing is learned from them, and no word list is made.

The code of a text is a row of numbers: sums over its words of what a public list says of each
(:mod:`dpmac.tables.words`), its length, and the share of its words that the list does not have. Order does not count,
and words that are not in the list count by their share alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError, integer
from dpmac.tables.kinds.base import Array, ColumnKind, Quote
from dpmac.tables.kinds.protocols import Draws, Guess
from dpmac.tables.kinds.shared import allowed, cell_place, check_flag, shown, text_lengths, zipf
from dpmac.tables.texts import check_length, text_of
from dpmac.tables.words import Pooling, WordVectors, words_of
from dpmac.tables.words.pooling import BESIDE
from dpmac.tables.words.reading import known, read_vectors, remembered
from dpmac.tables.words.tokens import CHARACTERS
from dpmac.tables.words.vectors import MOST_WORDS

FEATURES = 400  # beside the coordinates of the vectors; chosen on held-out training rows (docs/texts.md)
MOST_FEATURES = 10_000
USED = 50_000  # words of a list
LONGEST_DRAWN = 40  # words of a made-up text
UNKNOWN_DRAWN = 0.2  # the largest share of its words that no list has
WORDY = 4.0  # words of a cell, on average, from which on a column is taken for texts
_TURN = 0.6180339887498949


@dataclass(frozen=True)
class Text(ColumnKind):
    """A text, encoded by public word ``vectors``: the path of a file, or :class:`dpmac.tables.WordVectors`.

    The file is an ``.npz`` with an array of words and one of vectors, or has the format of GloVe, fastText or word2vec.
    Its words are in order of frequency, and the first ``words`` are used. ``features`` is the number of sums of
    nonlinear functions of word vectors, in addition to the sums of the vectors themselves. ``sha256`` identifies the
    list; it is filled in when a file is read, and another list under that path is then an error. A saved model holds
    its words. ``missing``: a cell may be absent.
    """

    vectors: str = field(compare=False)
    sha256: str
    features: int
    words: int
    missing: bool
    kind: ClassVar[str] = "text"
    needed: ClassVar[tuple[str, ...]] = ("vectors",)
    optional: ClassVar[tuple[str, ...]] = ("sha256", "features", "words", "missing")
    to_write: ClassVar[str] = (
        "the path of a file of public word vectors, .npz or as GloVe has them; vectors that private texts have shaped "
        "are not public"
    )
    help: ClassVar[str] = (
        "text: vectors, the path of a file of public word vectors (.npz, GloVe, word2vec), the commonest words first. "
        "words: how many of them are used."
    )
    ordered: ClassVar[bool] = False
    dtype: ClassVar[Any] = object
    absent: ClassVar[Any] = None

    def __init__(
        self,
        vectors: str | Path | WordVectors,
        sha256: str = "",
        features: int = FEATURES,
        words: int = USED,
        missing: bool = False,
    ) -> None:
        put: Any = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 - of a frozen dataclass
        check_flag(missing)
        put("missing", missing)
        fix = f"give how many, from 0 to {MOST_FEATURES:,}"
        put("features", integer("features", features, fix, low=0, high=MOST_FEATURES))
        put("words", integer("words", words, f"give how many, from 2 to {MOST_WORDS:,}", low=2, high=MOST_WORDS))
        if not isinstance(sha256, str) or len(sha256) not in (0, 64) or not set(sha256) <= set("0123456789abcdef"):
            raise ArgumentError("sha256", sha256, "give 64 hexadecimal digits, or leave it out")
        if isinstance(vectors, WordVectors):
            put("vectors", vectors.name)
            put("sha256", self._as_named(remembered(vectors), sha256).digest)
            put("_list", vectors)
            return
        if not isinstance(vectors, str | Path):
            raise ArgumentError("vectors", vectors, "give the path of a file of public word vectors")
        check_length("vectors", str(vectors))
        put("vectors", str(vectors))
        put("sha256", sha256)
        here = known(sha256)
        if here is not None:
            put("_list", here)  # for as long as this column is there
        if not sha256:
            put("sha256", self._list.digest)

    # --- its words ----------------------------------------------------------------------------------------------------

    @cached_property
    def _list(self) -> WordVectors:
        """The words, from this process or from the file."""
        here = known(self.sha256)
        if here is not None:
            return here
        if not self.vectors:
            fix = "these word vectors were never in a file, and are in no process but that which made them: give a path"
            raise ArgumentError("vectors", self.sha256, fix)
        return self._as_named(read_vectors(self.vectors, self.words), self.sha256)

    def _as_named(self, found: WordVectors, digest: str) -> WordVectors:
        if digest not in ("", found.digest):
            fix = f"its words are not those that were meant (sha256 {digest}): bring that file, or leave sha256 out"
            raise ArgumentError("vectors", f"{self.vectors} (sha256 {found.digest})", fix)
        return found

    @cached_property
    def _pooling(self) -> Pooling:
        return Pooling(self._list, self.features)

    def word_vectors(self) -> WordVectors:
        """Its words, under the name of this column's file: the process may have the same list from another one."""
        return self._list.renamed(Path(self.vectors).name or self._list.name)

    def portable(self) -> Text:
        """The same without the folder that its file lies in."""
        return Text(Path(self.vectors).name, self.sha256, self.features, self.words, self.missing)

    @classmethod
    def beside(cls, given: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """A path that leads from the schema's own folder to a file is meant that way."""
        vectors = given.get("vectors")
        if isinstance(vectors, str) and vectors and os.path.isfile(folder / vectors):
            return {**given, "vectors": str(folder / vectors)}
        return given

    # --- cells, codes, inputs -----------------------------------------------------------------------------------------

    @property
    def code_width(self) -> int:
        return self._pooling.width

    @property
    def dense(self) -> bool:
        return True

    def coded(self, name: str, cells: Array) -> Array:
        """The numbers of each text (n, width), NaN where one is missing. Numbers are read as they would be printed."""
        gone = np.zeros(len(cells), dtype=bool)
        texts: list[list[str]] = []
        for row, cell in enumerate(cells):
            if is_missing(cell):
                gone[row] = True
                texts.append([])
            elif isinstance(cell, str | bytes | bool | int | float | np.generic):
                texts.append(words_of(text_of(cell)))
            else:
                fix = "this column holds texts: give a text, or leave the cell empty if it is missing"
                raise ArgumentError(cell_place(name, row), shown(cell), fix)
        allowed(name, np.where(gone, np.nan, 0.0), self.missing)
        codes = self._pooling.of_tokens(texts)
        codes[gone] = np.nan
        return codes

    def beyond(self, codes: Array) -> Array:
        """Texts of which the list knows no word."""
        found: Array = codes[:, -1] >= 1.0
        return found

    @property
    def beyond_words(self) -> str:
        return "have no word that the list knows: compare the language of the word vectors"

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:  # noqa: ARG002
        """Sums, shortened so that a text weighs about as much as any other column; length and share as places."""
        sums = value.shape[1] - BESIDE
        pooled = (value[:, :sums] / max(4.0, math.sqrt(sums))).clamp(-1.0, 1.0)
        places = 2 * value[:, sums:].clamp(0.0, 1.0) - 1
        return [torch.where(there, torch.cat([pooled, places], dim=1), torch.zeros_like(value))]

    def input_names(self, name: str, bins: int) -> list[str]:  # noqa: ARG002
        sums = self._pooling.sums
        return [*(f"{name} sum {k + 1}" for k in range(sums)), f"{name} length", f"{name} unknown words"]

    def longest(self, bins: int) -> float:
        """A text may be anything: all that is known is that every input is within [-1, 1]."""
        return math.sqrt(len(self.labels("", bins)))

    # --- cells of nobody ----------------------------------------------------------------------------------------------

    def drawn(self, uniform: Array) -> Array:
        """Texts of 5 to 40 words of the list, by Zipf's law."""
        uniform = np.asarray(uniform, dtype=np.float64)
        steps = np.arange(LONGEST_DRAWN)
        places = zipf(((uniform[:, None] + steps * _TURN) * (97.0 + steps)) % 1.0, len(self._list))
        counts = text_lengths((uniform * 7.0) % 1.0, LONGEST_DRAWN)
        words = self._list.words
        found = np.empty(len(uniform), dtype=object)
        found[:] = [" ".join(words[k] for k in row[:count]) for row, count in zip(places, counts, strict=True)]
        return found

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        """The numbers of texts of 5 to 40 words by Zipf's law: the longer, the later their place; a few are unknown."""
        lengths = text_lengths(place, LONGEST_DRAWN)
        words = zipf(draw.uniform(len(place), LONGEST_DRAWN), len(self._list))
        listed = draw.uniform(len(place), LONGEST_DRAWN) >= UNKNOWN_DRAWN * draw.uniform(len(place), 1)
        there = (np.arange(LONGEST_DRAWN) < lengths[:, None]) & listed
        return self._pooling.of_places(words[there], there.sum(axis=1), lengths)

    def examples(self, points: int) -> Array:
        """Texts of one word: the commonest of the list."""
        return np.array(self._list.words[:points], dtype=object)

    # --- in words and in files ----------------------------------------------------------------------------------------

    def described(self, quote: Quote) -> str:
        name = "word vectors"
        if self.vectors:
            name = f"the public word vectors {quote(Path(self.vectors).name)}"
        return f"a text, by {name} (sha256 {self.sha256[:12]}...); words that they lack are only counted"

    def label(self, cell: Any) -> str:
        return str(cell)

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {"vectors": self.vectors, "sha256": self.sha256}
        if self.features != FEATURES:
            found["features"] = self.features
        if self.words != USED:
            found["words"] = self.words
        return found

    def as_input(self) -> dict[str, Any]:
        how = "TableEncoder(schema).codes(table) of dpmac makes these numbers of a text: no graph can read texts"
        return {"numbers": self.code_width, "made by": how, "vectors": Path(self.vectors).name, "sha256": self.sha256}

    @classmethod
    def guess(cls) -> Guess:
        return _Texts()

    @classmethod
    def samples(cls) -> Sequence[Text]:
        listed = "the of film good not bad very a café 2 plot actors story well made"
        spread = np.cos(np.outer(np.arange(1, 16), np.arange(1, 4)) ** 2)
        vectors = remembered(WordVectors.of(listed.split(), spread, "fifteen words"))
        return cls(vectors, features=5, missing=True), cls(vectors, features=0)

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        good = ["Good film!", " not GOOD, isn't it? ", "!!!", "zzz", 2, 2.0, True, b"bad", "caf\u00e9", "word " * 3000]
        return good, [["a", "list"], {"a": 1}, ("good", "film")]


class _Texts:
    """Whether cells are texts of several words each."""

    def __init__(self) -> None:
        self._cells, self._words = 0, 0

    def see(self, cell: Any) -> bool:
        self._cells += 1
        if isinstance(cell, str):
            self._words += len(cell[:CHARACTERS].split())
        return isinstance(cell, str)

    def template(self) -> dict[str, Any] | None:
        if self._cells and self._words >= WORDY * self._cells:
            return {}
        return None
