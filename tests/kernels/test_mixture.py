"""Rounded Gaussians by a table: the table is below the density, the rest is decided by digits, and the law is exact."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from dpmac.kernels import mixture, rounded
from dpmac.kernels.gaussian import LOW_63
from dpmac.kernels.streams import AESStream

CELLS = 2 * mixture.REACH


@pytest.fixture
def tables():
    return mixture.Tables()


def stream(number=0):
    return AESStream(iter([bytes([number, k]) * 16 for k in range(9)]))


def given(words, *further):
    """A stream of these words, and then of the further ones, over and over."""
    lots = iter([torch.from_numpy(np.asarray(words).reshape(-1))])
    rest = itertools.cycle(further)

    def drawn(count):
        found = next(lots, None)
        return torch.tensor([next(rest) for _ in range(count)]) if found is None else found

    return SimpleNamespace(words=drawn)


def density(x):
    """In units of 2**-13."""
    return 2**13 * mpmath.npdf(x)


# --- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [mixture.FINEST, 48])
def test_no_cell_has_more_than_the_density_anywhere_and_proposals_reach_it_everywhere(bits, tables):
    idle = 0
    for place, (count, cap) in enumerate(zip(tables.counts.tolist(), tables.caps.tolist(), strict=True)):
        ends = [mpmath.mpf(place + i - mixture.REACH) / 128 - mpmath.mpf(2) ** -(bits + 1) for i in (0, 1)]
        values = [density(x) for x in ends]
        highest = density(0) if ends[0] <= 0 <= ends[1] else max(values)
        assert 16 * count <= min(values)
        assert 16 * count + cap >= highest
        idle = max(idle, min(values) - 16 * count, 16 * count + cap - highest)
    assert idle < 17  # they are as large, and as small, as whole numbers can be


def test_every_cell_stands_in_the_table_as_often_as_it_counts(tables):
    stands = np.bincount(tables.cells[: tables.most].long().numpy() + mixture.REACH, minlength=CELLS)
    assert stands.tolist() == tables.counts.tolist()
    assert tables.counts.tolist() == tables.counts[::-1].tolist()
    proposed = np.bincount(tables.proposed, minlength=CELLS)
    assert proposed[:CELLS].tolist() == tables.caps.tolist()
    assert tables.proposed[tables.tail] == CELLS  # beyond all cells
    assert len(tables.cells) == 2**16
    assert len(tables.proposed) == 2**14


def test_whatever_is_beyond_the_cells_has_a_u_below_the_mass_of_its_proposal():
    assert mpmath.exp(-((6 - mpmath.mpf(2) ** -21) ** 2) / 2) < mpmath.mpf(2) ** -mixture.UNIT


# --- the rest -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [20, 41])
def test_digits_accept_the_same_proposals_as_doubles(bits, monkeypatch):
    quick = mixture.Rest(bits, 0, stream())._proposals(600)
    monkeypatch.setattr(mixture, "DOUBT", math.inf)
    slow = mixture.Rest(bits, 0, stream())._proposals(600)
    assert quick.tolist() == slow.tolist()
    assert 350 < len(quick) < 450


@pytest.mark.parametrize("more", [0, -1], ids=["zeros", "ones"])
@pytest.mark.parametrize("off", [-2, -1, 0, 1])
def test_a_height_next_to_the_density_is_decided_by_its_further_digits(more, off, tables):
    """The nearest heights on either side, so that doubles could not know."""
    draw, ends = np.random.default_rng(1), {0: 0, -1: 1}[more]
    with mpmath.workprec(300):
        for place in (300, 766, 767, 900, 1100):
            point = int(draw.integers(2**63))
            x = (place - mixture.REACH + mpmath.mpf(point + ends) / 2**63) / 128 - mpmath.mpf(2) ** -21
            share = (density(x) - 16 * int(tables.counts[place])) / int(tables.caps[place])
            height = int(mpmath.floor(share * 2**63)) + off
            if 0 < share < 1:
                wanted = mpmath.mpf(height + ends) / 2**63 < share
                assert mixture.accepted(place, point, height, 20, given([more], more)) == wanted


@pytest.mark.parametrize(("low", "wanted"), [(0, True), (-1, False)], ids=["zeros", "ones"])
def test_a_height_with_the_density_s_first_127_digits_is_decided_by_digits_beyond_them(low, wanted, tables):
    place = int(np.argmax(tables.caps))
    point = 2**62 + 9
    with mpmath.workprec(500):
        x = (place - mixture.REACH + mpmath.mpf(point) / 2**63) / 128 - mpmath.mpf(2) ** -21
        share = (density(x) - 16 * int(tables.counts[place])) / int(tables.caps[place])
        height, further = divmod(int(mpmath.floor(share * 2**127)), 2**64)
    assert 0 < height < 2**63
    assert tables.caps[place] > 16
    digits = np.array([0, further], dtype=np.uint64).view(np.int64)  # of the point, of the height
    words = iter([digits[:1], digits[1:], np.array([0, 0]), np.array([low, low])])
    drawn = SimpleNamespace(words=lambda count: torch.from_numpy(next(words))[:count])
    assert mixture.accepted(place, point, height, 20, drawn) == wanted
    assert next(words, None) is None


def test_doubles_that_are_near_are_not_trusted(tables):
    """One point at heights around its density: what doubles leave open is decided, by the digits that follow."""
    place, point, bits = 766, 2**62 + 12345, 20  # here doubles are wrong about all heights but the outermost
    entry = int(np.flatnonzero(tables.proposed == place)[0])
    with mpmath.workprec(300):
        x = (place - mixture.REACH + mpmath.mpf(point) / 2**63) / 128 - mpmath.mpf(2) ** -21
        share = (density(x) - 16 * int(tables.counts[place])) / int(tables.caps[place])
        least = int(mpmath.floor(share * 2**63))
    offs = [-(2**40), -3, -2, 2, 3, 2**40]
    words = [[entry] * len(offs), [point] * len(offs), [least + off for off in offs]]
    found = mixture.Rest(bits, 0, given(words, 0))._proposals(len(offs))
    assert len(found) == 3
    assert set(found.tolist()) == {(place - mixture.REACH) * 2**13 + (point >> 50)}


def test_proposals_of_the_tail_are_pairs_of_a_small_u_and_are_kept_beyond_the_cells_alone(tables):
    draw, count, bits = np.random.default_rng(2), 4000, 20
    leads, turns = draw.integers(-(2**63), 2**63 - 1, (2, count))
    leads[::2] = (leads[::2] & LOW_63) >> 6  # half of them far enough out to have such a number
    words = [np.full(count, tables.tail), leads, turns]
    found = mixture.Rest(bits, 0, given(words, 5))._proposals(count)
    u = ((leads & LOW_63) >> 20) * 2.0**-63 + 2.0**-64
    numbers = np.round(2.0**bits * np.sqrt(-2 * np.log(u)) * np.cos(turns * (math.pi / 2**63)))
    assert found.tolist() == numbers[np.abs(numbers + 0.5) > 6 * 2**bits].tolist()
    assert 100 < len(found) < count / 2
    assert found.min() < -6 * 2**bits < 6 * 2**bits < found.max()


def test_the_number_next_to_the_cells_is_the_first_of_the_tail(monkeypatch, tables):
    edge = 6 * 2**20
    for number, kept in ((edge - 1, False), (edge, True), (-edge, False), (-edge - 1, True)):
        monkeypatch.setattr(mixture, "tail", lambda *_, number=number: number)
        found = mixture.Rest(20, 0, given([[tables.tail], [1], [1]]))._proposals(1)
        assert found.tolist() == [number] * kept


def test_an_undecided_tail_is_decided_by_digits():
    assert abs(mixture.tail(2**20 - 1, 0, 20, given([7], 3, 4))) > 9.2 * 2**20  # nothing is known of this lead


def test_the_rest_has_its_law(tables):
    """Per half of a cell: the density without what the table has."""
    sample = mixture.Rest(20, 0, stream(1)).draws(400_000)
    edges = np.arange(-2 * 512, 2 * 512 + 1) / 256 - 2.0**-21  # to 4 deviations
    mass = np.diff(stats.norm.cdf(edges)) - np.repeat(tables.counts[256:-256], 2) * 2.0**-17
    inside, _ = np.histogram(sample * 2.0**-20, edges)
    whole = 1 - tables.most * 2.0**-16
    expected = np.append(mass, whole - mass.sum()) / whole * len(sample)
    assert expected.min() > 5
    assert stats.chisquare(np.append(inside, len(sample) - inside.sum()), expected).pvalue > 1e-6


def test_draws_of_the_rest_are_those_of_one_sequence_made_ahead_and_not_many_more():
    """How many proposals are made is speed and memory: no more than a lot at a time, and half more than draws."""
    total, bits = 400_000, 20
    expected = round(total * 0.01058)
    rest, lots = mixture.Rest(bits, total, stream(4)), []
    proposals = rest._proposals
    rest._proposals = lambda count: (lots.append(count), proposals(count))[1]
    sample = np.concatenate([rest.draws(count) for count in (0, 1, 2, expected - 203, 100, 0, 100)])
    assert np.array_equal(sample, mixture.Rest(bits, total, stream(4)).draws(expected))
    assert len(lots) == 1
    assert 1.5 * expected < lots[0] < 1.6 * expected
    for _ in range(20):
        rest.draws(500)
    assert sum(lots) < 1.6 * (expected + 10_000)
    lots.clear()
    rest.draws(30_000)
    assert max(lots) <= 2**14


# --- the law --------------------------------------------------------------------------------------------------------


def drawn(count, bits, number=0):
    return torch.cat([lot.clone() for lot in mixture.steps([count], bits, stream(number))]).numpy()


@pytest.mark.parametrize("bits", [20, 30, 38, 39, 48])
def test_draws_have_the_law_and_even_low_bits(bits):
    sample = drawn(400_001, bits, bits)
    assert len(sample) == 400_001
    assert np.array_equal(sample, np.round(sample))
    assert stats.kstest(sample * 2.0**-bits, "norm").pvalue > 1e-6
    edges = np.concatenate([[-np.inf], np.arange(-420, 421) / 128 - 2.0 ** -(bits + 1), [np.inf]])
    counts, _ = np.histogram(sample * 2.0**-bits, edges)
    assert stats.chisquare(counts, np.diff(stats.norm.cdf(edges)) * len(sample)).pvalue > 1e-6
    inside = np.floor(np.mod(sample * 2.0 ** (7 - bits), 1) * 64).astype(int)  # where in its cell
    assert stats.chisquare(np.bincount(inside, minlength=64)).pvalue > 1e-6
    assert stats.chisquare(np.bincount(np.mod(sample, 64).astype(int), minlength=64)).pvalue > 1e-6


@pytest.mark.parametrize("low", [0, -1], ids=["zeros", "ones"])
@pytest.mark.parametrize(("bits", "each"), [(20, 4), (38, 4), (39, 8), (48, 8)])
def test_every_entry_of_16_bits_gives_its_cell_or_a_draw_of_the_rest(bits, each, low, tables):
    """All entries once, with the lowest and with the highest number of their cells, by no more words than it takes."""
    entries = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    words = iter([entries.view(torch.int64), torch.full((2**13 * each,), low)])
    asked, beyond = [], 2.0**60
    drawn = SimpleNamespace(words=lambda count: (asked.append(count), next(words))[1])
    rest = SimpleNamespace(draws=lambda count: np.full(count, beyond))
    out, per_cell = torch.empty(2**16, dtype=torch.float64), 2 ** (bits - 7)
    mixture.fill(out, torch.empty_like(out), bits, rest, drawn)
    assert asked == [2**14, 2**13 * each]
    assert (out == beyond).sum() == 2**16 - tables.most
    cells = (out[out != beyond] + (low & (1 - per_cell))) / per_cell
    stands = np.repeat(np.arange(-mixture.REACH, mixture.REACH), tables.counts)
    assert cells.tolist() == stands.tolist()


def test_many_draws_on_the_coarsest_grid_of_a_release_are_by_the_table():
    assert not np.array_equal(drawn(mixture.MANY, 20), next(rounded.steps([mixture.MANY], 20, stream())).numpy())


def test_neighbours_are_independent():
    sample = drawn(400_000, 20, 3) * 2.0**-20
    for far in (1, 2, 4, 1 << 15):
        for power in (1, 2):
            one, other = sample[:-far] ** power, sample[far:] ** power
            assert abs(np.corrcoef(one, other)[0, 1]) < 6 * power / math.sqrt(len(one))


def test_lots_of_any_size_follow_each_other(monkeypatch):
    sizes = [0, 1, 2, 3, 70_001, 5, 40_000]
    lots = [lot.clone() for lot in mixture.steps(sizes, 20, stream(5))]
    assert [len(lot) for lot in lots] == sizes
    together = torch.cat(lots)
    assert len(together.unique()) > 0.9 * len(together)
    assert stats.kstest(together.numpy() * 2.0**-20, "norm").pvalue > 1e-6
    monkeypatch.setattr(mixture, "MANY", 1)  # a lot of few draws has few of the rest, or none
    assert [len(lot) for lot in mixture.steps([3, 1, 0, 7], 20, stream(6))] == [3, 1, 0, 7]


@pytest.mark.parametrize(("count", "bits"), [(mixture.MANY, 19), (mixture.MANY - 1, 20), (0, 20)])
def test_few_draws_and_coarse_ones_are_transformed(count, bits):
    assert np.array_equal(drawn(count, bits), next(rounded.steps([count], bits, stream())).numpy())
    assert list(mixture.steps([], bits, stream())) == []
