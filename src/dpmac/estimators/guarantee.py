"""What a fitted model says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from dpmac.privacy import Ledger, Statement


@dataclass(frozen=True)
class Privacy:
    """What a fitted model guarantees, composed from its ledger; ``notes`` say what it does not cover."""

    ledger: Ledger
    delta: float
    notes: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        """By privacy loss distributions, of everything in the ledger; inf if the model is not private."""
        return self.ledger.epsilon(self.delta)

    def statement(self) -> Statement:
        """The guarantee in plain sentences."""
        return self.ledger.statement(self.delta, self.notes)
