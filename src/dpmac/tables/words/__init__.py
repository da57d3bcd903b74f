"""Texts by public word vectors: the words of a text, the vectors of a list, and the numbers of a text made of them."""

from dpmac.tables.words.pooling import Pooling
from dpmac.tables.words.tokens import words_of
from dpmac.tables.words.vectors import WordVectors

__all__ = ["Pooling", "WordVectors", "words_of"]
