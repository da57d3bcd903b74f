"""Several parts' lengths at once: what :class:`~dpmac.privacy.parts.OuterPart` says of each, in one go for all.

A network has a part for every layer, and asks the same few questions of each: how long its vectors are, whether its
shares keep the promise, whether single precision will hold them. On a CPU a question about a thousand numbers takes no
longer than one about six thousand. Elsewhere, and where parts are not all single-precision outer products, they are
asked one by one, which gives the same answers but for rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dpmac.privacy.chunks import SINGLE_ROOM
from dpmac.privacy.parts import OuterPart, Part, fit_single


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """Each example's norm of the concatenation of all its shares, share i divided by ``scales[i]``.

    Norms of single-precision shares are below 1e80, and factors and scales are from 1e-30 to 1e30: no square overflows.
    """
    outer = _alike(parts)
    if outer is None:
        return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(parts, scales, strict=True)])
    measure(outer)
    whole = torch.stack([part.lengths()[0] for part in outer])
    factors = _factors(outer)
    if factors is not None:
        whole.mul_(factors).masked_fill_(factors == 0, 0.0)
    if any(scale != scales[0] for scale in scales):
        whole.div_(_column(tuple(scales)))
        return _root_of_squares(whole)
    return _root_of_squares(whole).div_(scales[0])


def _root_of_squares(rows: Tensor) -> Tensor:
    """The norm over the first dimension (torch's own takes ten times as long); overwrites what it is given."""
    return rows.square_().sum(dim=0).sqrt_()


def scaled(parts: Sequence[Part], factors: Tensor) -> list[Part]:
    """Every part ``scaled(factors)``; what is the same for several is made once."""
    merged: dict[int, Tensor] = {}
    found: list[Part] = []
    for part in parts:
        if isinstance(part, OuterPart) and part.factors is not None:
            if id(part.factors) not in merged:
                merged[id(part.factors)] = part.factors * factors.double()
            found.append(part.with_factors(merged[id(part.factors)]))
        else:
            found.append(part.scaled(factors))
    return found


def totals(parts: Sequence[Part], together: int) -> list[Tensor]:
    """The sum of every part, matrices with a bias as :meth:`OuterPart.apart` gives them. For ``release`` alone."""
    outer = _alike(parts)
    fit = outer is not None and _fit(outer)
    return [p.apart(together, fit) if isinstance(p, OuterPart) else p.total(together) for p in parts]


def measure(parts: Sequence[Part]) -> None:
    """Measure the vectors of all parts that can be measured at once: as :meth:`OuterPart.lengths` would."""
    outer = [part for part in _alike(parts) or () if not part.measured]
    if len(outer) < 2:
        return
    vectors = [*(part.left for part in outer), *(part.right for part in outer)]
    times, more = _upwards(tuple(v.shape[-1] for v in vectors))
    sides = torch.stack([torch.linalg.vector_norm(v, dim=-1) for v in vectors]).double().mul_(times).add_(more)
    left, right = sides[: len(outer)], sides[len(outer) :]
    right = right.square().add_(_column(tuple(float(part.one) for part in outer))).sqrt_().mul_(1.0 + 2.0**-50)
    whole = (left * right).mul_(1.0 + SINGLE_ROOM)
    for part, found in zip(outer, zip(whole.unbind(), left.unbind(), right.unbind(), strict=True), strict=True):
        part.keep(found)


def _alike(parts: Sequence[Part]) -> list[OuterPart] | None:
    """The parts, if they are single-precision outer products on a CPU, of as many rows each."""
    outer = [part for part in parts if type(part) is OuterPart and part.single and part.left.is_cpu]
    if len(outer) < 2 or len(outer) < len(parts) or any(part.rows != outer[0].rows for part in outer):
        return None
    return outer


@functools.lru_cache(maxsize=64)
def _upwards(widths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """What norms of so many numbers each, measured in single precision, are multiplied by, and what is added, so that
    they are never below the true ones: as :class:`OuterPart` does."""
    d = _column(tuple(map(float, widths)))
    return 1.0 + (d + 4) * 2.0**-24, d.sqrt() * 2.0**-63


@functools.lru_cache(maxsize=64)
def _column(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)


def _factors(outer: Sequence[OuterPart]) -> Tensor | None:
    """The parts' factors: of all of them, if they are the same, or one below the other; or None if there are none."""
    first = outer[0].factors
    if all(part.factors is first for part in outer):
        return first
    ones = torch.ones(outer[0].rows, dtype=torch.float64)
    return torch.stack([ones if part.factors is None else part.factors for part in outer])


def _fit(outer: Sequence[OuterPart]) -> bool:
    """Whether single precision holds every factor, and what it makes of the vectors: the question of OuterPart."""
    left, right = (torch.stack([part.lengths()[side] for part in outer]) for side in (1, 2))
    factors = _factors(outer)
    size = torch.ones(1, dtype=torch.float64) if factors is None else factors.abs()
    roots = _column(tuple(math.sqrt(max(1, part.left.shape[1])) for part in outer))
    fit = fit_single(left, right, size, roots)
    return bool(fit.all())
