"""Per-example parts: what each example contributes to one partition of a release, before anything is summed.

A part never builds a matrix per example. It keeps the factors (an outer product is two vectors), knows the exact
norm of every example's share from them, can scale every share by its own factor, and can be summed. Summing is what
turns private numbers into an aggregate, so only :mod:`dpmac.privacy.door` may call :meth:`Part.total`; a test
walks the package and fails if anything else does. All arithmetic that the guarantee rests on is in double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Part(Protocol):
    """One partition's shares of a micro-batch, one per example."""

    @property
    def rows(self) -> int:
        """Number of examples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one share, and of the sum."""

    def norms(self) -> Tensor:
        """Euclidean (Frobenius) norm of each share, float64; not finite where a share is not."""

    def scaled(self, factors: Tensor) -> Part:
        """Each share times its own factor; a factor of 0 gives exactly 0, even for a share that is not finite."""

    def total(self) -> Tensor:
        """The sum of the shares, float64. For ``release`` alone."""


def row_norms(rows: Tensor) -> Tensor:
    """Euclidean norm of each row (..., d), accumulated in double precision; no square underflows or overflows."""
    unit, largest = norms_apart(rows)
    return unit * largest


def norms_apart(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of each row as two factors, so that a product of norms can be made without underflow.

    Rows that are double already are taken over their largest entry first; the squares of single-precision numbers are
    safe in double precision.
    """
    if rows.dtype != torch.float64 or rows.shape[-1] == 0:
        norms: Tensor = torch.linalg.vector_norm(rows.float(), dim=-1, dtype=torch.float64)
        return norms, torch.ones_like(norms)
    largest = largest_entries(rows)
    scaled: Tensor = torch.linalg.vector_norm(rows / largest, dim=-1)
    return scaled, largest.squeeze(-1)


def largest_entries(rows: Tensor) -> Tensor:
    """The largest absolute entry along the last dimension, kept as a dimension; 1 where it is 0 or not finite."""
    if rows.shape[-1] == 0:
        return rows.new_ones(*rows.shape[:-1], 1)
    largest = rows.abs().amax(dim=-1, keepdim=True)
    return torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Rows of ``values`` times ``factors`` in double precision, where 0 times anything is 0."""
    column = factors.double().reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(column == 0, 0.0, values.double() * column)


def kept(values: Tensor, factors: Tensor) -> Tensor:
    """Rows of ``values`` with those of factor 0 blanked, so that 0 * inf cannot reach a sum."""
    return torch.where((factors == 0).reshape(-1, *[1] * (values.dim() - 1)), 0.0, values)


@dataclass(frozen=True)
class OuterPart:
    """Share n is the outer product ``left[n] right[n]^T``: the slope of a dense layer.

    Its Frobenius norm is ||left[n]|| ||right[n]||, exactly, at O(d_out + d_in) cost, and the sum of all shares is the
    one matrix product ``left^T right``.
    """

    left: Tensor  # (rows, d_out)
    right: Tensor  # (rows, d_in)

    @property
    def rows(self) -> int:
        return len(self.left)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.left.shape[1], self.right.shape[1])

    def norms(self) -> Tensor:
        (left, a), (right, b) = norms_apart(self.left), norms_apart(self.right)
        return left * right * (a * b)

    def scaled(self, factors: Tensor) -> OuterPart:
        return OuterPart(times(self.left, factors), kept(self.right, factors))

    def total(self) -> Tensor:
        return self.left.double().T @ self.right.double()


@dataclass(frozen=True)
class DensePart:
    """Share n is ``values[n]`` itself: counts, indicators, scalars."""

    values: Tensor  # (rows, ...)

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def norms(self) -> Tensor:
        return row_norms(self.values.double().reshape(self.rows, math.prod(self.shape)))

    def scaled(self, factors: Tensor) -> DensePart:
        return DensePart(times(self.values, factors))

    def total(self) -> Tensor:
        return self.values.double().sum(dim=0)


@dataclass(frozen=True)
class GramPart:
    """Share n is the stack of symmetric matrices ``weights[n, j] rows[n] rows[n]^T``, one for each unit j.

    The curvature of a dense layer, or with a single column of ones the Gram matrix of its inputs. The norm of a share
    is ||weights[n]|| ||inputs[n]||^2, exactly, and no share is ever built.
    """

    weights: Tensor  # (rows, units)
    inputs: Tensor  # (rows, d_in)

    @property
    def rows(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.weights.shape[1], self.inputs.shape[1], self.inputs.shape[1])

    def norms(self) -> Tensor:
        (weights, a), (inputs, b) = norms_apart(self.weights), norms_apart(self.inputs)
        return weights * inputs.square() * (a * b * b)  # in this order: b * b alone could underflow

    def scaled(self, factors: Tensor) -> GramPart:
        return GramPart(times(self.weights, factors), kept(self.inputs, factors))

    def total(self) -> Tensor:
        inputs, weights = self.inputs.double(), self.weights.double()
        units = [(inputs * weights[:, j : j + 1]).T @ inputs for j in range(weights.shape[1])]
        stacked = torch.stack(units) if units else inputs.new_zeros(self.shape)
        return (stacked + stacked.transpose(1, 2)) / 2  # exactly symmetric, whatever the matrix product rounds
