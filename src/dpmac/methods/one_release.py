"""One plain release of what a finished model says of all rows: what its price is, and what is checked before it.

Residuals, base rates and scores are such releases. Each proves at the top of its file how long one row's answer can be.
Here is what they share: their noise follows from a budget, they are one unsampled Gaussian mechanism in the ledger, and
nothing is released before the model's own releases are known to stand in it, and the model to treat rows one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

from torch import Tensor

from dpmac.checks import number
from dpmac.extensions.provenance import check_origin
from dpmac.extensions.row_independence import ROWS, check_row_independence
from dpmac.planning.calibration import calibrate as least_noise
from dpmac.privacy import Answer, Ledger, Mechanism, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

Outputs = Callable[..., Tensor]  # of the columns of inputs: (rows, units)


class OneRelease:
    """A base of frozen data classes that have a ``noise_multiplier`` and a ``label``."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))

    @property
    def label(self) -> str:
        """The release's name, in the ledger as well."""
        raise NotImplementedError

    @classmethod
    def for_share(cls, share: float, epsilon: float, delta: float) -> Self:
        """That costs the ``share`` of one Gaussian mechanism of (epsilon, delta)."""
        number("share", share, "give a part of the budget above 0 and at most 1", low=1e-6, high=1.0)
        return cls(noise_for(epsilon, delta) / math.sqrt(share))  # type: ignore[call-arg]

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, 1.0, 1, self.label)

    def _released(
        self,
        rows: PrivateRows,
        outputs: Outputs,
        query: Query,
        source: NoiseSource,
        ledger: Ledger,
        micro_batch: int | None = None,
        named: str = "outputs",
    ) -> Answer:
        """The noisy sums that ``query`` asks of all rows. Adds exactly one entry to ``ledger``."""
        check_finished(rows, outputs, ledger, named)
        return release(
            rows.everything(),
            query,
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
            micro_batch=micro_batch,
        )


def noise_for(epsilon: float, delta: float) -> float:
    """The least noise at which one such release alone is (epsilon, delta)-differentially private."""
    return least_noise(lambda s: (Mechanism(s),), epsilon, delta)


def check_finished(rows: PrivateRows, outputs: Outputs, ledger: Ledger, named: str = "outputs") -> None:
    """Raise unless ``ledger`` holds what has shaped the model, and its ``outputs`` treat every row by itself.

    Outputs get a block of all columns of ``rows`` but the last, which holds the targets.
    """
    things: dict[str, Any] = {named: outputs}
    check_origin(ledger, **things)
    check_row_independence(named, outputs, rows.blank(ROWS)[:-1], tokens=True)
