"""Texts as words: what is one, how endings come apart, and that odd characters do no harm."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.tables.words.tokens import CHARACTERS, WORDS, alike, is_token, tokens


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A Good film!", ["a", "good", "film"]),
        ("It isn't the film's fault, I can't say.", ["it", "is", "n't", "the", "film", "'s", "fault", "i", "ca", "n't", "say"]),
        ("don\u2019t \u2014 caf\u00e9 cafe\u0301", ["do", "n't", "caf\u00e9", "caf\u00e9"]),
        ("\ufb01lm \uff27\uff4f\uff4f\uff44", ["film", "good"]),  # a ligature, wide letters
        ("snake_case 3.5 10,000", ["snake", "case", "3", "5", "10", "000"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u043f\u0440\u0438\u0432\u0435\u0442", ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u043f\u0440\u0438\u0432\u0435\u0442"]),
        ("!!! ... \U0001f600", []),
        ("", []),
    ],
)  # fmt: skip
def test_words_of_a_text(text, wanted):
    assert tokens(text) == wanted


@given(st.text())
def test_any_text_has_words_that_texts_can_have(text):
    found = tokens(text)
    assert len(found) <= WORDS
    assert tokens(" ".join(found)) == found
    assert all(is_token(word) for word in found)
    assert found == tokens(text.encode(errors="surrogatepass").decode(errors="surrogatepass"))


def test_a_huge_text_is_cut():
    assert tokens("word " * 10**6) == ["word"] * WORDS
    assert len(alike("\ufdfa" * 10**6)) <= CHARACTERS  # one character that becomes eighteen
    assert len(tokens("x" * 10**7)[0]) == CHARACTERS


def test_spellings_that_look_alike_are_alike():
    assert alike(unicodedata.normalize("NFD", "\u00c5ngstr\u00f6m")) == alike("\u00c5NGSTR\u00d6M") == "\u00e5ngstr\u00f6m"
