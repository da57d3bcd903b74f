"""A public list of words, the commonest first, with a vector for each: whole numbers, the same on every machine.

Every coordinate is moved and scaled to mean 0 and deviation 1 over the list, in whole numbers that no machine rounds
differently, and kept as a multiple of 1 / UNIT in sixteen bits. So the sum over any words is exact in whatever order it
is taken, a model's folder can hold its words in little space, and a digest of the list says which list it is.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.words.tokens import alike, is_token

Array = np.ndarray[Any, Any]
UNIT = 1024
WIDEST = 1_000  # coordinates of a vector
MOST_WORDS = 10**6
LONGEST = 100  # characters of a word
_BITS = 20  # of a coordinate before it is scaled: sums of squares over a million words fit into 63


class WordVectors:
    """``words``, the commonest first, and ``grid``, int16 (words, dimensions), their vectors as multiples of 1 / UNIT.

    Two of them are equal if they hold the same. ``name`` is what a file of them is called. Words that no text can have
    (punctuation, several words in one, spellings that differ in their case alone) are left out by :meth:`of`.
    """

    def __init__(self, words: Sequence[str], grid: Array, name: str = "") -> None:
        self.words, self.name = tuple(words), name
        self.grid = np.ascontiguousarray(grid, dtype=np.int16)
        self.grid.setflags(write=False)
        found = hashlib.sha256(f"dpmac words {self.grid.shape}\n".encode())
        found.update("\n".join(self.words).encode())
        found.update(self.grid.astype("<i2").tobytes())
        self.digest = found.hexdigest()

    @classmethod
    def of(cls, words: Iterable[str], vectors: Any, name: str = "", most: int = MOST_WORDS) -> WordVectors:
        """The first ``most`` usable words of a list, and their vectors, an array (words, dimensions) of numbers."""
        listed = list(words)
        numbers = np.asarray(vectors)
        if numbers.ndim != 2 or numbers.dtype.kind not in "fiu" or len(numbers) != len(listed):
            fix = f"give an array of numbers with one row for each of the {len(listed):,} words"
            raise ArgumentError("vectors", f"{numbers.dtype} of shape {numbers.shape}", fix)
        if not 1 <= numbers.shape[1] <= WIDEST:
            raise ArgumentError("vectors", f"{numbers.shape[1]} coordinates", f"give 1 to {WIDEST:,} for each word")
        places = usable(listed, most)
        if len(places) < 2:
            raise ArgumentError("vectors", f"{len(places)} words", "a list needs two words that a text can have")
        return cls([*places], standardised(numbers[list(places.values())]), name)

    @property
    def dimensions(self) -> int:
        return int(self.grid.shape[1])

    def renamed(self, name: str) -> WordVectors:
        """The same list under another name; nothing is copied but the reference to its numbers."""
        other = copy.copy(self)
        other.name = name
        return other

    @cached_property
    def places(self) -> dict[str, int]:
        """Each word's place in the list."""
        return {word: place for place, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WordVectors):
            return self.digest == other.digest
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"WordVectors({self.name!r}, {len(self):,} words, {self.dimensions} dimensions)"

    # --- in a model's file --------------------------------------------------------------------------------------------

    def packed(self) -> Tensor:
        """All of it as bytes (uint8): what :meth:`unpacked` reads."""
        text = "\n".join([self.name, *self.words]).encode()
        head = np.array([len(text), *self.grid.shape], dtype="<i8").tobytes()
        return torch.frombuffer(bytearray(head + text + self.grid.astype("<i2").tobytes()), dtype=torch.uint8)

    @classmethod
    def unpacked(cls, raw: Tensor) -> WordVectors:
        """From bytes; a ValueError if they are not what :meth:`packed` makes."""
        if raw.dtype != torch.uint8 or raw.dim() != 1:
            raise ValueError("word vectors are kept as bytes")
        content = raw.cpu().numpy().tobytes()
        length, rows, width = (int(number) for number in np.frombuffer(content[:24], dtype="<i8"))
        whole = 24 + length + 2 * rows * width
        if min(length, rows, width) < 1 or width > WIDEST or rows > MOST_WORDS or whole != len(content):
            raise ValueError("these word vectors are not whole")
        try:
            name, *words = content[24 : 24 + length].decode().split("\n")
        except UnicodeDecodeError:
            raise ValueError("these word vectors are not whole") from None
        if len(set(words)) != rows or len(words) != rows:
            raise ValueError("there is not one word for each vector")
        return cls(words, np.frombuffer(content[24 + length :], dtype="<i2").reshape(rows, width), name)


def usable(words: Sequence[str], most: int) -> dict[str, int]:
    """The first ``most`` words that a text can have, and where each stands; of spellings that become one the first."""
    found: dict[str, int] = {}
    for place, word in enumerate(words):
        if len(word) > LONGEST:
            continue
        plain = alike(word)
        if plain not in found and is_token(plain):
            found[plain] = place
            if len(found) == most:
                break
    return found


def standardised(vectors: Array) -> Array:
    """Coordinates with mean 0 and deviation 1, as multiples of 1 / UNIT, int16; one that is constant becomes 0."""
    if not np.isfinite(vectors).all():
        raise ArgumentError("vectors", "a coordinate that is not finite", "give finite numbers")
    numbers = vectors.astype(np.float64)
    largest = float(np.abs(numbers).max())
    if largest == 0:
        raise ArgumentError("vectors", "zeros", "give vectors that differ")
    whole = np.rint(np.ldexp(numbers, _BITS - math.frexp(largest)[1])).astype(np.int64)
    count, total, squares = len(whole), whole.sum(axis=0), (whole**2).sum(axis=0)
    made = np.zeros(whole.shape, dtype=np.int16)
    for column in range(whole.shape[1]):
        spread = count * int(squares[column]) - int(total[column]) ** 2  # whole numbers of any size
        if spread > 0:
            place = (whole[:, column] * count - total[column]) / math.sqrt(spread)
            made[:, column] = np.clip(np.rint(place * UNIT), -32767, 32767)
    return made
