"""A partition: a named group of the numbers in a release, with the shape of its sum and the scale of its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Partition:
    """A named group of the numbers that a query computes from a row. Everything here is public.

    ``scale`` is what a release uses: a :class:`~dpmac.bounds.clipping.Bound` promises that all shares of a row, each
    divided by its scale, have a joint norm of at most 1. It is None until then, and a release refuses None. The answer
    of a ``symmetric`` stack of matrices is averaged with its transpose. ``sensitivity`` is used by one bound only
    (:class:`~dpmac.bounds.clipping.Analytic`): a length that no row's share exceeds, by a proof.
    """

    name: str
    shape: tuple[int, ...]
    scale: float | None = None
    symmetric: bool = False
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.scale is not None:  # the same plain float is checked, recorded and multiplied
            object.__setattr__(self, "scale", float(self.scale))

    def promised(self, scale: float) -> Partition:
        """The same partition with the scale that a bound promises for it."""
        return replace(self, scale=scale)
