"""The samples of a training, one after the other; the next one is drawn in the background where that saves time."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dpmac.privacy import PoissonSampler, PrivateRows
from dpmac.privacy.sampling import Batch
from dpmac.randomness import SeededNoise


class Samples:
    """Fresh Poisson samples of ``table``, each returned once.

    While the previous sample is processed, rows of a store are drawn and fetched in the background, and the sample of a
    table on a GPU is drawn, for which the CPU has time then. The draws are the same as without prefetching, in the same
    order. The state of a seeded sampler is that before the first sample that
    was not returned yet, so a checkpoint contains nothing of what was only prefetched.
    """

    def __init__(self, table: PrivateRows, sampler: PoissonSampler) -> None:
        self._table, self._sampler = table, sampler
        self._pool: ThreadPoolExecutor | None = None
        if table.stored or table.device.type == "cuda":
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="dpmac-samples")
        self._coming: Future[Batch] | None = None
        self._state: list[dict[str, Any]] = []  # of the sampler, before it drew the prefetched sample

    def take(self, more: bool) -> Batch:
        """The next sample; ``more`` says whether another one will be needed."""
        batch = self._table.sample(self._sampler) if self._coming is None else self._coming.result()
        self._coming = None
        if more and self._pool is not None:
            self._state = self._drawn()
            self._coming = self._pool.submit(self._table.sample, self._sampler)
        return batch

    def state(self) -> list[dict[str, Any]]:
        """The state of a seeded sampler in a list of one; an empty list otherwise."""
        if self._coming is None:
            return self._drawn()
        return self._state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from where :meth:`state` was taken; only before the first sample."""
        source = self._sampler.source
        assert isinstance(source, SeededNoise)
        assert self._coming is None
        source.restore(state)

    def close(self) -> None:
        """Discard what was prefetched."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _drawn(self) -> list[dict[str, Any]]:
        source = self._sampler.source
        if not isinstance(source, SeededNoise):
            return []
        return [source.state()]
