"""Four modules for texts. Made of layers that both dpmac and Opacus have rules for, so that both train the same one.

All start as the mean of the word vectors before a head of zeros: the new pieces begin where they change nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GAIN = 4.0  # the head's inputs are about this long


class Words(nn.Module):
    """Frozen word vectors, and which places hold a word. The commonest ``trained`` words have vectors of their own,
    which start from the public ones and are trained."""

    def __init__(self, vectors: Tensor, trained: int = 0) -> None:
        super().__init__()
        self.table, self.trained = nn.Embedding.from_pretrained(vectors, padding_idx=0), trained
        if trained:
            start = vectors[: trained + 1].clone()
            self.common = nn.Embedding.from_pretrained(start, freeze=False, padding_idx=0)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self.table(tokens)
        if self.trained:
            common = tokens <= self.trained
            own = self.common(tokens.masked_fill(~common, 0))
            vectors = torch.where(common.unsqueeze(2), own, vectors)
        return vectors, tokens != 0


def mean_of(vectors: Tensor, there: Tensor) -> Tensor:
    """The sum over the places that hold a word, over the root of their number: (rows, width)."""
    count = there.sum(dim=1, keepdim=True).clamp(min=1)
    total = torch.bmm(there.unsqueeze(1).to(vectors), vectors).squeeze(1)
    return total / count.sqrt()


def head(width: int) -> nn.Linear:
    layer = nn.Linear(width, 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Mean(nn.Module):
    """The baseline: a linear head on the sum of the word vectors over the root of their number."""

    def __init__(self, vectors: Tensor, trained: int = 0) -> None:
        super().__init__()
        self.words, self.head = Words(vectors, trained), head(vectors.shape[1])

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(GAIN * mean_of(*self.words(tokens)))
        return out.squeeze(1)


class Attention(nn.Module):
    """Attention pooling: every word's weight is the softmax of a learned score, which is 0 for all words at first."""

    def __init__(self, vectors: Tensor, hidden: int = 1) -> None:
        super().__init__()
        self.words, self.hidden = Words(vectors), hidden
        self.scores = nn.Linear(vectors.shape[1], hidden, bias=False)
        nn.init.zeros_(self.scores.weight)
        self.head = head(hidden * vectors.shape[1])

    def forward(self, tokens: Tensor) -> Tensor:
        vectors, there = self.words(tokens)
        scores = (GAIN * self.scores(vectors)).masked_fill(~there.unsqueeze(2), -1e9)
        weights = scores.softmax(dim=1) * there.unsqueeze(2)
        pooled = torch.einsum("nlh,nld->nhd", weights, vectors) * there.sum(dim=1).sqrt()[:, None, None]
        out: Tensor = self.head(GAIN * pooled.flatten(1))
        return out.squeeze(1)


class Transformer(nn.Module):
    """One transformer layer of a small width beside the mean; its outputs start at 0."""

    def __init__(self, vectors: Tensor, hidden: int = 16) -> None:
        super().__init__()
        self.words = Words(vectors)
        self.queries, self.keys, self.values = (nn.Linear(vectors.shape[1], hidden) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(hidden), nn.Linear(hidden, vectors.shape[1])
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.head = head(vectors.shape[1])

    def forward(self, tokens: Tensor) -> Tensor:
        vectors, there = self.words(tokens)
        x = GAIN * vectors
        mask = there.unsqueeze(1) | ~there.any(dim=1)[:, None, None]  # a row without words attends to padding
        seen = F.scaled_dot_product_attention(self.queries(x), self.keys(x), self.values(x), attn_mask=mask)
        x = vectors + self.out(F.relu(self.norm(seen)))
        out: Tensor = self.head(GAIN * mean_of(x, there))
        return out.squeeze(1)


def made(name: str, vectors: Tensor, hidden: int) -> nn.Module:
    """A module by its name, from the public vectors; what is drawn is drawn from torch's generator."""
    if name == "mean":
        return Mean(vectors)
    if name == "mean, words trained":
        return Mean(vectors, trained=500)
    if name == "attention":
        return Attention(vectors, hidden)
    return Transformer(vectors, hidden)


NAMES = ("mean", "attention", "transformer", "mean, words trained")
