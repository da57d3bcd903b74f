"""A query: what a release computes from the rows. A training step, DP-PCA and a histogram differ only in the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.recording import Recording
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part

Answer = Mapping[str, Tensor]
"""The noisy sum of every partition under its name."""


@dataclass(frozen=True)
class Query:
    """``parts(*columns)`` maps a block of rows to their bounded parts, one for each partition, row by row.

    What its author owes is listed in docs/proof.md ("What a query and its caller owe"). Above all, row i of each
    part depends on row i and public numbers only, and every possible row keeps the bound that the partitions' scales
    state (:mod:`dpmac.bounds.clipping`). Contract tests check both for the package's queries, and a release checks the
    second on every row. ``label``, a public text, names the release in the ledger and in the statement. All code that
    runs inside ``parts`` sees private rows. Tests find this code by tracing it, not from a list.

    ``reads`` lists the tensors other than rows that ``parts`` reads and that may change in place between calls (such as
    weights), provided that every call does the same: no other number that Python could change in between may enter.
    It is None if that is not known. On a GPU, such a query is recorded as a CUDA graph when it is repeated
    (:mod:`dpmac.kernels.recording`).
    """

    label: str
    partitions: tuple[Partition, ...]
    parts: Callable[..., Sequence[Part]]
    reads: tuple[Tensor, ...] | None = None
    recording: Recording = field(default_factory=Recording, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(self.partitions))
        names = [p.name for p in self.partitions]
        if not names or len(set(names)) != len(names):
            raise ArgumentError("partitions", names, "give at least one partition, each with its own name")
