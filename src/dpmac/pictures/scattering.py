"""The scattering transform of pictures: wavelet, modulus, wavelet, modulus, average (Bruna and Mallat 2013).

Two scales, eight angles, two orders: 81 channels a picture's channel, each averaged at every fourth pixel. It was made
by hand and has learned nothing. The numbers are those of Kymatio 0.3 (``Scattering2D(J=2, L=8)``).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.pictures import products
from dpmac.pictures.wavelets import ANGLES, SCALES, low_pass, wavelets

CHANNELS = 1 + SCALES * ANGLES + ANGLES * ANGLES
_STEP = 2**SCALES


class Wavelets(nn.Module):
    """Squares (rows, side, side) to (rows, CHANNELS, side // 4, side // 4). Its filters are in no file."""

    fine: Tensor
    coarse: Tensor
    average: Tensor
    average_half: Tensor

    def __init__(self, side: int, dtype: torch.dtype) -> None:
        super().__init__()
        whole = ((side + _STEP) // _STEP + 1) * _STEP
        self.side, self.dtype = side, dtype
        before = (whole - side) // 2
        self.padding = (before, whole - side - before, before, whole - side - before)
        fine, coarse = wavelets(whole)
        made = {"fine": fine, "coarse": coarse, "average": low_pass(whole, 0), "average_half": low_pass(whole, 1)}
        for name, value in made.items():
            self.register_buffer(name, torch.from_numpy(value.copy()).to(dtype), persistent=False)

    def forward(self, squares: Tensor) -> Tensor:
        padded = F.pad(squares.to(self.dtype)[:, None], self.padding, mode="reflect")
        if torch.compiler.is_compiling():  # for an export
            first, second, third = self._by_products(padded)
        else:
            first, second, third = self._by_fft(padded)
        averaged = [
            padded.flatten(2) @ self.average,
            first.flatten(2) @ self.average,
            second.flatten(2) @ self.average_half,
            third.flatten(1, 2).flatten(2) @ self.average_half,
        ]
        found = torch.cat(averaged, dim=1)
        places = self.side // _STEP
        return found.reshape(-1, CHANNELS, places, places)

    def _by_fft(self, padded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The moduli behind fine wavelets, behind coarse ones, and behind fine and then coarse ones."""
        fourier = torch.fft.fft2(padded)
        first = torch.fft.ifft2(fourier * self.fine).abs()
        second = torch.fft.ifft2(halved(fourier * self.coarse)).abs()
        inner = torch.fft.fft2(first)[:, :, None]
        return first, second, torch.fft.ifft2(halved(inner * self.coarse)).abs()

    def _by_products(self, padded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same without complex numbers."""
        whole = products.fourier((padded, torch.zeros_like(padded)))
        first = products.modulus(products.fourier(products.times(whole, self.fine), inverse=True))
        second = self._coarse(whole)
        inner = products.fourier((first, torch.zeros_like(first)))
        return first, second, self._coarse((inner[0][:, :, None], inner[1][:, :, None]))

    def _coarse(self, fourier: products.Pair) -> Tensor:
        real, imaginary = products.times(fourier, self.coarse)
        return products.modulus(products.fourier((halved(real), halved(imaginary)), inverse=True))


def halved(fourier: Tensor) -> Tensor:
    """The Fourier transform of every second pixel: the mean of the four quarters."""
    small = fourier.shape[-1] // 2
    rows = fourier[..., :small, :] + fourier[..., small:, :]
    return 0.25 * (rows[..., :small] + rows[..., small:])
