"""Texts as words: what is one, how endings come apart, and that odd characters do no harm."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmac.tables.words.tokens import CHARACTERS, WORDS, alike, is_token, words_of

HINDI = "\u0939\u093f\u0928\u094d\u0926\u0940"  # a word with marks for its vowels


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A Good film!", ["a", "good", "film"]),
        ("It isn't the film's, I can't say.", ["it", "is", "n't", "the", "film", "'s", "i", "ca", "n't", "say"]),
        ("don\u2019t \u2014 caf\u00e9 cafe\u0301", ["do", "n't", "caf\u00e9", "caf\u00e9"]),
        ("\ufb01lm \uff27\uff4f\uff4f\uff44", ["film", "good"]),  # a ligature, wide letters
        ("snake_case 3.5 10,000", ["snake", "case", "3", "5", "10", "000"]),
        (f"{HINDI} \u043f\u0440\u0438\u0432\u0435\u0442", [HINDI, "\u043f\u0440\u0438\u0432\u0435\u0442"]),
        ("!!! ... \U0001f600", []),
        ("", []),
    ],
)
def test_words_of_a_text(text, wanted):
    assert words_of(text) == wanted


@given(st.text())
def test_any_text_has_words_that_texts_can_have(text):
    found = words_of(text)
    assert len(found) <= WORDS
    assert words_of(" ".join(found)) == found
    assert all(is_token(word) for word in found)
    assert found == words_of(text.encode(errors="surrogatepass").decode(errors="surrogatepass"))


def test_a_huge_text_is_cut():
    assert words_of("word " * 10**6) == ["word"] * WORDS
    assert len(alike("\ufdfa" * 10**6)) <= CHARACTERS  # one character that becomes eighteen
    assert len(words_of("x" * 10**7)[0]) == CHARACTERS


def test_spellings_that_look_alike_are_alike():
    whole = "\u00c5NGSTR\u00d6M"
    assert alike(unicodedata.normalize("NFD", whole)) == alike(whole) == "\u00e5ngstr\u00f6m"
