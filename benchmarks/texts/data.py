"""Film snippets as padded tokens, and public word vectors. Nothing here is learned from the snippets."""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

LENGTH = 40  # words of a snippet that are read, a public choice; 0 is padding
WORD = re.compile(r"n't|'[a-z]+|[a-z0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True)
class Texts:
    """Tokens (n, LENGTH) and labels (n,), with the train and test rows of the split, and a vector for each token."""

    tokens: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    vectors: Tensor  # (words + 1, 100): 0 is padding

    def inner_split(self, seed: int) -> tuple[Tensor, Tensor]:
        """The training rows alone, in rows to fit and rows to choose settings by."""
        order = torch.from_numpy(np.random.RandomState(1000 + seed).permutation(len(self.train)))
        held_out = len(order) // 5
        return self.train[order[held_out:]], self.train[order[:held_out]]


def load(folder: Path) -> Texts:
    """The test rows are the first fifth of ``RandomState(0).permutation(n)``, as those of the tables are."""
    with np.load(folder / "text" / "glove-100d-30k.npz") as packed:
        words, vectors = packed["words"], torch.from_numpy(packed["vectors"].astype(np.float32))
    number = {str(word): place + 1 for place, word in enumerate(words)}
    with gzip.open(folder / "text" / "movies.csv.gz", "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    tokens = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    for place, row in enumerate(rows):
        known = [number[word] for word in WORD.findall(split(row["text"])) if word in number][:LENGTH]
        tokens[place, : len(known)] = torch.tensor(known, dtype=torch.long)
    labels = torch.tensor([float(row["rating"]) > 0 for row in rows], dtype=torch.float32)
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(rows)))
    test = len(rows) // 5
    return Texts(tokens, labels, order[test:], order[:test], standardised(vectors))


def split(text: str) -> str:
    """Lower case, with the endings that the vectors' own tokeniser splits off set apart."""
    return text.lower().replace("n't", " n't")


def standardised(vectors: Tensor) -> Tensor:
    """Every coordinate with mean 0 and deviation 1 over the public word list; a row of zeros for padding in front."""
    moved = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)
    return torch.cat([torch.zeros(1, vectors.shape[1]), moved / vectors.shape[1] ** 0.5])
