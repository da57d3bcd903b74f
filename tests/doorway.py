"""A way through the door for tests: one call that asks, with everything but the question filled in."""

from __future__ import annotations

import torch

from dpmac.privacy import DensePart, Ledger, OuterPart, Partition, PoissonSampler, PrivateRows, Query, release
from dpmac.randomness import SeededNoise, SystemNoise

ROWS = torch.zeros(4, 1, dtype=torch.float64)
ONE = [Partition("a", (1,), 1.0)]


def nothing(partitions):
    """Contributes zero for every row."""

    def zero(rows, shape):
        if len(shape) == 2:
            return OuterPart(*(torch.zeros(rows, d, dtype=torch.float64) for d in shape))
        return DensePart(torch.zeros(rows, *shape, dtype=torch.float64))

    return lambda rows: [zero(len(rows), p.shape) for p in partitions]


def ask(partitions, parts=None, *, sigma=1.0, source=None, ledger=None, rows=ROWS, rate=None, **more):
    """The answer; a ``rate`` samples with a seed."""
    table = rows if isinstance(rows, PrivateRows) else PrivateRows(rows)
    return release(
        table.everything() if rate is None else table.sample(PoissonSampler(table.n, rate, SeededNoise(0))),
        Query("test", partitions, parts or nothing(partitions)),
        noise_multiplier=sigma,
        source=source or SystemNoise(),
        ledger=Ledger() if ledger is None else ledger,
        **more,
    )


def go(*args, **more):
    """What is released, in the order of the partitions."""
    return list(ask(*args, **more).values())


def capacity(batch):
    """Rows there is room for in this process at most: public."""
    return batch.spots_per_place * batch.paddings(0.0)[batch.rank].most


def blocks_of(batch, size, source, wanted=None):
    """The blocks of rows that a release would see, of exactly ``size`` rows, and the weights of their spots."""
    drawn = batch._rows.drawn(batch._places, source)
    spots = max(1, capacity(batch) // batch.spots_per_place) if wanted is None else wanted
    return [batch.take(columns, at) for columns, at in batch._blocks(drawn, spots, size, source)]
