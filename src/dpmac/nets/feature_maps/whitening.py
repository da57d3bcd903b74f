"""A feature map that whitens: it turns features so that short directions become longer and long ones shorter.

Noise is the same in every direction of a gradient, and signal is not. With inputs of about equal variance in all
directions one learning rate suits all of them, and a fine code of a column costs no more than a coarse one. The numbers
come from rows that a prior has drawn (:mod:`dpmac.priors`), so they are public.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, public_text
from dpmac.nets.feature_maps.base import FeatureMap, Shape, check_width


class Whitening(FeatureMap):
    """(rows - centre) @ matrix, with a public matrix (features, directions).

    ``prior`` says in half a sentence what rows the numbers were computed from: it stands in the statement.
    """

    kind = "whitening"
    expensive = True
    centre: Tensor
    matrix: Tensor

    def __init__(self, centre: Tensor, matrix: Tensor, prior: str) -> None:
        super().__init__()
        self.constant("centre", centre)
        self.constant("matrix", matrix)
        if self.matrix.dim() != 2 or self.centre.shape != self.matrix.shape[:1]:
            shapes = f"shapes {tuple(self.centre.shape)} and {tuple(self.matrix.shape)}"
            raise ArgumentError("centre, matrix", shapes, "give (features,) and (features, directions)")
        self.prior = public_text("prior", prior, "say what rows the numbers come from")

    def forward(self, rows: Tensor) -> Tensor:
        """The product is taken in single precision, in which networks see their inputs anyway: twice as quick."""
        moved = (rows.double() - self.centre).float()
        return (moved @ self.matrix.float()).double()

    def shape_after(self, shape: Shape) -> Shape:
        check_width(self, self.centre, shape)
        return (self.matrix.shape[1],)

    def arguments(self) -> dict[str, Any]:
        """The matrix in single precision where that holds the same numbers: a file of half the size."""
        single = self.matrix.float()
        if not torch.equal(single.double(), self.matrix):
            single = self.matrix
        return {"centre": self.centre, "matrix": single, "prior": self.prior}

    def notes(self) -> tuple[str, ...]:
        return (f"the rows whose moments whiten the model's inputs, none of them a private row: {self.prior};",)

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        matrix = torch.tensor([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.25]])
        return cls(torch.tensor([0.5, 0.0, 1.0]), matrix, "three made-up rows"), (3,)
