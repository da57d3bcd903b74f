"""Counts of label by score bin, from noisy ones: the nearest counts that a table can have.

A released histogram has cells that do not add up to the number of rows, which is public. The sums that were released
beside it (how many rows are positive, how many are called right) know the same with less noise. Least squares, weighted
by the noise of each, brings them together (:func:`balanced`): still without bias, and some cells below 0. Where that is
no use, the cells of each label are moved to the nearest that are at least 0 and have that label's total
(:func:`possible`). All of this is post-processing, and costs nothing.

Arrays have any leading axes, so that hundreds of simulated releases are fitted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 1e-6  # of a row: no label has none at all, and no mean is divided by 0


def balanced(noisy: Array, deviation: float, known: Sequence[tuple[Array, Array, float]], n: int) -> Array:
    """Cells (..., labels, bins) from noisy ones with noise of ``deviation``; all of them add up to ``n``.

    ``known`` are sums over cells that were released by themselves: a mask of the cells (labels, bins), what the sum is
    (...), and the deviation of its noise.
    """
    shape = noisy.shape[-2:]
    flat = noisy.reshape(*noisy.shape[:-2], -1)
    masks = np.stack([np.ones(flat.shape[-1]), *(mask.reshape(-1).astype(float) for mask, _, _ in known)])
    sizes = np.array([1e-9, *(max(size, 1e-9) for _, _, size in known)]) ** 2
    wanted = np.stack([np.full(flat.shape[:-1], float(n)), *(np.broadcast_to(s, flat.shape[:-1]) for _, s, _ in known)])
    short = np.moveaxis(wanted, 0, -1) - flat @ masks.T
    spread = max(deviation, 1e-9) ** 2
    gain = spread * masks.T @ np.linalg.inv(spread * masks @ masks.T + np.diag(sizes))
    return np.asarray((flat + short @ gain.T).reshape(*noisy.shape[:-2], *shape))


def possible(cells: Array, n: int) -> Array:
    """The nearest cells that are at least 0, with the totals of each label."""
    totals = cells.sum(axis=-1).clip(LEAST, None)
    totals = totals * (n / totals.sum(axis=-1, keepdims=True))
    return nearest(cells, totals)


def smoothed(cells: Array) -> Array:
    """Cells that are at least 0, each label's spread over neighbours: what simulated tables are drawn from."""
    ends = np.concatenate([cells[..., :1], cells, cells[..., -1:]], axis=-1)
    return np.asarray((ends[..., :-2] + 2.0 * ends[..., 1:-1] + ends[..., 2:]) / 4.0)


def nearest(cells: Array, totals: Array) -> Array:
    """The nearest numbers to ``cells`` along the last axis that are at least 0 and add up to ``totals``."""
    falling = -np.sort(-cells, axis=-1)
    over = np.cumsum(falling, axis=-1) - totals[..., None]
    places = np.arange(1, cells.shape[-1] + 1)
    kept = (falling - over / places > 0).sum(axis=-1).clip(1, None)
    level = np.take_along_axis(over, kept[..., None] - 1, axis=-1) / kept[..., None]
    return np.asarray((cells - level).clip(0.0, None))
