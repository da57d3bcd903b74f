"""A text as words: in lower case, without punctuation, English endings apart. Public, and the same on every machine.

A word is a run of letters and digits of any script, with the marks that belong to them. "don't" is "do" and "n't", and
"film's" is "film" and "'s", as in most lists of word vectors. Characters are first made alike (Unicode's NFKC), so that
a ligature or a wide letter is what it looks like. Scripts that put no spaces between words are not taken apart.
"""

from __future__ import annotations

import re
import unicodedata

CHARACTERS = 2**15  # of a text that are read
WORDS = 1_000  # of a text that are read
NOT, ITS_WORD = "n't", "not"  # what stands for the ending in a list that does not have it
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0971-\u0dff\u0e31-\u0e4e"
_TOKEN = re.compile(rf"n't\b|'(?:s|re|ve|ll|d|m)\b|(?:[^\W_]|[{_MARKS}])+")


def words_of(text: str) -> list[str]:
    """The first words of a text, in their order."""
    return _TOKEN.findall(alike(text).replace(NOT, f" {NOT}"))[:WORDS]


def alike(text: str) -> str:
    """A text in lower case, of characters that are written in one way only; what is too long is cut."""
    text = text[:CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text[:CHARACTERS]).replace("\u2019", "'")
    return text.lower()[:CHARACTERS]


def is_token(word: str) -> bool:
    """Whether a text can have this word, as it stands."""
    return words_of(word) == [word]
