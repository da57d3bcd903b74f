"""Noise that is added where the rows are not on the CPU: all sums at once, and the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dpmac.kernels import perturbing
from dpmac.kernels.perturbing import lot_sizes, perturbed_sums
from dpmac.randomness import SeededNoise

FACTORS, UNITS = (3.0, 7.0, 0.5), (0.25, 2.0, 3.0)


class Elsewhere(Tensor):
    """A tensor that says it is not on the CPU."""

    is_cpu = False


def sums_of(dtype: torch.dtype) -> list[Tensor]:
    """A number by itself, one that is not contiguous, and a longer one."""
    draw = SeededNoise(3)
    shaped = (draw.normal(()), draw.normal((4, 3)).T, draw.normal((2, 5)))
    return [(100 * each).to(dtype) for each in shaped]


@pytest.mark.parametrize("single", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_all_sums_at_once_are_rounded_and_perturbed_each_with_its_own_draws(single, dtype, monkeypatch):
    asked: list[int] = []
    at_once = perturbing._at_once
    monkeypatch.setattr(perturbing, "_at_once", lambda flat, *rest: (asked.append(len(flat)), at_once(flat, *rest)))
    sums, steps = sums_of(single), torch.round(1000 * SeededNoise(4).normal((23,)))
    pieces = [piece.view(total.shape) for piece, total in zip(torch.split(steps, [1, 12, 10]), sums, strict=True)]
    wanted = [
        ((torch.round(total.double() * factor) + piece) * unit).to(dtype)
        for total, factor, unit, piece in zip(sums, FACTORS, UNITS, pieces, strict=True)
    ]
    for kind, count in ((Tensor, 0), (Elsewhere, 3)):
        asked.clear()
        given = [total.clone().as_subclass(kind) for total in sums]
        assert lot_sizes(given) == [23]
        found = perturbed_sums(given, FACTORS, UNITS, iter([steps.clone()]), dtype)
        assert asked == [count] * (count > 0)
        assert [each.dtype for each in found] == [dtype] * 3
        assert all(torch.equal(a.as_subclass(Tensor), b) for a, b in zip(found, wanted, strict=True))
