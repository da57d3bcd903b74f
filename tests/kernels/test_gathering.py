"""Rows are gathered in the same way on any device: rows at their spots, zeros elsewhere, in every column."""

from __future__ import annotations

import pytest
import torch

from dpmac.kernels.gathering import gathered


class Elsewhere(torch.Tensor):
    """A tensor that says that it is not on the CPU, so that code for other devices can be run here."""

    is_cpu = False


@pytest.mark.parametrize("together", [1, 4])
def test_rows_on_another_device_are_gathered_as_on_the_cpu(together):
    columns = (torch.arange(1.0, 25.0).reshape(6, 4), torch.arange(1, 7), torch.arange(1.0, 37.0).reshape(6, 2, 3))
    row_at = torch.tensor([[3, 0, -1, -1], [-1, -1, -1, -1], [5, 1, 2, 4]]).reshape(-1, together)
    expected, weights = gathered(columns, row_at)
    there = tuple(column.as_subclass(Elsewhere) for column in columns)
    found, weights_there = gathered(there, row_at.as_subclass(Elsewhere))
    assert torch.equal(weights_there.as_subclass(torch.Tensor), weights)
    for column, block, one in zip(columns, expected, found, strict=True):
        assert torch.equal(one.as_subclass(torch.Tensor), block)
        for spot, row in enumerate(row_at.flatten().tolist()):
            assert torch.equal(block[spot], column[row] if row >= 0 else torch.zeros_like(column[0]))
