"""The fast path against the reference, for every asker there is: the same ledger, and the same answer but for rounding.

What the reference promises of itself is looked at in the end: it measures before it rounds, and pays before it draws.
"""

from __future__ import annotations

import math

import pytest
import torch

from askers import ASKERS, Asked
from dpmac.kernels.chunks import SINGLE_ROOM
from dpmac.privacy import DensePart, Ledger, Partition, PoissonSampler, PrivateRows, reference, release
from dpmac.privacy.noise import Grid
from dpmac.privacy.parts import SLACK
from dpmac.privacy.query import Query
from dpmac.randomness import NoiseSource, SeededNoise

SIGMA, SEED = 0.7, 5


def askable(name: str) -> Asked:
    asked = ASKERS[name]()
    if any(p.scale is None or math.isinf(p.scale) for p in asked.query.partitions):
        pytest.skip("without a bound there is no private release")
    return asked


def both(query: Query, columns: tuple[torch.Tensor, ...], rate: float = 1.0, fast: Query | None = None):
    """What the package and the reference release of the same sample with the same noise, and their ledgers."""
    n = len(columns[0])
    table, books = PrivateRows(*columns), (Ledger(), Ledger())
    sampler = PoissonSampler(n, rate, SeededNoise(SEED, "/sample"))
    batch = table.everything() if rate == 1 else table.sample(sampler)
    places = range(n) if rate == 1 else reference.poisson(n, rate, SeededNoise(SEED, "/sample"))
    how = {"noise_multiplier": SIGMA, "divisor": 3.0}
    quick = release(batch, fast or query, source=SeededNoise(SEED), ledger=books[0], **how)
    rows = [tuple(column[place] for column in columns) for place in range(n)]
    slow = reference.release(rows, places, query, sample_rate=rate, source=SeededNoise(SEED), ledger=books[1], **how)
    return quick, slow, books


def difference(query: Query, quick, slow) -> float:
    """The distance of the two answers in scales."""
    pairs = [(quick[p.name].double() - slow[p.name]) * 3.0 / p.scale for p in query.partitions]
    return math.sqrt(sum(float(d.square().sum()) for d in pairs))


def set_aside(query: Query, rows: int) -> float:
    """What rounding may come to, in scales: half a grid step for each coordinate of each row and of the block, and what
    the bounds leave for sums (once over, for this is one sum and not two neighbours')."""
    size = sum(math.prod(p.shape) for p in query.partitions)
    grid = Grid.of(SIGMA, query.partitions, rows=rows)
    return (rows + 1) / 2 * math.sqrt(size) * grid.step + rows * (SLACK + SINGLE_ROOM * 1e-2)


@pytest.mark.parametrize("name", ASKERS)
def test_the_package_releases_what_the_reference_does(name):
    asked = askable(name)
    quick, slow, (mine, theirs) = both(asked.query, asked.columns)
    assert mine.entries == theirs.entries
    assert list(quick) == list(slow)
    assert difference(asked.query, quick, slow) <= 1e-3


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_a_sample_is_the_reference_s_sample(rate):
    asked = ASKERS["step, bound joint"]()
    quick, slow, (mine, theirs) = both(asked.query, asked.columns, rate)
    (entry,), (other,) = mine.entries, theirs.entries
    assert (entry.mechanism().sample_rate, entry.scales) == (other.mechanism().sample_rate, other.scales)
    assert difference(asked.query, quick, slow) <= 1e-3


# --- the reference by itself ------------------------------------------------------------------------------------------


def one_number() -> Query:
    """A query whose share of a row is that row's only number."""
    return Query("sum", [Partition("sum", (1,), 1.0)], lambda rows: [DensePart(rows)])


def ask_reference(number: float, source: NoiseSource, ledger: Ledger, noise_multiplier: float = SIGMA):
    row = (torch.tensor([number], dtype=torch.float64),)
    how = {"sample_rate": 1.0, "noise_multiplier": noise_multiplier, "source": source, "ledger": ledger}
    return reference.release([row], [0], one_number(), **how)


def test_the_reference_measures_a_share_before_it_rounds_it():
    """A share just above 1 that would lie on the grid below 1 is refused, and nothing is paid."""
    sigmas = (SIGMA + 0.01 * k for k in range(100))
    grids = {sigma: Grid.of(sigma, one_number().partitions) for sigma in sigmas}
    sigma, step = next((s, g.step) for s, g in grids.items() if 0.1 < 1.0 / g.step % 1.0 < 0.3)
    above = 1.0 + 0.1 * step
    assert round(above / step) * step <= 1.0 < above
    ledger = Ledger()
    with pytest.raises(ValueError, match="exceeds its bound"):
        ask_reference(above, SeededNoise(SEED), ledger, sigma)
    assert len(ledger) == 0
    ask_reference(1.0, SeededNoise(SEED), ledger, sigma)
    assert len(ledger) == 1


class Interrupted(SeededNoise):
    """A source from which nothing can be drawn."""

    def steps(self, *_):
        raise KeyboardInterrupt


def test_the_reference_pays_before_it_draws_noise():
    ledger = Ledger()
    with pytest.raises(KeyboardInterrupt):
        ask_reference(0.5, Interrupted(SEED), ledger)
    assert len(ledger) == 1
