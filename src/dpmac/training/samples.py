"""The samples of a training, one after the other; of rows that are not in memory the next one is read ahead."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dpmac.privacy import PoissonSampler, PrivateRows
from dpmac.privacy.sampling import Batch
from dpmac.randomness import SeededNoise


class Samples:
    """Fresh Poisson samples of ``table``, each handed out once.

    Rows of a store are drawn and fetched in the background while the sample before them is at work: the draws are those
    that would have been made later, in the same order. A seeded sampler's state is that of the first sample which was
    not handed out yet, so a checkpoint knows nothing of what was only read ahead.
    """

    def __init__(self, table: PrivateRows, sampler: PoissonSampler) -> None:
        self._table, self._sampler = table, sampler
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="dpmac-samples") if table.stored else None
        self._coming: Future[Batch] | None = None
        self._state: list[dict[str, Any]] = []  # of the sampler, before it drew what is coming

    def take(self, more: bool) -> Batch:
        """The next sample; ``more`` will be asked for."""
        batch = self._table.sample(self._sampler) if self._coming is None else self._coming.result()
        self._coming = None
        if more and self._pool is not None:
            self._state = self._drawn()
            self._coming = self._pool.submit(self._table.sample, self._sampler)
        return batch

    def state(self) -> list[dict[str, Any]]:
        """How far a seeded sampler's draws have come, in a list of one; nothing of another's."""
        return self._drawn() if self._coming is None else self._state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state` was taken; before the first sample is."""
        source = self._sampler.source
        assert isinstance(source, SeededNoise)
        assert self._coming is None
        source.restore(state)

    def close(self) -> None:
        """Forget what was read ahead."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _drawn(self) -> list[dict[str, Any]]:
        source = self._sampler.source
        return [source.state()] if isinstance(source, SeededNoise) else []
