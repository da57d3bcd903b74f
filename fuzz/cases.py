"""One case: its number makes its random draws, and it has a folder of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
OWN = "no array of this"  # what an object of the caller's own says when it is asked for its numbers
Action = Callable[[], Any]
Prepare = Callable[["Case"], Action]


class EndedError(ValueError):
    """A command that ended with a code and a line: a refusal."""


@dataclass
class Case:
    """``number`` of the run with ``seed``; ``said`` is what was done to the valid start, for whoever reads of it."""

    number: int
    seed: int
    folder: Path
    said: list[str] = field(default_factory=list)
    ledgers: list[Path] = field(default_factory=list)  # files that must hold no more entries after a refusal
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}:{self.number}")

    def numbers(self) -> np.random.Generator:
        """Draws for arrays."""
        return np.random.default_rng(self.random.getrandbits(64))

    def one_of(self, things: Sequence[T]) -> T:
        return self.random.choice(things)

    def times(self, most: int = 3) -> range:
        """One to ``most`` mutations, one mostly."""
        return range(self.random.choices(range(1, most + 1), weights=[4, 2, 1][:most])[0])

    def note(self, text: str) -> None:
        self.said.append(text)
