"""What a prior is: a public program that draws rows before anybody's row was looked at.

A private model pays for every direction that it must learn. How the columns of a schema are coded, which directions of
a feature map are long and which are short: such things can be known without a single private row, from rows that a
program made up. A prior draws them. What is computed from drawn rows is public, so it costs no privacy.

Every prior is held to three promises (``tests/priors/test_contracts.py``): the same seed gives the same rows on every
machine; rows depend on the prior's public arguments alone; whatever a private release has shaped is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import origin_of

MOST_ROWS = 10**6


class Prior(ABC):
    """Draws rows as a feature map takes them. ``kind`` is its name in the registry and in files."""

    kind: ClassVar[str]

    @abstractmethod
    def drawn(self, rows: int) -> Tensor:
        """So many rows, the same ones at every call; fewer if there are no more."""

    @abstractmethod
    def described(self) -> str:
        """What was drawn, by which program and seed: half a sentence for the statement."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the class is called with, by name."""

    @classmethod
    @abstractmethod
    def sample(cls) -> Prior:
        """A small prior of this kind, for the contract tests."""


def refuse_released(name: str, thing: Any) -> None:
    """Raise :class:`ArgumentError` if a release has shaped ``thing``: a prior is for what was known before."""
    if origin_of(thing, name=name).runs:
        fix = (
            "private rows have shaped it, and a prior draws from what is known without them: write down what is "
            "public, or say why it is public for the rows to come (as_public)"
        )
        raise ArgumentError(name, type(thing).__name__, fix)
