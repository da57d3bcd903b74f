"""The longest directions of many features, without the whole covariance: by powers of it on a block of vectors.

An eigendecomposition of 11,000 features takes minutes and 2 GB. A block of somewhat more vectors than directions are
wanted, multiplied by the covariance twice and made orthonormal in between, takes seconds and has the long
directions nearly right; whitening asks for no more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.priors.draws import Draws

WIDE = 1_500  # features from which the block pays
_MORE = 100  # vectors of the block beyond the wanted directions
_TIMES = 2


def worth_it(features: int, directions: int | None) -> bool:
    """Whether the block is much less work than all eigenvalues."""
    return directions is not None and features > WIDE and 2 * (directions + _MORE) < features


def most_worth_it(features: int) -> int:
    """The most directions of so many features for which that holds; 0 if it never does."""
    if features <= WIDE:
        return 0
    return (features - 1) // 2 - _MORE


def longest(rows: Tensor, directions: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors (features, directions) of the covariance of centred ``rows``, the largest first.

    In the rows' precision; from a fixed start, so that the same rows on the same machine give the same numbers.
    """
    width = rows.shape[1]
    block = torch.from_numpy(Draws(0, "directions").uniform(width, min(directions + _MORE, width)) - 0.5).to(rows.dtype)
    for _ in range(_TIMES):
        block, _ = torch.linalg.qr(rows.T @ (rows @ block) / len(rows))
    codes = rows @ block
    values, turn = torch.linalg.eigh((codes.T @ codes / len(rows)).double())
    vectors = block @ turn.flip(1)[:, :directions].to(block.dtype)
    return values.flip(0)[:directions].clamp(min=0.0), vectors.double()
