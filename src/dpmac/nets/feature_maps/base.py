"""What a feature map is: a public map of one raw row to the network's inputs, and a part of the model.

A feature map never sees a whole table. It is applied to blocks of raw rows inside the release (``PrivateRows.behind``,
or inside a query), so that deleting a row cannot change how another one rounds; and again by ``predict``, so that what
was fitted is what is used. It learns nothing from rows: whatever it knows is a public constant or was released.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import Shaped

Shape = tuple[int, ...]
FLOOR = 1e-6  # of what a row's length is measured in: a row that is shorter is not scaled up, it gives zeros


class FeatureMap(Shaped):
    """A map of rows, each by itself. Its numbers are buffers, or frozen parameters; nothing in it is trained.

    ``kind`` is its name in files; :meth:`arguments` gives the constructor's arguments (plain values and tensors), from
    which a saved feature map is built again. ``expensive`` feature maps are worth computing once and not in every step.
    With ``tokens`` raw rows are whole numbers that name something, such as words. Features that take much memory are
    made, and mapped on in a chain, ``few`` rows at a time.
    ``origin`` says which releases its numbers come from (:mod:`dpmac.extensions.provenance`), if any do.
    """

    kind: ClassVar[str]
    expensive: ClassVar[bool] = False
    tokens: bool = False
    few: int | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "dear" in vars(cls):
            said = f"{cls.__name__}.dear is now called expensive; the old name will be removed in the next release"
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            cls.expensive = vars(cls)["dear"]

    def forward(self, rows: Tensor) -> Tensor:
        """The network's inputs for a block of raw rows, float64; row n depends on row n alone."""
        raise NotImplementedError

    def shape_after(self, shape: Shape) -> Shape:
        """The shape of one input, for raw rows of that shape; :class:`ArgumentError` if such rows do not fit."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        raise NotImplementedError

    def notes(self) -> tuple[str, ...]:
        """Lines for the statement: what public knowledge its numbers come from, where that is more than constants."""
        return ()

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        """A small feature map of this kind and the shape of its rows: what the contract tests try."""
        raise NotImplementedError

    def constant(self, name: str, value: float | Tensor | Any) -> Tensor:
        """Keep a public number, or one for each feature, as a float64 buffer that moves with the module."""
        try:
            kept = torch.as_tensor(value, dtype=torch.float64).detach().clone(memory_format=torch.contiguous_format)
        except (TypeError, ValueError, RuntimeError):
            raise ArgumentError(name, value, "give a public number, or one for each feature") from None
        if not bool(torch.isfinite(kept).all()):
            raise ArgumentError(name, value, "give finite public numbers")
        self.register_buffer(name, kept)
        return kept


def check_width(feature_map: FeatureMap, numbers: Tensor, shape: Shape) -> None:
    """Raise unless rows of ``shape`` are flat and have as many features as there are ``numbers`` (any, for one)."""
    if len(shape) != 1 or (numbers.dim() == 1 and shape[0] != len(numbers)):
        width = "d"
        if numbers.dim() == 1:
            width = str(len(numbers))
        raise ArgumentError(
            "x", f"rows of shape {shape}", f"the feature map {feature_map.kind!r} needs rows of shape ({width},)"
        )
