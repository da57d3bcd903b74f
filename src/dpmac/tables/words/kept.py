"""Word vectors in a model's file: all lists of a table's texts as one tensor of bytes, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpmac.tables.words.reading import remembered
from dpmac.tables.words.vectors import WordVectors

_MOST = 1_000  # lists


def packed_vectors(lists: Sequence[WordVectors]) -> Tensor:
    """The lists one after the other (uint8), behind how many there are and how long each is."""
    each = [one.packed() for one in lists]
    head = torch.tensor([len(each), *map(len, each)], dtype=torch.int64)
    return torch.cat([head.view(torch.uint8), *each])


def unpacked_vectors(raw: Tensor | None) -> list[WordVectors]:
    """The lists of :func:`packed_vectors`, which this process then knows; a ValueError for anything else."""
    if raw is None:
        return []
    if raw.dtype != torch.uint8 or raw.dim() != 1 or len(raw) < 8:
        raise ValueError("word vectors are kept as bytes")
    count = int(raw[:8].clone().view(torch.int64))
    if not 1 <= count <= _MOST or len(raw) < 8 * (count + 1):
        raise ValueError("these word vectors are not whole")
    sizes = raw[8 : 8 * (count + 1)].clone().view(torch.int64).tolist()
    if min(sizes) < 1 or sum(sizes) != len(raw) - 8 * (count + 1):
        raise ValueError("these word vectors are not whole")
    return [remembered(WordVectors.unpacked(one)) for one in torch.split(raw[8 * (count + 1) :], sizes)]
