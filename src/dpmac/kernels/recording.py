"""A block's sums as one CUDA graph: recorded once, replayed at every release that asks the same.

K1 to K3 hold in a replay as they do in the code that was recorded: it does the same on the same memory.

On a GPU a step of a usual network is a hundred small kernels, and launching them from Python takes ten times as long as
they run. A graph launches them all at once. It does exactly what was recorded, on the same memory: the rows' numbers in
their table (their spots are copied in before every replay) and the weights as they then are. So only a query that says
what it ``reads`` is recorded (:class:`~dpmac.privacy.query.Query`): its code does the same whenever it is called. If
what it reads has moved to other memory, it is recorded anew.

Nothing random is in a graph: spots are drawn before it and noise after it, afresh at every release. The check of the
promise is in it, and what it found is read before anything is charged.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpmac.kernels.gathering import Columns

Sums = tuple[list[Tensor], Tensor]  # of every partition, and whether all rows keep the promise
Work = Callable[..., Sums]  # of a table's columns, and of one or more tensors that say what of them stands at the spots
WARM = 2  # times that a block is computed plainly first: kernels are made ready, and a query that is used once stays so


class Graph:
    """``work`` on ``columns`` for spots given later, as one CUDA graph. What a call gives, the next overwrites."""

    def __init__(self, work: Work, columns: Columns, spots: Sequence[Tensor]) -> None:
        self._columns, self._spots = columns, [t.clone() for t in spots]  # columns are kept: it reads their memory
        self._graph = torch.cuda.CUDAGraph()
        with _no_collection(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._sums = work(columns, *self._spots)

    def __call__(self, spots: Sequence[Tensor]) -> Sums:
        for mine, given in zip(self._spots, spots, strict=True):
            mine.copy_(given)
        self._graph.replay()
        return self._sums


@dataclass
class Recording:
    """What of one query was recorded. ``kind`` makes a graph (tests give their own)."""

    kind: Callable[[Work, Columns, Sequence[Tensor]], Callable[[Sequence[Tensor]], Sums]] = Graph
    _seen: int = 0
    _of: tuple[object, ...] | None = None
    _made: Callable[[Sequence[Tensor]], Sums] | None = field(default=None, repr=False)
    _refused: bool = False

    def sums(self, work: Work, reads: Sequence[Tensor], columns: Columns, *spots: Tensor) -> Sums:
        """``work(columns, *spots)``, by replay once it has been recorded; in memory that is the caller's own."""
        about = tuple(map(_memory, (*columns, *reads))), tuple(map(_form, spots))
        if about != self._of:
            self._of, self._seen, self._made = about, 0, None
        if self._refused or self._seen < WARM:
            self._seen += 1
            return work(columns, *spots)
        if self._made is None:
            try:
                self._made = self.kind(work, columns, spots)
            except RuntimeError as error:  # something that cannot be recorded: a copy to the CPU, an old driver
                self._refused = True
                warnings.warn(f"steps are not recorded as a CUDA graph, and slower: {error}", stacklevel=2)
                return work(columns, *spots)
        totals, kept = self._made(spots)
        return [total.clone() for total in totals], kept.clone()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage is collected before, and not inside: freeing another graph's memory would spoil a recording."""
    before = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _form(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _memory(tensor: Tensor) -> tuple[object, ...]:
    """Where a tensor's numbers lie, and how."""
    return tensor.data_ptr(), *_form(tensor)
