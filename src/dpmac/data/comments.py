"""Comments of patients who never were, to try texts on: rows, a schema, and word vectors, all made up by this program.

Nothing here is about anybody, and nothing is taken from anywhere, so the files are free (CC0). A comment says good and
bad things of a few subjects; whether its writer would come again follows from these and from chance. The word vectors
are made by hand: one coordinate says how good a word is, others which subject or part of speech it belongs to, and
every word has a little of its own. They know some hundred words; real ones come from GloVe, fastText or word2vec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.priors.draws import Array, Draws

ROWS, NEW = 3_000, 500
VECTORS = "comments.vectors.txt"
_SMALL = "the was and a very we is it not i to but of this they my in with there again all at on be so really quite"
_SUBJECTS = (
    ("nurse", "nurses", "staff", "team", "doctor", "doctors", "surgeon"),
    ("food", "meal", "breakfast", "soup", "coffee", "tea"),
    ("room", "bed", "ward", "bathroom", "window", "floor"),
    ("waiting", "wait", "appointment", "queue", "desk", "phone"),
    ("parking", "entrance", "lift", "signs", "corridor"),
)
_GOOD = "good kind friendly clean quick excellent helpful calm warm careful clear quiet fresh comfortable lovely"
_BAD = "bad rude slow dirty cold noisy late terrible broken unclear crowded careless awful bland confusing"
_OPENINGS = ("the {} was {}", "the {} was very {}", "really {} {}", "i found the {} quite {}", "{} is {}", "a {} so {}")
_ENDINGS = ("", ", thank you!", ". we will be there again", " on my first day", " in all of this", "...")
WARDS = ("heart", "eyes", "bones")


@dataclass(frozen=True)
class Comments:
    """Columns of cells by name, to train on and to test on, and the lines of a file of word vectors."""

    train: dict[str, list[str]]
    test: dict[str, list[str]]
    vectors: str


def made_comments() -> Comments:
    """The same ones at every call, on every machine."""
    draw = Draws(0, "comments")
    n = ROWS + NEW
    ages, wards = 18 + np.floor(draw.uniform(n) * 72), np.floor(draw.uniform(n) * len(WARDS))
    parts, likes, noise = 1 + np.floor(draw.uniform(n) * 3), draw.uniform(n), draw.normal(n)
    choices = draw.uniform(n, 3, 5)
    texts, scores = [], []
    for row in range(n):
        said = [_part(choices[row, k], likes[row]) for k in range(int(parts[row]))]
        texts.append(". ".join(text for text, _ in said).capitalize())
        scores.append(sum(score for _, score in said))
    again = np.array(scores) + 0.02 * (ages - 54) + noise > 0
    columns = {
        "age": [str(int(age)) for age in ages],
        "ward": [WARDS[int(place)] for place in wards],
        "comment": texts,
        "again": np.where(again, "yes", "no").tolist(),
    }
    train = {name: cells[:ROWS] for name, cells in columns.items()}
    return Comments(train, {name: cells[ROWS:] for name, cells in columns.items()}, _vectors(draw))


def _part(choice: Array, likes: float) -> tuple[str, int]:
    """One sentence about a subject, and whether it is good (1) or bad (-1)."""
    subject = _of(_of(_SUBJECTS, choice[0]), choice[1])
    score, words = -1, _BAD
    if choice[2] < 0.15 + 0.7 * likes:
        score, words = 1, _GOOD
    judged = _of(words.split(), choice[3])
    opening, ending = _of(_OPENINGS, choice[4]), _of(_ENDINGS, (choice[4] * 6) % 1.0)
    named = (subject, judged)
    if opening.startswith("really"):
        named = (judged, subject)
    return opening.format(*named) + ending, score


def _of(those: Sequence[Any], place: float) -> Any:
    return those[int(place * len(those))]


def _vectors(draw: Draws) -> str:
    """A line for each word: how good it is, which group it is of, and a little of its own."""
    groups = [_SMALL.split(), *map(list, _SUBJECTS), _GOOD.split() + _BAD.split()]
    lines = []
    for place, group in enumerate(groups):
        own = draw.normal(len(group), 2 + len(groups)) * 0.3
        for word, numbers in zip(group, own, strict=True):
            numbers[0] += 2.0 * ((word in _GOOD.split()) - (word in _BAD.split()))
            numbers[1 + place] += 1.0
            lines.append(" ".join([word, *(f"{number:.4f}" for number in numbers)]))
    return "\n".join(lines) + "\n"
