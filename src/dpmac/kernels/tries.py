"""How often a private search tries: a random number K, whose law is public and whose value is secret.

K4, K5: the law that the accountant reckons with is the law that is drawn from, exactly. K has the truncated negative
binomial law with ``shape`` s and chance g (Papernot and Steinke, arXiv 2110.03620):

    Pr[K = k] is proportional to (1 - g)^k * product over l = 1 ... k-1 of (l + s) / (l + 1),    k = 1, 2, 3, ...

s = 0 is the logarithmic law, s = 1 the geometric one. For s <= 1 every factor of the product is at most 1, so K is a
geometric number, accepted if a coin of chance (l + s) / (l + 1) falls well for every l < K; the first that does not
begins anew. The coins are exact: their chances are fractions, compared with as many random digits as it takes. No real
number is rounded on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from dpmac.checks import ArgumentError, number

MOST = 100.0  # tries on average: more cost more than they find, and take a while to draw
LEAST = 1.1
_RAREST = 2.0**-20  # chance: a few million coins are then tossed for one K
_DIGITS = 53  # of a uniform draw
_LOT = 64  # draws at a time
_FINE = 2.0**40  # chances are whole multiples of 1 / this, so that one draw nearly always decides
Uniform = Callable[[int], Tensor]  # so many draws from [0, 1), with 53 random binary digits each


@dataclass(frozen=True)
class Tries:
    """The law of K. Give its mean to :meth:`of_mean`; ``chance`` is g, 0 < g < 1, and -1 < ``shape`` <= 1."""

    chance: float
    shape: float = 0.0

    def __post_init__(self) -> None:
        fix = "give a number above -1 and at most 1: 0 is the logarithmic law, 1 the geometric one"
        shape = number("shape", self.shape, fix, low=-1.0 + 2.0**-10, high=1.0)
        chance = number("chance", self.chance, "give a number above 0 and below 1", low=2.0**-40, high=1.0 - 2.0**-40)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "chance", chance)

    @classmethod
    def of_mean(cls, mean: float, shape: float = 0.0) -> Tries:
        """The law whose mean is ``mean``, up to the rounding of the chance to 40 digits."""
        mean = number("tries", mean, f"give how many on average, from {LEAST:g} to {MOST:g}", low=LEAST, high=MOST)
        low, high = _RAREST, 1.0  # the mean falls as the chance grows
        if (most := cls(low, shape).mean) < mean:
            raise ArgumentError("shape", shape, f"its law has a mean of {most:.3g} at most: give a larger shape")
        for _ in range(60):  # each halves the logarithm of the ratio
            middle = math.sqrt(low * high)
            if cls(middle, shape).mean > mean:
                low = middle
            else:
                high = middle
        return cls(round(high * _FINE) / _FINE, shape)

    @property
    def mean(self) -> float:
        """E[K]."""
        odds, log = (1.0 - self.chance) / self.chance, math.log(self.chance)
        if self.shape == 0.0:
            return odds / -log
        return odds * self.shape / -math.expm1(self.shape * log)

    @property
    def odds(self) -> float:
        """(1 - g) / g, for the account."""
        return (1.0 - self.chance) / self.chance

    def drawn(self, uniform: Uniform) -> int:
        """A fresh K. How long this takes depends on it, as the search itself does."""
        coins = _Coins(uniform)
        chance, shape = Fraction(self.chance), Fraction(self.shape)
        k = 1
        while not coins.falls(chance):
            if coins.falls((k + shape) / (k + 1)):
                k += 1
            else:
                k = 1
        return k

    def described(self) -> str:
        """The law in words."""
        name = f"truncated negative binomial law of shape {self.shape:g}"
        if self.shape in (0.0, 1.0):
            name = "logarithmic law" if self.shape == 0.0 else "geometric law"
        return f"{name} with a mean of {self.mean:.4g}"


class _Coins:
    """Independent coins of any rational chance, exact."""

    def __init__(self, uniform: Uniform) -> None:
        self._uniform = uniform
        self._left: Iterator[int] = iter(())

    def falls(self, chance: Fraction) -> bool:
        """Whether U < chance, for U uniform on [0, 1): digits of both are compared until they differ."""
        rest, whole = chance.numerator, chance.denominator
        while True:
            wanted, rest = divmod(rest << _DIGITS, whole)
            found = self._digits()
            if found != wanted:
                return found < wanted
            if not rest:  # all digits of the chance are used up, and U is not below it
                return False

    def _digits(self) -> int:
        for draw in self._left:
            return draw
        self._left = self._lot()
        return next(self._left)

    def _lot(self) -> Iterator[int]:
        return iter([int(draw * 2.0**_DIGITS) for draw in self._uniform(_LOT).tolist()])
