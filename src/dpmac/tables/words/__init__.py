"""Texts by public word vectors: the words of a text, the vectors of a list, and the numbers of a text made of them."""

from dpmac.tables.words.pooling import Pooling
from dpmac.tables.words.tokens import tokens
from dpmac.tables.words.vectors import WordVectors

__all__ = ["Pooling", "WordVectors", "tokens"]
