"""The numbers of a text against sums written out, and that a text's depend on it alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac.tables.words import Pooling, WordVectors, words_of
from dpmac.tables.words.vectors import UNIT

WORDS = ["the", "of", "not", "good", "bad", "film", "plot"]
VECTORS = WordVectors.of(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 9)))
TEXTS = ["The good film", "bad, bad plot of nothing!", "", "unheard", "isn't good", "the " * 500]


def by_hand(pooling, words):
    """One text, word by word, in plain loops."""
    signs, offsets = pooling._directions
    each = {}
    for place, word in enumerate(VECTORS.words):
        vector = VECTORS.grid[place].astype(float)
        bent = [max(0.0, np.floor((vector * signs[:, k]).sum() / 3) + offsets[k]) for k in range(pooling.features)]
        each[word] = np.array([*vector, *bent])
    odds = {word: np.floor(2**20 / (place + 10)) for place, word in enumerate(VECTORS.words)}
    centre = np.rint(sum(odds[word] * each[word] for word in each) / sum(odds.values()))
    known = [each["not" if word == "n't" else word] - centre for word in words if word in (*each, "n't")]
    pooled = sum(known, np.zeros(len(centre))) / (UNIT * np.sqrt(max(1, len(known))))
    return [*pooled, np.log1p(len(words)) / np.log1p(1000), (len(words) - len(known)) / max(1, len(words))]


@pytest.mark.parametrize("features", [0, 6])
def test_a_text_is_the_sum_of_its_words(features):
    pooling = Pooling(VECTORS, features)
    found = pooling.of_tokens([words_of(text) for text in TEXTS])
    assert found.shape == (len(TEXTS), pooling.width) == (len(TEXTS), 9 + features + 2)
    assert np.allclose(found, [by_hand(pooling, words_of(text)) for text in TEXTS], atol=1e-6)


def test_a_text_has_the_same_bits_in_any_company():
    pooling = Pooling(VECTORS, 6)
    many = [words_of(TEXTS[k % len(TEXTS)]) for k in range(5_000)]  # more than one block
    found = pooling.of_tokens(many)
    alone = np.concatenate([pooling.of_tokens([words]) for words in many[: len(TEXTS)]])
    assert np.array_equal(found, alone[np.arange(5_000) % len(TEXTS)])
    assert np.array_equal(pooling.of_tokens(many[::-1]), found[::-1])
    turned = [words[::-1] for words in many[: len(TEXTS)]]
    assert np.array_equal(pooling.of_tokens(turned), alone)  # order does not count


def test_the_numbers_are_the_same_on_every_machine():
    """What this machine computes is what another one did: nothing here is rounded as a machine likes."""
    found = Pooling(VECTORS, 6).of_tokens([words_of(TEXTS[1])])[0]
    assert [round(x * UNIT * np.sqrt(4)) for x in found[:-2]] == KNOWN


def test_a_list_with_the_ending_has_its_own_vector():
    words = [*WORDS, "n't"]
    own = WordVectors.of(words, np.random.default_rng(0).normal(size=(len(words), 9)))
    not_, ending = (Pooling(own, 0).of_tokens([[word]]) for word in ("not", "n't"))
    assert not np.array_equal(not_, ending)
    assert np.array_equal(*(Pooling(VECTORS, 0).of_tokens([[word]]) for word in ("not", "n't")))


KNOWN = [-2964, -1660, -72, 432, -2976, 1128, 317, -800, 2125, -768, 599, -896, -259, 2057, 1097]
