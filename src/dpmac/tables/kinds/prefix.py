"""Prefixes: the first characters of a code, such as three digits of a postal code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError, how_many, integer
from dpmac.tables.kinds.base import Quote
from dpmac.tables.kinds.category import Category, canonical

MOST = 3  # digits that are listed by themselves: 1,000 values


@dataclass(frozen=True)
class Prefix(Category):
    """The first ``length`` characters of a text, as a category: 90210 counts as "902" if ``length`` is 3.

    ``prefixes`` are the public ones; any other counts as "other". Left out, they are all numbers of so many digits, of
    three at most. A number is cut as it is written without a point: a postal code that begins with 0 must be a text.
    """

    length: int = 0
    kind: ClassVar[str] = "prefix"
    needed: ClassVar[tuple[str, ...]] = ("length",)
    optional: ClassVar[tuple[str, ...]] = ("prefixes", "missing")
    to_write: ClassVar[str] = "length, how many of the first characters count, such as 2 of a postal code"
    help: ClassVar[str] = (
        "prefix: length, how many of the first characters count (postal code 90210, length 3: 902). prefixes: the "
        "public ones; without them all numbers of that length, of 3 digits at most. Any other counts as 'other'."
    )

    def __init__(self, length: int, prefixes: Iterable[Any] | None = None, missing: bool = False) -> None:
        fix = "give how many of the first characters count, from 1 to 100"
        object.__setattr__(self, "length", integer("length", length, fix, high=100))
        if prefixes is None:
            if self.length > MOST:
                fix = f"give the public prefixes, a list: of more than {MOST} digits there are too many to try all"
                raise ArgumentError("prefixes", None, fix)
            prefixes = _digits(self.length)
        super().__init__(prefixes, missing)
        for value in self.values:
            if len(value) != self.length or value != value.strip():
                raise ArgumentError(
                    "prefixes", value, f"give prefixes of {self.length} characters, which is the length"
                )

    def _place(self, cell: Any, places: dict[str, int]) -> float:
        if is_missing(cell):
            return super()._place(cell, places)
        return super()._place(canonical(cell)[: self.length], places)

    def with_missing(self) -> Prefix:
        return Prefix(self.length, self.values, missing=True)

    @property
    def classes(self) -> None:
        """None: it cannot be a target, whose labels would be cut."""

    def described(self, quote: Quote) -> str:
        if self.values == _digits(self.length):
            return f"its beginning, {how_many(self.length, 'digit')}; any other beginning counts as other"
        return f"the first {self.length} characters, {super().described(quote)}"

    def fields(self) -> dict[str, Any]:
        if self.values == _digits(self.length):
            return {"length": self.length}
        return {"length": self.length, "prefixes": list(self.values)}

    def as_input(self) -> dict[str, Any]:
        return {"first characters": self.length, **super().as_input()}

    @classmethod
    def samples(cls) -> Sequence[Prefix]:
        return cls(1, missing=True), cls(2, ["SW", "EC", "90"])

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        return ["90210", " SW1A 1AA", 90210, 90210.0, "EC", "x", "never seen"], []


def _digits(length: int) -> tuple[str, ...]:
    if length > MOST:
        return ()
    return tuple(f"{number:0{length}d}" for number in range(10**length))
