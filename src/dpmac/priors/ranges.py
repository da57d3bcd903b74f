"""Rows drawn from a public range: arrays of numbers of which no schema is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.priors.base import MOST_ROWS, Prior, refuse_released
from dpmac.priors.draws import Array, Draws
from dpmac.priors.schema import drawn_worlds
from dpmac.tables import Number


class RangePrior(Prior):
    """Rows of ``width`` numbers between ``low`` and ``high`` (one of each, or one for each feature), by ``seed``.

    They are drawn as the numbers of a schema are (:mod:`dpmac.priors.schema`).
    """

    kind = "range"

    def __init__(self, low: Any, high: Any, width: int, seed: int = 0) -> None:
        for name, end in (("low", low), ("high", high)):
            refuse_released(name, end)
        self.width = integer("width", width, "give the number of features, from 1 to 100,000", high=100_000)
        self.low, self.high = (self._ends(name, end) for name, end in (("low", low), ("high", high)))
        if not bool((self.low < self.high).all()):
            raise ArgumentError("low, high", (low, high), "give public, finite bounds with low < high")
        self.seed = Draws(seed, self.kind).seed

    def drawn(self, rows: int) -> Tensor:
        integer("rows", rows, f"give a number of rows from 1 to {MOST_ROWS:,}", high=MOST_ROWS)
        columns = [Number(float(a), float(b)) for a, b in zip(self.low, self.high, strict=True)]
        return drawn_worlds([*columns], rows, Draws(self.seed, self.kind))

    def described(self) -> str:
        return f"drawn from the public range alone by the program dpmac.priors.RangePrior, seed {self.seed}"

    def arguments(self) -> dict[str, Any]:
        return {"low": self.low.tolist(), "high": self.high.tolist(), "width": self.width, "seed": self.seed}

    @classmethod
    def sample(cls) -> RangePrior:
        return cls(0.0, [1.0, 2.0, 30.0], 3)

    def _ends(self, name: str, end: Any) -> Array:
        try:
            found = np.broadcast_to(np.asarray(torch.as_tensor(end), dtype=np.float64), (self.width,))
        except (TypeError, ValueError, RuntimeError):
            raise ArgumentError(name, end, f"give a public number, or {self.width}") from None
        if not np.isfinite(found).all():
            raise ArgumentError(name, end, "give public, finite bounds")
        return found
