"""Hashes: codes of which there are too many to list, such as diagnoses or products, in a few public buckets."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from dpmac.cells import is_missing
from dpmac.checks import integer
from dpmac.tables.kinds.base import Array, ColumnKind, Quote
from dpmac.tables.kinds.bases import Basis, Levels, eye
from dpmac.tables.kinds.category import Category, canonical
from dpmac.tables.kinds.protocols import Draws
from dpmac.tables.kinds.shared import drawn_choice

MOST = 4096


@dataclass(frozen=True)
class Hash(Category):
    """Any text, as one of ``buckets`` by a public hash of it. Nothing need be known of the values.

    The bucket of a text is the first eight bytes of its SHA-256 (UTF-8, without spaces around it; whole numbers without
    a point), a number with the highest byte first, modulo ``buckets``. The hash has no key and looks at one cell alone.
    Values that share a bucket cannot be told apart. ``values`` are made up: one for each bucket.
    """

    buckets: int = 0
    kind: ClassVar[str] = "hash"
    needed: ClassVar[tuple[str, ...]] = ("buckets",)
    to_write: ClassVar[str] = "buckets, how many there are, such as 64: fewer need less budget, more tell more apart"
    help: ClassVar[str] = (
        "hash: buckets, how many, such as 64. For codes of which there are too many to list: each text falls into a "
        "bucket by a public hash."
    )

    def __init__(self, buckets: int, missing: bool = False) -> None:
        fix = f"give a number of buckets, from 2 to {MOST:,}, such as 64"
        object.__setattr__(self, "buckets", integer("buckets", buckets, fix, low=2, high=MOST))
        super().__init__(_made_up(self.buckets), missing)

    def _place(self, cell: Any, places: dict[str, int]) -> float:  # noqa: ARG002 - any text has a bucket
        if is_missing(cell):
            return math.nan
        return float(bucket_of(canonical(cell), self.buckets))

    def lists(self, text: str) -> bool:  # noqa: ARG002
        return False

    def beyond(self, codes: Array) -> Array:
        return np.zeros(len(codes), dtype=bool)

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:
        return [super().encoded(value, there, bins)[0][:, : self.buckets]]

    def bases(self, bins: int) -> Sequence[Basis]:  # noqa: ARG002
        """Its buckets; there is no other."""
        labels = tuple(name.strip() for name in self.input_names("", 0))
        return (Levels(labels, eye(len(labels)), self._listed_place),)

    def input_names(self, name: str, bins: int) -> list[str]:  # noqa: ARG002
        return [f"{name} bucket {k + 1}" for k in range(self.buckets)]

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        return drawn_choice(place, self.buckets, draw).astype(np.float64)

    def candidates(self, points: int) -> tuple[Array, Array]:
        return ColumnKind.candidates(self, points)

    def with_missing(self) -> Hash:
        return Hash(self.buckets, missing=True)

    @property
    def classes(self) -> None:
        """None: it cannot be a target, whose labels nobody could name."""

    def described(self, quote: Quote) -> str:  # noqa: ARG002
        return f"any text, in one of {self.buckets} buckets by a public hash"

    def label(self, cell: Any) -> str:
        return f"bucket {bucket_of(canonical(cell), self.buckets) + 1}"

    def fields(self) -> dict[str, Any]:
        return {"buckets": self.buckets}

    def as_input(self) -> dict[str, Any]:
        return {"buckets": self.buckets, "code": "first 8 bytes of SHA-256 of the text, big-endian, modulo buckets"}

    @classmethod
    def samples(cls) -> Sequence[Hash]:
        return cls(2, missing=True), cls(7)

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        return ["A07.1", " A07.1 ", 7, 7.0, True, "never seen", b"x", math.inf], []


def bucket_of(text: str, buckets: int) -> int:
    """The bucket of a text, from 0 on."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8]) % buckets


@functools.cache
def _made_up(buckets: int) -> tuple[str, ...]:
    """A text for each bucket, the same on every machine."""
    found, number = dict[int, str](), 0
    while len(found) < buckets:
        found.setdefault(bucket_of(f"value {number}", buckets), f"value {number}")
        number += 1
    return tuple(found[place] for place in range(buckets))
