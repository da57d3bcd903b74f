"""The package against the reference, for every asker there is: the same ledger, and the same answer but for rounding.

A change to either is noticed: the tests at the end break one of them and look.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from askers import ASKERS, Asked
from dpmac.checks import ArgumentError
from dpmac.kernels.dense import DensePart
from dpmac.privacy import Ledger, Partition, PoissonSampler, PrivateRows, Query, gaussian_release, reference, release
from dpmac.privacy.noise import Grid
from dpmac.randomness import SeededNoise

SIGMA, SEED, ROWS, DIVISOR = 0.7, 5, 24, 3.0
U = 2.0**-24  # of single precision


def askable(name: str) -> Asked:
    asked = ASKERS[name]()
    if any(p.scale is None or math.isinf(p.scale) for p in asked.query.partitions):
        pytest.skip("without a bound there is no private release")
    return Asked(asked.query, tuple(column[:ROWS] for column in asked.columns))


def both(asked: Asked, rate: float = 1.0):
    """What the package and the reference release of the same sample with the same noise, and their ledgers."""
    table, books = PrivateRows(*asked.columns), (Ledger(), Ledger())
    sampler, coins = (SeededNoise(SEED, "/sample") for _ in range(2))
    batch = table.everything() if rate == 1 else table.sample(PoissonSampler(ROWS, rate, sampler))
    places = range(ROWS) if rate == 1 else reference.poisson(ROWS, rate, coins)
    how = {"noise_multiplier": SIGMA, "divisor": DIVISOR}
    quick = release(batch, asked.query, source=SeededNoise(SEED), ledger=books[0], **how)
    rows = [tuple(column[place] for column in asked.columns) for place in range(ROWS)]
    slow = reference.release(
        rows, places, asked.query, sample_rate=rate, source=SeededNoise(SEED), ledger=books[1], **how
    )
    return quick, slow, books


def difference(asked: Asked, quick, slow) -> float:
    """The distance of the two answers, in scales."""
    pairs = [(quick[p.name].double() - slow[p.name]) * DIVISOR / p.scale for p in asked.query.partitions]
    return math.sqrt(sum(float(d.square().sum()) for d in pairs))


def set_aside(asked: Asked) -> float:
    """What rounding may come to, in scales: half a step in each coordinate for each row's rounding in the reference and
    for that of the block; and what products of so many rows in single precision are off by (kernels/chunks.py)."""
    size = sum(math.prod(p.shape) for p in asked.query.partitions)
    step = Grid.of(SIGMA, asked.query.partitions, rows=ROWS).step
    return (ROWS + 1) / 2 * math.sqrt(size) * step + (ROWS + 4) ** 2 * U


@pytest.mark.parametrize("name", ASKERS)
def test_the_package_releases_what_the_reference_does(name):
    asked = askable(name)
    quick, slow, (mine, theirs) = both(asked)
    assert mine.entries == theirs.entries
    assert list(quick) == list(slow)
    assert difference(asked, quick, slow) <= set_aside(asked)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_a_sample_is_the_one_that_the_reference_draws(rate):
    asked = askable("step, bound joint")
    quick, slow, books = both(asked, rate)
    (entry,), (other,) = (book.entries for book in books)
    assert (entry.noise_multiplier, entry.sample_rate, entry.scales) == (
        other.noise_multiplier,
        other.sample_rate,
        other.scales,
    )
    assert difference(asked, quick, slow) <= set_aside(asked)


def test_a_blank_place_gives_nothing():
    query = Query("sum", (Partition("s", (1,), 1.0),), lambda x: [DensePart(x)])
    how = {"sample_rate": 1.0, "noise_multiplier": SIGMA, "source": SeededNoise(1), "ledger": Ledger()}
    one = torch.tensor([0.5], dtype=torch.float64)
    alone = reference.release([(one,)], [0], query, **how)["s"]
    how["source"] = SeededNoise(1)
    beside = reference.release([(one,), None], [0, 1], query, **how)["s"]
    assert torch.allclose(alone, beside, atol=1e-9)


def test_the_reference_refuses_a_share_that_is_too_long_and_records_nothing():
    query, ledger = Query("sum", (Partition("s", (2,), 1.0),), lambda x: [DensePart(x)]), Ledger()
    row = (torch.tensor([0.8, 0.7], dtype=torch.float64),)
    with pytest.raises(ValueError, match="exceeds its bound"):
        reference.release(
            [row], [0], query, sample_rate=1.0, noise_multiplier=1.0, source=SeededNoise(1), ledger=ledger
        )
    assert len(ledger) == 0


@pytest.mark.parametrize("scale", [None, 0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("sample", [[], [0]])
def test_the_reference_refuses_a_scale_that_bounds_nothing_and_records_nothing(scale, sample):
    query, ledger = Query("sum", (Partition("s", (2,), scale),), lambda x: [DensePart(x)]), Ledger()
    row = (torch.zeros(2, dtype=torch.float64),)
    with pytest.raises(ArgumentError, match="scale of partition 's'"):
        reference.release(
            [row], sample, query, sample_rate=1.0, noise_multiplier=1.0, source=SeededNoise(1), ledger=ledger
        )
    assert len(ledger) == 0


def test_the_reference_measures_a_share_before_it_rounds_it():
    """A share just above 1 that the grid would round to just below 1 is refused."""
    query = Query("sum", (Partition("s", (1,), 1.0),), lambda x: [DensePart(x)])
    grids = (Grid.of(SIGMA + 0.01 * k, query.partitions) for k in range(100))
    grid = next(grid for grid in grids if 0.1 < 1.0 / grid.step % 1.0 < 0.3)
    above = 1.0 + 0.1 * grid.step
    assert round(above / grid.step) * grid.step <= 1.0 < above
    with pytest.raises(ValueError, match="exceeds its bound"):
        reference.whole_steps(query, (torch.tensor([above], dtype=torch.float64),), grid)
    assert len(reference.whole_steps(query, (torch.tensor([1.0], dtype=torch.float64),), grid)) == 1


def test_the_reference_records_before_it_draws():
    class Dead(SeededNoise):
        def steps(self, *_):
            raise OSError("the machine died")

    query, ledger = Query("sum", (Partition("s", (1,), 1.0),), lambda x: [DensePart(x)]), Ledger()
    with pytest.raises(OSError, match="died"):
        reference.release([None], [0], query, sample_rate=1.0, noise_multiplier=1.0, source=Dead(1), ledger=ledger)
    assert len(ledger) == 1


def less(true):
    return lambda asked, source: ([0.999 * total for total in true(asked, source)[0]], False)


def halved(true):
    return lambda sums, *more: true([total / 2 for total in sums], *more)


BROKEN = {
    "the package's sums are smaller": (gaussian_release.ReleaseRequest, "sums", less),
    "the package halves its sums": (gaussian_release, "perturbed", halved),
    "the reference rounds to another grid": (
        reference,
        "whole_steps",
        lambda true: lambda *given: [2 * (k // 2) + 1000 for k in true(*given)],
    ),
    "the reference samples twice as often": (
        reference,
        "poisson",
        lambda true: lambda n, rate, source: true(n, min(1.0, 2 * rate), source),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_change_to_either_is_noticed(what, monkeypatch):
    home, name, wrong = BROKEN[what]
    asked = askable("step, bound joint")
    monkeypatch.setattr(home, name, wrong(getattr(home, name)))
    quick, slow, _ = both(asked, 0.4)
    assert difference(asked, quick, slow) > set_aside(asked)


class Silent(SeededNoise):
    """No noise, and a note of how fine its steps were to be."""

    def steps(self, sizes, bits, device="cpu"):
        self.bits = bits
        return iter([torch.zeros(size, dtype=torch.float64) for size in sizes])


def summed(table, sample, sigma=1.0, source=None, parts=lambda x: [DensePart(x)], ledger=None):
    query = Query("sum", (Partition("s", (2,), 1.0),), parts)
    how = {"sample_rate": 1.0, "noise_multiplier": sigma, "ledger": Ledger() if ledger is None else ledger}
    return reference.release(table, sample, query, source=source or Silent(0), **how)["s"]


def test_without_its_noise_the_reference_sums_what_the_sample_holds():
    row = (torch.tensor([0.5, -0.25], dtype=torch.float64),)
    assert summed([row], []).tolist() == [0.0, 0.0]
    assert torch.allclose(summed([row, row, None], [0, 1, 2]), torch.tensor([1.0, -0.5]).double(), atol=1e-5)


def test_the_reference_s_grid_has_room_for_all_rows_of_the_table():
    few, many = Silent(0), Silent(0)
    summed(range(1), [], 0.01, few)
    summed(range(2**30), [], 0.01, many)
    assert many.bits < few.bits
    assert 2.0**many.bits / 0.01 * 2**30 < 2.0**52


def test_the_reference_draws_a_place_at_exactly_its_rate():
    """Uniforms are the multiples of 2**-53 below 1: a share of exactly the rate lies below it."""
    eighths = SimpleNamespace(uniform=lambda n: torch.arange(n, dtype=torch.float64) / n)
    assert [len(reference.poisson(8, k / 8, eighths)) for k in range(9)] == list(range(9))


@pytest.mark.parametrize(
    "parts",
    [
        lambda x: [DensePart(x), DensePart(x)],
        lambda x: [],
        lambda x: [DensePart(x[:, :1])],
        lambda x: [DensePart(x.repeat(1, 2))],
    ],
    ids=["two parts for one", "none", "too few numbers", "too many"],
)
def test_the_reference_refuses_parts_that_were_not_promised_and_records_nothing(parts):
    ledger = Ledger()
    with pytest.raises(ValueError, match="zip"):
        summed([(torch.zeros(2, dtype=torch.float64),)], [0], parts=parts, ledger=ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize("size", [1, 3])
def test_the_reference_adds_one_draw_to_every_number(size):
    source = SimpleNamespace(seeded=True, steps=lambda sizes, bits: [torch.zeros(size)])
    with pytest.raises(ValueError, match="zip"):
        summed([None], [], source=source)
