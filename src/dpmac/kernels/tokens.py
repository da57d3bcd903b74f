"""Shares of an embedding: a few rows of a long table, found by their numbers.

K1: within each row the vectors of equal tokens are added up first, so the norm is that of the share, however often a
token comes up; it is measured on the very vectors that are summed, and rounded up. K2: sums in double precision: each
entry of the table gets at most one vector from each row, so a block's sum is off by no more than ``SLACK`` of
:mod:`dpmac.privacy.parts` sets aside. K3: each row is sorted and combined by itself.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import check_dimensions
from dpmac.kernels.built import all_factors, built_norms, scaled_norms
from dpmac.kernels.norms import times

MEMORY = 1 << 26  # bytes of double-precision vectors to make at a time


@dataclass(frozen=True, eq=False)
class TokenPart:
    """Share n is zero but for the rows ``tokens[n]`` of a table of ``length``, which hold ``vectors[n]``.

    Made by :func:`token_part`: the tokens of a row are sorted, and a token that stands there again has a vector of
    zeros. A row for which that is not so has no finite norm, and is left out of the sum.

    Single-precision vectors make a part that counts as single precision: its norms leave the same margin for rounding
    as those of parts that are summed so, because a release sets that margin aside in all parts or in none.
    """

    tokens: Tensor  # (rows, places), int64
    vectors: Tensor  # (rows, places, width)
    length: int
    factors: Tensor | None = None  # (rows,), float64

    def __post_init__(self) -> None:
        check_dimensions(self, tokens=2, vectors=3, factors=1)

    @property
    def rows(self) -> int:
        return self.tokens.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length, self.vectors.shape[2])

    @property
    def single(self) -> bool:
        return self.vectors.dtype == torch.float32

    def norms(self) -> Tensor:
        return scaled_norms(self._lengths, self.single, self.factors)

    def scaled(self, factors: Tensor) -> TokenPart:
        return TokenPart(self.tokens, self.vectors, self.length, all_factors(self.factors, factors))

    def doubled(self) -> TokenPart:
        return TokenPart(self.tokens, self.vectors.double(), self.length, self.factors)

    def explicit(self) -> Tensor:
        shares = torch.zeros(self.rows, *self.shape, dtype=torch.float64, device=self.vectors.device)
        index = self.tokens.unsqueeze(2).expand_as(self.vectors)
        shares.scatter_add_(1, index, self.vectors.double())
        return shares if self.factors is None else times(shares, self.factors)

    def total(self, spots_per_place: int = 1) -> Tensor:  # noqa: ARG002 - not in chunks
        factors = torch.ones_like(self._lengths) if self.factors is None else self.factors
        factors = torch.where(torch.isfinite(self._lengths), factors, 0.0)
        width = self.vectors.shape[2]
        result = torch.zeros(self.shape, dtype=torch.float64, device=self.vectors.device)
        size = max(1, MEMORY // max(1, 8 * self.vectors.shape[1] * width))
        for start in range(0, self.rows, size):
            some = slice(start, start + size)
            vectors = times(self.vectors[some], factors[some]).reshape(-1, width)
            result.index_add_(0, self.tokens[some].reshape(-1), vectors)
        return result

    @functools.cached_property
    def _lengths(self) -> Tensor:
        """The norm of every share without its factor; measured anew by each object that :meth:`scaled` gives."""
        before, after = self.tokens[:, :-1], self.tokens[:, 1:]
        nothing = (self.vectors[:, 1:] == 0).all(dim=2)
        once = (before < after).logical_or_((before == after).logical_and_(nothing)).all(dim=1)
        return torch.where(once, built_norms(self.vectors), math.inf)


def token_part(tokens: Tensor, vectors: Tensor, length: int) -> TokenPart:
    """The share of row n is the sum over its places p of ``vectors[n, p]`` in row ``tokens[n, p]`` of the table.

    Equal tokens of a row are combined here: sorted, and the vectors of each run of equal ones added up. What is summed
    and measured later are these combined vectors, so how this sum rounds is no matter of privacy.
    """
    ordered, order = torch.sort(tokens, dim=1, stable=True)
    sorted_vectors = torch.gather(vectors, 1, order.unsqueeze(2).expand_as(vectors))
    new = torch.ones_like(ordered)
    new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).long()
    place = torch.cumsum(new, dim=1) - 1
    combined = torch.zeros_like(vectors).scatter_add_(1, place.unsqueeze(2).expand_as(vectors), sorted_vectors)
    last = ordered[:, -1:].expand_as(ordered).clone()  # in the places that are left over
    return TokenPart(last.scatter_(1, place, ordered), combined, length)
