"""What one call of a layer contributes to each row's gradient of one parameter, and the part that all calls make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpmac.kernels.built import BuiltPart
from dpmac.kernels.positions import KEPT_MEMORY, position_part
from dpmac.kernels.tokens import token_part
from dpmac.privacy.parts import Part


@dataclass(frozen=True, eq=False)
class Positions:
    """The gradient of row n is the sum over positions p of ``left[n, p] right[n, p]^T``."""

    left: Tensor  # (rows, positions, d_out)
    right: Tensor  # (rows, positions, d_in)

    def built(self, shape: tuple[int, ...]) -> Tensor:
        return torch.bmm(self.left.transpose(1, 2), self.right).reshape(-1, *shape)


@dataclass(frozen=True, eq=False)
class Built:
    """The gradient of row n is ``values[n]``."""

    values: Tensor  # (rows, ...), as many numbers a row as the parameter has

    def built(self, shape: tuple[int, ...]) -> Tensor:
        return self.values.reshape(-1, *shape)


@dataclass(frozen=True, eq=False)
class Tokens:
    """The gradient of row n is that of a table whose rows ``tokens[n, p]`` get ``vectors[n, p]``, and no other."""

    tokens: Tensor  # (rows, places)
    vectors: Tensor  # (rows, places, width)

    def built(self, shape: tuple[int, ...]) -> Tensor:
        values = self.vectors.new_zeros(len(self.vectors), *shape)
        return values.scatter_add_(1, self.tokens.unsqueeze(2).expand_as(self.vectors), self.vectors)


Share = Positions | Built | Tokens


def shape_of(parameter: Tensor) -> tuple[int, ...]:
    """The shape in which a parameter's gradient is released: a vector, or a matrix with a row for each unit."""
    if parameter.dim() == 0:
        return (1,)
    if parameter.dim() == 1:
        return tuple(parameter.shape)
    return (parameter.shape[0], math.prod(parameter.shape[1:]))


def part_of(parameter: nn.Parameter, shares: Sequence[Share], rows: int, keep: bool = True) -> Part:
    """The part of one parameter: the shares of all calls that used it, added up row by row.

    ``keep`` says whether there is memory to keep every row's gradient; if not, those over positions are built anew
    whenever they are needed, a few rows at a time.

    Calls of one kind are put side by side, so that a weight that is used again and again costs no more than one that is
    used at as many positions. Where kinds differ (a table that is also a matrix), every row's gradient is built.
    """
    shape = shape_of(parameter)
    if not shares:
        return BuiltPart(parameter.new_zeros(rows, *shape).detach())
    if all(isinstance(share, Positions) for share in shares):
        left, right = (_beside([getattr(share, side) for share in shares]) for side in ("left", "right"))
        return position_part(left, right, KEPT_MEMORY if keep else 0)
    if all(isinstance(share, Tokens) for share in shares):
        tokens, vectors = (_beside([getattr(share, side) for share in shares]) for side in ("tokens", "vectors"))
        return token_part(tokens, vectors, shape[0])
    total = shares[0].built(shape)
    for share in shares[1:]:
        total = total + share.built(shape)
    return BuiltPart(total.contiguous())


def _beside(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
