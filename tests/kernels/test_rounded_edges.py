"""Rounded Gaussians at the edges of their proof: its constants, draws next to a half, and how seldom digits decide."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
import torch

from dpmac.kernels import rounded
from dpmac.kernels.gaussian import LOW_63, box_muller
from dpmac.kernels.streams import AESStream

V = Fraction(1, 2**53)
KEY = bytes(range(32))
LEADS = [1, 2, 3, 5, 1000, *(2**k + j for k in range(11, 63, 3) for j in (-1, 0, 1))]
LEADS += [2**63 - 1024 * k for k in (1, 2, 3, 10, 10**4, 10**9, 10**14)]


@pytest.mark.parametrize("lead", LEADS)
def test_the_bound_is_what_the_errors_of_all_operations_add_up_to(lead):
    """Four units in the last place for log, cosine and sine, one for the root, and the rest as the proof has it."""
    double = lead * 2.0**-63 + 2.0**-64
    radius = math.sqrt(-2.0 * math.log(double))
    u, r = Fraction(double), Fraction(radius)
    digits = Fraction(1, 2**64)
    square = 4 * V + 4 * digits / (u - digits)
    if u > Fraction(1, 2):
        square = 2 * (V / 2 + 2 * digits) / u
    log, root, angle, ratio, product = 8 * V * r, 2 * V * r, 10 * V * r, 8 * V * r, V * r
    needed = square / r + log + root + angle + ratio + product
    assert Fraction(rounded.error(radius, double)) >= needed * (1 - 2 * V)
    if radius < 8.0:
        assert rounded.largest_error(radius, radius) >= float(needed)


def exactly(words, bits=20):
    out, spare = (torch.empty(rows, words.shape[1], dtype=torch.float64) for rows in (2, 3))
    rounded.rounded(words.clone(), out, spare, bits, AESStream())
    return out


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("near", [7.5 - 1e-9, 7.5 + 1e-9], ids=["below a half", "above it"])
def test_one_product_within_the_bound_of_a_half_is_looked_at_again(near, row, monkeypatch):
    """The only one of its lot, and on one side only: doubles may have rounded it the wrong way."""
    words = AESStream(iter([KEY])).words(20).view(2, 10).clone()
    right = exactly(words)

    def close(words, radii, pairs, scale):
        box_muller(words, radii, pairs, scale)
        pairs[row, 3] = near

    monkeypatch.setattr(rounded, "box_muller", close)
    assert torch.equal(exactly(words), right)


def test_one_tiny_radius_makes_the_bound_of_its_lot_larger():
    """At a radius of 1.5e-8 the last bit of u counts for 48 steps out of 2**32."""
    words = AESStream(iter([KEY])).words(2 * 50).view(2, 50).clone()
    words[:, 7] = torch.tensor([2**63 - 1024, 2**61])
    seen = []

    class Listening(AESStream):
        def words(self, count):
            seen.append(count)
            return super().words(count)

    out, spare = (torch.empty(rows, 50, dtype=torch.float64) for rows in (2, 3))
    rounded.rounded(words, out, spare, 32, Listening(iter([KEY])))
    assert seen == [1, 1]  # 64 more digits for U and for V: its own words do not fix it, and fix all others


@pytest.mark.parametrize("count", [4, 20_000])
def test_at_20_bits_hardly_any_draw_is_decided_by_digits(count, monkeypatch):
    """One in 2**26 or so: none of these, which are always the same."""
    monkeypatch.setattr(rounded, "decided", lambda *_: pytest.fail("digits were drawn"))
    if count > 4:
        monkeypatch.setattr(rounded, "certain", lambda *_: pytest.fail("a pair was looked at"))
    (found,) = rounded.steps([count], 20, AESStream(iter([KEY])))
    assert float(found.abs().max()) > 2**19


def test_a_pair_is_fixed_by_its_words_only_if_both_of_its_products_are():
    """At 44 bits a product is often nearer to a half than a quarter of its bound, while the other is not."""
    words, open_ones = AESStream(iter([KEY])).words(800).view(-1, 2).tolist(), [0, 0]
    for lead, turn in words:
        u = (lead & LOW_63) * 2.0**-63 + 2.0**-64
        near = 2.0**44 * rounded.error(math.sqrt(-2.0 * math.log(u)), u) / 4
        with mpmath.workprec(200):
            radius = 2**44 * mpmath.sqrt(-2 * mpmath.log(u))
            products = radius * mpmath.cospi(turn / 2.0**63), radius * mpmath.sinpi(turn / 2.0**63)
            half = [abs(abs(x - mpmath.nint(x)) - 0.5) < near for x in products]
        if any(half):
            assert rounded.certain(lead, turn, 44) is None
        if not all(half):
            open_ones = [count + is_open for count, is_open in zip(open_ones, half, strict=True)]
    assert min(open_ones) > 5


def test_each_of_a_few_draws_has_words_of_its_own():
    (found,) = rounded.steps([4], 20, AESStream(iter([KEY])))
    words = AESStream(iter([KEY])).words(4).tolist()
    pairs = [rounded.certain(*words[:2], 20), rounded.certain(*words[2:], 20)]
    assert found.tolist() == [float(number) for pair in pairs for number in pair]


def test_lots_longer_than_the_cache_are_drawn_to_their_last_number(monkeypatch):
    """Whatever the memory held before; the same words as in one piece of each length."""
    monkeypatch.setattr(rounded, "PAIRS", 8)
    threads, fill = torch.get_num_threads(), torch.full
    monkeypatch.setattr(torch, "empty", lambda *size, dtype: fill(size, math.nan, dtype=dtype))
    longest = 2 * 8 * threads
    sizes = [1, longest - 1, longest, longest + 1, 5 * longest + 3, 0, 6 * longest]
    lots = [lot.clone() for lot in rounded.steps(sizes, 20, AESStream(iter([KEY])))]
    words, expected = AESStream(iter([KEY])), []
    for size in sizes:
        pieces = []
        for start in range(0, size, longest):
            m = -(-min(longest, size - start) // 2)
            pieces.append(exactly(words.words(2 * m).view(2, m)).flatten())
        expected.append(torch.cat(pieces)[:size] if pieces else torch.zeros(0, dtype=torch.float64))
    assert all(torch.equal(one, other) for one, other in zip(lots, expected, strict=True))
