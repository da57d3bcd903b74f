"""The sums of a block as one CUDA graph: recorded once, replayed at every release of the same query.

K1 to K3 hold in a replay as they do in the recorded code: a replay does the same on the same memory. So that the next
replay does not overwrite the sums, :meth:`Recording.sums` hands out copies of them.

On a GPU, a step of a typical network is a hundred small kernels, and launching them from Python takes ten times as long
as running them. A graph launches them all at once. It does exactly what was recorded, on the same memory: the rows in
their table (their spots are copied in before every replay) and the current weights. So we record only queries that
declare what they ``read`` (:class:`~dpmac.privacy.query.Query`); the author thereby promises that every call does the
same. If something that is read has moved to other memory, the query is recorded again. If the promise is broken, a
replay computes the recorded shares from old numbers. They are still one row's each and still measured, so the guarantee
stands and only the result is wrong.

There is nothing random in a graph: spots are drawn before it and noise after it, afresh for every release. The check of
the promise is in the graph, and its result is read before anything is recorded in the ledger.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dpmac.kernels.gathering import Columns

Sums = tuple[list[Tensor], Tensor]  # the sum of every partition, and whether all rows keep the promise
Work = Callable[..., Sums]  # of a table's columns, and of tensors that say which rows are at the spots
_ONE = threading.RLock()  # a replay has one memory for its spots and sums: threads take turns
WARM = 2  # calls before recording: kernels are compiled, and a query used once is never recorded


class Graph:
    """``work`` on ``columns`` as one CUDA graph, for spots given later. A call overwrites the last call's result."""

    def __init__(self, work: Work, columns: Columns, spots: Sequence[Tensor]) -> None:
        self._columns, self._spots = columns, [t.clone() for t in spots]  # kept alive: the graph reads them
        self._graph, outside = torch.cuda.CUDAGraph(), Outside()
        with _no_collection(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"), outside:
            self._sums = work(columns, *self._spots)
        self._read = outside.found  # kept alive as well: nobody else may get this memory as long as there is the graph

    def __call__(self, spots: Sequence[Tensor]) -> Sums:
        for mine, given in zip(self._spots, spots, strict=True):
            mine.copy_(given)
        self._graph.replay()
        return self._sums


class Outside(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, lists the tensors that operations read and that none of them made, one for each storage.

    Whatever a recorded query reads, declared or not, it reads at the same address in every replay. If that memory were
    freed, it could come to hold other numbers, even somebody's; so the graph holds on to it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Tensor] = []
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors((args, kwargs)):
            if tensor.untyped_storage()._cdata not in self._known:
                self._known.add(tensor.untyped_storage()._cdata)
                self.found.append(tensor)
        result = func(*args, **(kwargs or {}))
        self._known.update(tensor.untyped_storage()._cdata for tensor in _tensors(result))
        return result


def _tensors(given: Any) -> list[Tensor]:
    return [value for value in tree_leaves(given) if isinstance(value, Tensor)]


@dataclass
class Recording:
    """The recorded graph of one query. ``kind`` creates a graph (tests use their own)."""

    kind: Callable[[Work, Columns, Sequence[Tensor]], Callable[[Sequence[Tensor]], Sums]] = Graph
    _seen: int = 0
    _of: tuple[object, ...] | None = None
    _made: Callable[[Sequence[Tensor]], Sums] | None = field(default=None, repr=False)
    _refused: bool = False

    def sums(self, work: Work, reads: Sequence[Tensor], columns: Columns, *spots: Tensor) -> Sums:
        """``work(columns, *spots)``, by a replay once it has been recorded; the caller owns the returned memory.

        One thread at a time: another's spots, copied in before this replay, would be summed twice.
        """
        with _ONE:
            return self._sums(work, reads, columns, *spots)

    def _sums(self, work: Work, reads: Sequence[Tensor], columns: Columns, *spots: Tensor) -> Sums:
        about = tuple(map(_memory, (*columns, *reads))), tuple(map(_form, spots))
        if about != self._of:
            self._of, self._seen, self._made = about, 0, None
        if self._refused or self._seen < WARM:
            self._seen += 1
            return work(columns, *spots)
        if self._made is None:
            try:
                self._made = self.kind(work, columns, spots)
            except RuntimeError as error:  # something cannot be recorded: a copy to the CPU, an old driver
                self._refused = True
                warnings.warn(f"steps are not recorded as a CUDA graph, and slower: {error}", stacklevel=2)
                return work(columns, *spots)
        totals, kept = self._made(spots)
        return [total.clone() for total in totals], kept.clone()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage before, and not inside: freeing another graph's memory would invalidate the recording."""
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
    """The address and the layout of a tensor's memory."""
    return tensor.data_ptr(), *_form(tensor)
