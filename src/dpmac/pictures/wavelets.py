"""Morlet wavelets and a Gaussian low pass on a periodic square, as Kymatio has them (Bruna and Mallat 2013).

All of it is made in NumPy's double precision once, when a scattering transform is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ANGLES = 8
SCALES = 2
_WIDTH = 0.8  # of the envelope at the finest scale, in pixels
_FREQUENCY = 0.75 * np.pi  # at the finest scale
_COPIES = (-2, -1, 0, 1, 2)  # neighbours whose tails reach into the square


def wavelets(side: int) -> list[Array]:
    """For each scale the Fourier transforms of its wavelets, (ANGLES, side, side): real numbers."""
    return [
        np.stack([np.fft.fft2(morlet(side, scale, (ANGLES // 2 - 1 - k) * np.pi / ANGLES)).real for k in range(ANGLES)])
        for scale in range(SCALES)
    ]


def morlet(side: int, scale: int, angle: float) -> Array:
    """A wave under an elongated bell, with as much of the bell taken off as makes its sum 0."""
    width, slant = _WIDTH * 2**scale, 4.0 / ANGLES
    wave = bell(side, width, angle, _FREQUENCY / 2**scale, slant)
    envelope = bell(side, width, angle, 0.0, slant)
    found: Array = wave - wave.sum() / envelope.sum() * envelope
    return found


def bell(side: int, width: float, angle: float, frequency: float, slant: float) -> Array:
    """A Gaussian bell times a wave across it, summed over the copies of a periodic square."""
    cosine, sine = np.cos(angle), np.sin(angle)
    x, y = np.mgrid[_COPIES[0] * side : (_COPIES[-1] + 1) * side, _COPIES[0] * side : (_COPIES[-1] + 1) * side]
    along, across = x * cosine + y * sine, y * cosine - x * sine
    values = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2) + 1j * frequency * along)
    copies = values.reshape(len(_COPIES), side, len(_COPIES), side).sum(axis=(0, 2))
    found: Array = copies / (2 * np.pi * width**2 / slant)
    return found


def low_pass(side: int, level: int) -> Array:
    """Averages under a bell, at every fourth place of the square: (pixels, places), of a square that was subsampled
    ``level`` times. Places on the border, where the padding is, are left out."""
    bell_fourier = np.fft.fft2(bell(side, _WIDTH * 2 ** (SCALES - 1), 0.0, 0.0, 1.0)).real
    small = side // 2**level
    kernel = np.fft.ifft2(_folded(bell_fourier, level))
    step = 2 ** (SCALES - level)
    kept = range(step, small - step, step)
    found: Array = np.stack(
        [np.roll(kernel, (down, across), axis=(0, 1)).real.ravel() for down in kept for across in kept], axis=1
    )
    return found


def _folded(fourier: Array, level: int) -> Array:
    """A filter's Fourier transform at half the resolution, ``level`` times: high frequencies are cut off before."""
    if level == 0:
        return fourier
    side, small = len(fourier), len(fourier) // 2**level
    kept = np.ones(side)
    begin = side // 2 ** (level + 1)
    kept[begin : begin + side - small] = 0.0
    found: Array = (fourier * np.outer(kept, kept)).reshape(2**level, small, 2**level, small).sum(axis=(0, 2))
    return found
