"""What a fitted model says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from dpmac.privacy import Ledger, Statement
from dpmac.training import Run


@dataclass(frozen=True)
class Privacy:
    """What a fitted model guarantees, composed from its ledger."""

    run: Run

    @property
    def ledger(self) -> Ledger:
        return self.run.ledger

    @property
    def epsilon(self) -> float:
        """By privacy loss distributions, of everything in the ledger; inf if the model is not private."""
        return self.ledger.epsilon(self.delta)

    @property
    def delta(self) -> float:
        return self.run.plan.delta

    def statement(self) -> Statement:
        """The guarantee in plain sentences."""
        return self.run.statement()
