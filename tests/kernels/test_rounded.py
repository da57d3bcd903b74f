"""Rounded Gaussians: the error bound holds, open roundings are decided, and the law is that of exact probabilities."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from test_exact import corners

from dpmac.kernels import rounded
from dpmac.kernels.gaussian import LOW_63, box_muller
from dpmac.kernels.streams import AESStream

EDGES = [0, 1, 2, -1, -(2**63), 2**63 - 1, 2**63 - 2, 2**63 - 1024, 2**62, 2**62 - 1, 2**61, -(2**62), 2**53 + 1, 2**40]


def drawn(count, bits, key=None):
    stream = AESStream() if key is None else AESStream(iter([key] * 9))
    return torch.cat([lot.clone() for lot in rounded.steps([count], bits, stream)])


def exactly(words, bits):
    """What ``words`` (2, m) round to."""
    out, spare = (torch.empty(rows, words.shape[1], dtype=torch.float64) for rows in (2, 3))
    rounded.rounded(words.clone(), out, spare, bits, AESStream())
    return out


@pytest.fixture
def all_open(monkeypatch):
    """No double is trusted: every draw is decided by its digits."""
    monkeypatch.setattr(rounded, "OF_RADIUS", 1e9)


# --- the bound ------------------------------------------------------------------------------------------------------


def some_words(count):
    """Random words, leads of every length from either end, and directions near all multiples of a right angle."""
    draw = np.random.default_rng(3)
    words = torch.from_numpy(draw.integers(-(2**63), 2**63 - 1, (2, count), endpoint=True))
    shifts = torch.arange(count // 4) % 63
    words[0, : count // 4] = (words[0, : count // 4] & LOW_63) >> shifts
    words[0, count // 4 : count // 2] = LOW_63 - ((words[0, count // 4 : count // 2] & LOW_63) >> shifts)
    quarters = (torch.arange(count // 2) % 4 - 2) * 2**62
    words[1, ::2] = quarters + (words[1, ::2] >> (2 + torch.arange(count // 2) % 61))
    return words


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs long doubles that are longer than doubles")
def test_the_bound_holds_against_long_doubles_with_all_further_digits_0_or_1():
    words = some_words(200_000)
    radii, x = torch.empty(words.shape[1], dtype=torch.float64), torch.empty(words.shape, dtype=torch.float64)
    box_muller(words, radii, x)
    assert float((words[0] == 0).double().mean()) < 0.01  # of these nothing is known
    lead, turn = words[:, words[0] > 0].numpy()
    radii, x = radii[words[0] > 0].abs().numpy(), x[:, words[0] > 0].numpy()
    u = lead * 2.0**-63 + 2.0**-64
    bound = np.array([rounded.error(*pair) for pair in zip(radii.tolist(), u.tolist(), strict=True)])
    worst = np.zeros(len(lead))
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        upper, angle = lead.astype(np.longdouble) + i, PI * (turn.astype(np.longdouble) + j) / LONG**63
        short = 1 - upper / LONG**63  # exact: 64 bits hold it
        radius = np.sqrt(-2 * np.where(short < 0.5, np.log1p(-np.minimum(short, 0.5)), np.log(upper) - 63 * LOG2))
        for ratio, found in ((np.cos(angle), x[0]), (np.sin(angle), x[1])):
            worst = np.maximum(worst, np.abs(radius * ratio - found).astype(float))
    share = (worst / bound)[bound < math.inf]
    assert len(share) > 0.9 * len(worst)
    assert 0.1 < share.max() < 1  # it is not idle either


LONG = np.longdouble(2)
LOG2 = np.longdouble("0.693147180559945309417232121458176568")
PI = np.longdouble("3.14159265358979323846264338327950288")


def test_the_bound_holds_against_mpmath_at_the_edges():
    words = torch.cartesian_prod(torch.tensor(EDGES), torch.tensor(EDGES)).T.contiguous()
    radii, x = torch.empty(words.shape[1], dtype=torch.float64), torch.empty(words.shape, dtype=torch.float64)
    box_muller(words, radii, x)
    assert x.isfinite().all()
    with mpmath.workprec(200):
        for (lead, turn), radius, found in zip(words.T.tolist(), radii.abs().tolist(), x.T.tolist(), strict=True):
            bound = rounded.error(radius, lead * 2.0**-63 + 2.0**-64)
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
                if bound < math.inf:
                    r = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(lead + i) / 2**63))
                    angle = mpmath.mpf(turn + j) / 2**63
                    assert abs(r * mpmath.cospi(angle) - found[0]) <= bound
                    assert abs(r * mpmath.sinpi(angle) - found[1]) <= bound


def test_the_bound_of_many_is_that_of_the_worst():
    draw = np.random.default_rng(0)
    for _ in range(300):
        radii = np.sort(np.exp(draw.uniform(-18, math.log(8), 6)))
        largest = rounded.largest_error(radii[0], radii[-1])
        assert all(rounded.error(r, math.exp(-(r**2) / 2)) <= largest for r in radii)
        assert largest < 1e3 * max(rounded.error(r, math.exp(-(r**2) / 2)) for r in radii)
    for shortest, longest in ((0.0, 1.0), (-0.0, 1.0), (math.nan, 1.0), (0.1, math.nan), (0.1, 8.5), (0.1, math.inf)):
        assert rounded.largest_error(shortest, longest) == math.inf


# --- open roundings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 7, 20, 30])
def test_digits_give_the_same_numbers_as_doubles_wherever_these_decide(bits, all_open, monkeypatch):
    key, count = bytes(range(bits, bits + 32)), 1501
    slow = drawn(count, bits, key)
    monkeypatch.undo()
    assert torch.equal(slow, drawn(count, bits, key))


@pytest.mark.parametrize("off", [-0.7, 0.0, 0.7])
@pytest.mark.parametrize(("bits", "odd"), [(45, False), (35, True)], ids=["usual words", "odd words"])
def test_where_many_are_open_no_number_is_one_that_its_words_rule_out(bits, odd, off, monkeypatch):
    """Doubles that are off by most of what the bound allows them change nothing, and rounding them is often wrong."""
    count = 200
    stream = AESStream(iter([bytes(range(32))]))  # always the same words: chance could leave none wrong
    words = (some_words(40 * count)[:, ::40] if odd else stream.words(2 * count).view(2, count)).clone()
    words[0] &= LOW_63
    made = []

    def shifted(words, radii, pairs, scale):
        box_muller(words, radii, pairs, scale)
        u = words[0].double() * 2.0**-63 + 2.0**-64
        bound = torch.tensor(
            [rounded.error(*pair) for pair in zip((radii.abs() / scale).tolist(), u.tolist(), strict=True)]
        )
        pairs.add_(off * scale * bound.nan_to_num(0.0, 0.0))
        made.append(pairs.clone())

    monkeypatch.setattr(rounded, "box_muller", shifted)
    found, wrong = exactly(words, bits), 0
    with mpmath.workprec(250):
        for column, (lead, turn) in enumerate(words.T.tolist()):
            for row, allowed in enumerate(corners(lead, turn, 63, bits) if lead else ()):
                assert min(allowed) <= int(found[row, column]) <= max(allowed)
                wrong += round(float(made[0][row, column])) not in allowed
    assert wrong > 0


def test_edges_are_decided_too():
    words = torch.cartesian_prod(torch.tensor(EDGES), torch.tensor(EDGES)).T.contiguous()
    found = exactly(words, 20)
    assert found.isfinite().all()
    with mpmath.workprec(250):
        for column, (lead, turn) in enumerate(words.T.tolist()):
            lead &= LOW_63
            if lead:  # 0 says nothing but that the radius is above 9.3
                for row, allowed in enumerate(corners(lead, turn, 63, 20)):
                    assert min(allowed) <= int(found[row, column]) <= max(allowed)
    assert float(torch.hypot(*found)[(words[0] & LOW_63) == 0].min()) > 9.3 * 2**20


def test_a_draw_that_is_no_number_is_decided(monkeypatch):
    words = AESStream().words(20).view(2, 10).clone()
    right = exactly(words, 20)

    def broken(words, radii, pairs, scale):
        box_muller(words, radii, pairs, scale)
        pairs[0, 3] = math.nan
        radii[5] = math.inf

    monkeypatch.setattr(rounded, "box_muller", broken)
    assert torch.equal(exactly(words, 20), right)


# --- the law --------------------------------------------------------------------------------------------------------


def cells(bits, reach):
    """Probabilities of -reach .. reach, the ends with all that is beyond."""
    edges = (np.arange(-reach, reach) + 0.5) * 2.0**-bits
    return np.diff(np.concatenate([[0.0], stats.norm.cdf(edges), [1.0]]))


def agrees(sample, bits, reach):
    counts = np.bincount(sample.clamp(-reach, reach).long().numpy() + reach, minlength=2 * reach + 1)
    return stats.chisquare(counts, cells(bits, reach) * len(sample)).pvalue > 1e-7


@pytest.mark.parametrize(("bits", "reach"), [(0, 4), (2, 15), (6, 220)])
def test_cells_have_their_exact_probabilities(bits, reach):
    sample = drawn(1_000_001, bits)
    assert torch.equal(sample, sample.round())
    assert agrees(sample, bits, reach)
    assert not agrees(sample + (sample == 1).double(), bits, reach)


@pytest.mark.parametrize(("bits", "reach"), [(0, 3), (3, 18)])
def test_cells_have_their_exact_probabilities_when_digits_decide_all(bits, reach, all_open):
    assert agrees(drawn(5000, bits), bits, reach)


def test_fine_draws_have_the_law_and_even_low_bits():
    sample = drawn(1_000_001, 26)
    assert stats.kstest(sample.numpy() * 2.0**-26, "norm").pvalue > 1e-7
    assert stats.chisquare(np.bincount(sample.remainder(64).long().numpy(), minlength=64)).pvalue > 1e-7
    one, other = sample[:1_000_000].view(-1, 2).T * 2.0**-26
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 6 / math.sqrt(500_000)
    assert abs(float(torch.corrcoef(torch.stack([one**2, other**2]))[0, 1])) < 8 / math.sqrt(500_000)


@pytest.mark.usefixtures("repeatable_noise")
def test_lots_of_any_size_follow_each_other():
    sizes = [0, 1, 2, 3, 70_001, 5, 140_000]
    lots = [lot.clone() for lot in rounded.steps(sizes, 20, AESStream())]
    assert [len(lot) for lot in lots] == sizes
    together = torch.cat(lots)
    assert len(together.unique()) > 0.9 * len(together)
    assert stats.kstest(together.numpy() * 2.0**-20, "norm").pvalue > 1e-7
    assert list(rounded.steps([], 20, AESStream())) == []


def test_a_few_draws_are_none_that_their_words_rule_out():
    """They are made one by one. At 48 bits doubles often round to another whole number than the words allow."""
    wrong = 0
    with mpmath.workprec(250):
        for k in range(100):
            key = k.to_bytes(32, "big")
            lead, turn = AESStream(iter([key])).words(2).tolist()
            (found,) = rounded.steps([2], 48, AESStream(iter([key, key])))
            u, angle = (lead & LOW_63) * 2.0**-63 + 2.0**-64, turn * (math.pi * 2.0**-63)
            radius = 2.0**48 * math.sqrt(-2.0 * math.log(u))
            plain = radius * math.cos(angle), radius * math.sin(angle)
            for number, guess, allowed in zip(found.tolist(), plain, corners(lead & LOW_63, turn, 63, 48), strict=True):
                assert min(allowed) <= int(number) <= max(allowed)
                wrong += not min(allowed) <= round(guess) <= max(allowed)
    assert wrong > 0
