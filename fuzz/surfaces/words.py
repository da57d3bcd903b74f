"""Files of word vectors, packed lists of them, and texts of any kind."""

from __future__ import annotations

import gzip
import io

import numpy as np
import torch

from dpmac.tables import Schema, TableEncoder, Text, WordVectors
from dpmac.tables.words.kept import packed_vectors, unpacked_vectors
from fuzz.cases import Action, Case
from fuzz.mutations import spoilt_bytes

WORDS = ["the", "of", ",", "good", "bad", "film", "Good", "caf\u00e9", "n't", "not", "new york"]
NUMBERS = np.sin(np.arange(len(WORDS) * 3)).reshape(-1, 3).astype(np.float32)
NAMES = ("words.npz", "words.txt", "words.vec", "words.txt.gz", "packed")
TEXTS = (
    "",
    " ",
    "good",
    "n't" * 50,
    "\ud800",
    "\0",
    "\ufdfa" * 5_000,
    "a\u0301" * 9_000,
    3,
    2.5,
    True,
    b"\xff good",
    None,
)


def prepare(case: Case) -> Action:
    """A spoilt file of vectors, and then texts by whatever was read of it."""
    name = case.one_of(NAMES)
    case.note(name)
    raw = _whole(name)
    packed = name.endswith(".gz") and case.random.random() < 0.9
    for _ in case.times():
        raw, said = spoilt_bytes(case.random, raw)
        case.note(said)
    if packed:
        raw = gzip.compress(raw, mtime=0)
    path = case.folder / name
    path.write_bytes(raw)
    texts = [case.one_of(TEXTS) for _ in range(6)]

    def action() -> None:
        if name == "packed":
            found = unpacked_vectors(torch.frombuffer(bytearray(raw or b"\0"), dtype=torch.uint8))
            columns = {str(place): Text(one, features=3, missing=True) for place, one in enumerate(found)}
        else:
            columns = {"0": Text(path, features=3, words=8, missing=True)}
        encoder = TableEncoder(Schema(columns))
        made = encoder.transform(dict.fromkeys(columns, texts))
        assert np.isfinite(made).all()
        assert np.abs(made).max() <= 1
        again = unpacked_vectors(packed_vectors([column.word_vectors() for column in columns.values()]))
        assert again == [column.word_vectors() for column in columns.values()]

    return action


def _whole(name: str) -> bytes:
    """A valid file, before it is packed by gzip."""
    if name == "packed":
        return packed_vectors([WordVectors.of(WORDS, NUMBERS)]).numpy().tobytes()
    if name.endswith(".npz"):
        out = io.BytesIO()
        np.savez(out, words=np.array(WORDS), vectors=NUMBERS)
        return out.getvalue()
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, NUMBERS.tolist(), strict=True)]
    head = []
    if name.endswith(".vec"):
        head = [f"{len(WORDS)} 3"]
    return "\n".join([*head, *lines, ""]).encode()
