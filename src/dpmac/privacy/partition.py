"""A partition: one named block of numbers in a release, the shape of its sum, and the scale of its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Partition:
    """What is asked for under one name. Everything here is public.

    ``scale`` is what a bound promises (see :mod:`dpmac.bounds.clipping`); it is None until a bound has promised, and a
    release refuses it then. ``symmetric`` stacks of matrices get symmetric noise. ``sensitivity`` is a proven bound on
    every example's share, where there is one (see :class:`~dpmac.bounds.clipping.Analytic`).
    """

    name: str
    shape: tuple[int, ...]
    scale: float | None = None
    symmetric: bool = False
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.scale is not None:  # checked, written down and multiplied as one plain number
            object.__setattr__(self, "scale", float(self.scale))

    def promised(self, scale: float) -> Partition:
        """The same partition with the scale that a bound promises for it."""
        return replace(self, scale=scale)
