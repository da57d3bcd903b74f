"""Embeddings: tables that are read by the number of a token."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.modules.shares import Share, Tokens
from dpmac.modules.taps import Watch


def embedding(
    watch: Watch,
    func: Any,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001 - of max_norm, which is refused
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """A row's share is one vector for each token it has; ``padding_idx`` gets none.

    A token that is not in the table makes its row's numbers NaN, so that the row counts as blank: torch would stop, and
    one row must not stop a run.
    """
    _refuse(watch.name_of(weight), max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    length = weight.shape[0]
    outside = (input < 0) | (input >= length)
    tokens = input.masked_fill(outside, 0).long()

    def shares(gradient: Tensor) -> dict[str, Share]:
        places = tokens.reshape(watch.rows, -1)
        vectors = gradient.reshape(watch.rows, places.shape[1], weight.shape[1])
        if padding_idx is not None:
            vectors = vectors.masked_fill((places == padding_idx % length).unsqueeze(2), 0.0)
        return {"weight": Tokens(places, vectors)}

    def looked_up(table: Tensor) -> Tensor:
        found: Tensor = func(tokens, table, padding_idx)
        return found.masked_fill_(outside.unsqueeze(-1), math.nan)  # in place: it is large, and nobody else's

    return watch.run("embedding", {"weight": weight}, looked_up, shares)


def embedding_bag(
    watch: Watch,
    func: Any,
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum or mean of a row's embeddings, taken apart; of another mode, or with offsets, it runs as it is.

    A token that is not in the table makes the numbers of its bag NaN, as in :func:`embedding`.
    """
    _refuse(watch.name_of(weight), max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if input.dim() != 2 or offsets is not None or mode not in ("sum", "mean"):
        more = (scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
        outside = (input < 0) | (input >= weight.shape[0])
        found = func(input.masked_fill(outside, 0), weight, offsets, max_norm, norm_type, *more)
        return found.masked_fill(_bags_of(outside, offsets, len(found)).unsqueeze(1), math.nan)
    vectors = embedding(watch, F.embedding, input, weight, padding_idx)
    counts = torch.ones_like(input, dtype=vectors.dtype)
    if padding_idx is not None:
        counts = counts.masked_fill(input == padding_idx % weight.shape[0], 0.0)
    if per_sample_weights is not None:
        vectors = vectors * per_sample_weights.unsqueeze(2)
    total = (vectors * counts.unsqueeze(2)).sum(dim=1)
    if mode == "sum":
        return total
    return total / counts.sum(dim=1, keepdim=True).clamp(min=1.0)


def _bags_of(outside: Tensor, offsets: Tensor | None, bags: int) -> Tensor:
    """Which bags hold a token that is outside of the table."""
    if outside.dim() == 2 or offsets is None:
        return outside.any(dim=1)
    bag = torch.searchsorted(offsets, torch.arange(len(outside), device=outside.device), right=True) - 1
    return torch.zeros(bags, dtype=torch.bool, device=outside.device).index_fill_(0, bag[outside], True)


def _refuse(name: str | None, **options: Any) -> None:
    """Options whose gradient, or whose table, depends on the other rows of the batch.

    ``max_norm`` changes the table in place for the tokens that come up, so it is refused for frozen tables, too.
    """
    for option, value in options.items():
        if value and (name is not None or option == "max_norm"):
            what = "a frozen embedding" if name is None else f"the embedding {name!r}"
            fix = f"{what} is then changed or scaled by what the batch holds: leave {option} out"
            raise ArgumentError(option, value, fix)
