"""Pictures as users have them, arrays of bytes or of numbers in [0, 1], as flat rows of pixels from 0 to 255."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.pictures.resizing import LARGEST, SIDES, weights_of

Array = np.ndarray[Any, Any]
Size = tuple[int, int, int]  # height, width, channels

GIVE = "give an array (n, height, width) of grey pictures or (n, height, width, 3) of coloured ones"
WHITE = 255.0
MOST = 64  # pixels of a side that are kept: features are made of 28 or 32
SMALLEST = 4
_BLOCK = 1_024  # pictures that are made smaller at a time


def array_of(X: Any) -> tuple[Array, Size]:
    """``X`` as an array (n, height, width, channels) of bytes, or of finite numbers in [0, 1], and a picture's size.

    Raises :class:`ArgumentError` for what is no such array.
    """
    found = _as_array(X)
    if found.ndim == 3:
        found = found[..., None]
    if found.ndim != 4:
        raise ArgumentError("X", f"shape {found.shape}", GIVE)
    _, height, width, channels = found.shape
    if channels not in SIDES:
        raise ArgumentError("X", f"shape {np.shape(X)}", _about_channels(found.shape))
    if not (SMALLEST <= height <= LARGEST and SMALLEST <= width <= LARGEST):
        fix = f"give pictures of {SMALLEST} to {LARGEST:,} pixels a side"
        raise ArgumentError("X", f"pictures of {height} x {width} pixels", fix)
    _check_values(found)
    return found, (height, width, channels)


def rows_of(pictures: Array, most: int | None = MOST) -> Array:
    """Flat rows, float32, from 0 to 255; pictures of more than ``most`` pixels a side are brought to so many first."""
    count, height, width, channels = pictures.shape
    if most is None or max(height, width) <= most:
        return _whites(pictures).reshape(count, height * width * channels)
    down, across = (weights_of(side, min(side, most)).float() for side in (height, width))
    blocks = [_smaller(pictures[first : first + _BLOCK], down, across) for first in range(0, len(pictures), _BLOCK)]
    if not blocks:
        return np.zeros((0, down.shape[1] * across.shape[1] * channels), dtype=np.float32)
    return np.concatenate(blocks)


def _as_array(X: Any) -> Array:
    if isinstance(X, Tensor):
        X = X.detach().cpu()
    try:
        found = np.asarray(X)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError("X", type(X).__name__, f"its pictures have different sizes: {GIVE}") from None
    if found.dtype == object:
        fix = f"it holds objects, or pictures of different sizes: {GIVE}"
        raise ArgumentError("X", f"{type(X).__name__} of {found.size} objects", fix)
    return found


def _about_channels(shape: tuple[int, ...]) -> str:
    if shape[3] == 4:
        return "pictures have 1 or 3 channels: leave out the transparency, X[..., :3]"
    if shape[1] in SIDES:
        return "channels come last: give X.transpose(0, 2, 3, 1)"
    return f"pictures have 1 or 3 channels: {GIVE}"


def _check_values(pictures: Array) -> None:
    """Raise unless all are bytes, or numbers in [0, 1]."""
    if pictures.dtype == np.uint8:
        return
    fix = "give bytes (numpy.uint8) from 0 to 255, or floating-point numbers from 0 to 1"
    if pictures.dtype.kind != "f":
        raise ArgumentError("X", f"numbers of type {pictures.dtype}", fix)
    if not pictures.size:
        return
    low, high = float(pictures.min()), float(pictures.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ArgumentError("X", "numbers that are not finite", "leave out such pictures, or fill in a grey")
    if low < 0.0 or high > 1.0:
        raise ArgumentError("X", f"numbers beyond [0, 1], of type {pictures.dtype}", fix)


def _whites(pictures: Array) -> Array:
    if pictures.dtype == np.uint8:
        return pictures.astype(np.float32)
    return (pictures * WHITE).astype(np.float32)


def _smaller(block: Array, down: Tensor, across: Tensor) -> Array:
    """Each picture by itself, averaged over as many pixels as become one."""
    pixels = torch.from_numpy(_whites(block)).permute(0, 3, 1, 2)
    found = ((pixels @ across).transpose(2, 3) @ down).transpose(2, 3)
    smaller: Array = found.permute(0, 2, 3, 1).flatten(1).contiguous().numpy()
    return smaller
