"""A query: what is asked of the rows, as one object. A training step, DP-PCA and a histogram differ only in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.recording import Recording
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part

Answer = Mapping[str, Tensor]
"""The noisy sum of every partition under its name. Whoever asked picks out what is its own."""


@dataclass(frozen=True)
class Query:
    """``parts(*columns)`` gets a block of rows and gives their bounded parts, one for each partition, row by row.

    The guarantee rests on two things that the asker promises and that contract tests hold every asker to: row n of each
    part depends on row n alone (and on public numbers), and the parts of a row together keep the promise that the
    partitions' scales state (:mod:`dpmac.bounds.clipping`). The second is checked again on every row by
    :func:`~dpmac.privacy.gaussian_release.release`. ``label`` is what the ledger and the statement will call the
    release.

    All code that runs inside ``parts`` is private code: it sees rows. Tests find it by watching, not from a list.

    ``reads`` are the tensors that ``parts`` reads besides rows, and that may change in place between calls (weights),
    if it does the same whenever it is called: no other number that Python could change in between goes in. None where
    that is not known. Such a query, asked again and again, is recorded as a CUDA graph on a GPU
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
