"""What kinds of columns are handed: a stream of public random numbers, and a guess at a column's kind."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Draws(Protocol):
    """A stream of public random numbers, the same on every machine: see :class:`dpmac.priors.draws.Draws`."""

    def uniform(self, *shape: int) -> Array:
        """Independent numbers in [0, 1)."""

    def normal(self, *shape: int) -> Array:
        """Independent numbers, nearly normal."""

    def order(self, count: int) -> Array:
        """The numbers 0 .. count - 1 in random order."""


class Guess(Protocol):
    """Looks at a column's cells one by one and says whether they are of its kind: see :meth:`ColumnKind.guess`."""

    def see(self, cell: Any) -> bool:
        """Take one more cell, never a missing one; False if the column cannot be of this kind."""

    def template(self) -> dict[str, Any] | None:
        """After the last cell: what else to write into the template; None if this is not the column's kind."""
