"""Linear algebra on released numbers: for every finite input a finite output, and never an exception.

What was released is paid for, whatever the noise made of it: traces below zero, matrices that are indefinite, all zero
or enormous. So what is computed from it must not fail. Everything here is post-processing.
"""

from __future__ import annotations

import torch
from scipy import linalg
from torch import Tensor

# Beyond it numbers are cut, so that products of a few stay finite. No release reaches it: scales end at 1e30, noise
# multipliers at 1e7 and rows at 2**28.
LARGEST = 1e60
WEIGHT = 1e15  # the largest slope and weight of a network in single precision, whose squares must be finite there


def tamed(numbers: Tensor, most: float = LARGEST) -> Tensor:
    """The numbers within [-most, most]; what is no number becomes 0."""
    return numbers.nan_to_num(nan=0.0, posinf=most, neginf=-most).clamp(-most, most)


def eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in rising order and eigenvectors, as columns, of symmetric matrices (..., d, d)."""
    fine = tamed(matrix)
    try:
        values, vectors = torch.linalg.eigh(fine)
    except RuntimeError:  # torch.linalg.LinAlgError: the quick algorithm did not converge: a slower one does
        values, vectors = _slower(fine)
    return values, vectors


def _slower(matrix: Tensor) -> tuple[Tensor, Tensor]:
    d = matrix.shape[-1]
    each = [linalg.eigh(one.numpy(), driver="ev") for one in matrix.reshape(-1, d, d).cpu()]
    values = torch.stack([torch.from_numpy(found) for found, _ in each]).reshape(matrix.shape[:-1])
    vectors = torch.stack([torch.from_numpy(found) for _, found in each]).reshape(matrix.shape)
    return values.to(matrix), vectors.to(matrix)


def cholesky(matrix: Tensor, level: Tensor) -> Tensor:
    """Cholesky factors of ``matrix + level I`` for positive semi-definite matrices (k, d, d) and levels (k, 1, 1).

    Where rounding has left a negative eigenvalue that is larger than its level, the level is raised until there is a
    factor: at the latest where it exceeds the matrix itself.
    """
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    while True:
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(matrix + level * eye)
        if not bool(failed.any()):
            return factor
        level = torch.where(failed.reshape(-1, 1, 1) > 0, 100.0 * level.clamp(min=1e-100), level)
