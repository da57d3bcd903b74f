"""Private models from one or two releases and a linear solve: order-2 MAC where the quadratic is exact.

For a squared-error output layer the second-order expansion is the loss itself, so one release of its slope, with a
curvature that is known, gives the layer in closed form. :class:`ClosedFormAutoencoder` uses it twice: DP-PCA is the
linear code, and a layer of fixed random features on that code adds what a linear decoder cannot see.
:func:`linear_classifier` is the same thing without a hidden layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.features.pca import DPPCA, ReleasedPCA
from dpmac.mac.polynomial import Polynomial
from dpmac.privacy.bound import Block, JointClip, PerLayerClip
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource
from dpmac.privacy.parts import GramPart, OuterPart, Part
from dpmac.privacy.release import release
from dpmac.privacy.sampling import PrivateRows

SIMULATED = 20_000  # public draws for the features' Gram matrix


def low_frequencies(side: int, count: int) -> Tensor:
    """The ``count`` lowest two-dimensional cosines on a ``side`` x ``side`` image, orthonormal rows: a public basis."""
    place = torch.arange(side, dtype=torch.float64)
    wave = torch.cos(math.pi * (2 * place + 1) * place[:, None] / (2 * side)) * math.sqrt(2 / side)
    wave[0] /= math.sqrt(2)
    pairs = sorted(((u, v) for u in range(side) for v in range(side)), key=lambda p: (p[0] ** 2 + p[1] ** 2, p))
    return torch.stack([torch.outer(wave[u], wave[v]).flatten() for u, v in pairs[:count]])


@dataclass(frozen=True)
class ClosedForm:
    """Public choices of a :class:`ClosedFormAutoencoder`.

    ``share`` of the budget goes to DP-PCA and the rest to the output layer; 1 keeps the linear code alone. ``centre``
    is taken off every pixel; only the lowest ``frequencies`` of the image are used. The hidden layer has ``features``
    random cosines of the code, of width ``bandwidth``, for rows of norm about ``norm``. ``threshold`` clips each
    example's part of the slope, ``ridge`` regularises the solve.
    """

    share: float = 0.5
    centre: float = 0.15
    frequencies: int = 130
    code: int = 20
    features: int = 600
    bandwidth: float = 5.0
    norm: float = 4.6
    threshold: float = 2.5
    ridge: float = 20.0

    def fit(self, x: Tensor, noise_multiplier: float, source: NoiseSource, ledger: Ledger) -> ClosedFormAutoencoder:
        """Train on ``x`` (n, side^2) at the total cost of one Gaussian mechanism of ``noise_multiplier``.

        Two releases with multipliers sigma/sqrt(share) and sigma/sqrt(1 - share) compose to sigma exactly.
        """
        basis = low_frequencies(math.isqrt(x.shape[1]), self.frequencies)
        rows = (x.double() - self.centre) @ basis.transpose(0, 1)
        first = noise_multiplier / math.sqrt(self.share)
        pca = DPPCA(self.code, first, normalise=True).fit(rows, source.spawn("pca"), ledger)
        if self.share >= 1.0:
            return ClosedFormAutoencoder(self, basis, pca, None, None, None)
        draw = source.spawn("features")
        frequency = draw.normal((self.code, self.features)) / self.bandwidth
        phase = 2 * math.pi * draw.uniform(self.features)
        model = ClosedFormAutoencoder(self, basis, pca, frequency, phase, None)
        second = noise_multiplier / math.sqrt(1.0 - self.share)
        decoder = self._solve(model, rows, second, source, ledger)
        return ClosedFormAutoencoder(self, basis, pca, frequency, phase, decoder)

    def _solve(
        self, model: ClosedFormAutoencoder, rows: Tensor, multiplier: float, source: NoiseSource, ledger: Ledger
    ) -> Tensor:
        """The output layer on the hidden features: released slope, simulated curvature, ridge solution."""
        bound = PerLayerClip(self.threshold)

        def contribute(y: Tensor) -> list[Part]:
            code = model.code_of(y)
            left_over = y - code @ model.pca.components
            return bound.apply([OuterPart(-left_over, model.hidden(code))])

        blocks = [Block("output layer slope", (self.frequencies, self.features))]
        (slope,) = release(
            PrivateRows(rows).everything(),
            contribute,
            bound.promise(blocks),
            noise_multiplier=multiplier,
            source=source.spawn("output layer"),
            ledger=ledger,
            label="output layer",
        )
        fake = source.spawn("simulated codes").normal((SIMULATED, self.code)) * model.spread()
        hidden = model.hidden(fake)
        gram = hidden.transpose(0, 1) @ hidden * (len(rows) / SIMULATED)
        return Polynomial(torch.zeros_like(slope), slope, gram.unsqueeze(0)).minimum(self.ridge)


@dataclass(frozen=True, eq=False)
class ClosedFormAutoencoder:
    """Pixels to low frequencies to a linear code, and back through the components and the solved output layer."""

    choices: ClosedForm
    basis: Tensor
    pca: ReleasedPCA
    frequency: Tensor | None
    phase: Tensor | None
    decoder: Tensor | None

    def code_of(self, rows: Tensor) -> Tensor:
        """The code of rows that are already in the low-frequency basis; each row by itself."""
        return rows @ self.pca.components.transpose(0, 1)

    def spread(self) -> Tensor:
        """Typical size of each code number, from the released eigenvalues."""
        share = self.pca.eigenvalues.clamp(min=1.0)
        return self.choices.norm * torch.sqrt(share / share.sum())

    def hidden(self, code: Tensor) -> Tensor:
        assert self.frequency is not None
        assert self.phase is not None
        waves = torch.cos((code / self.spread()) @ self.frequency + self.phase)
        return waves * math.sqrt(2.0 / self.choices.features)

    def reconstruct(self, x: Tensor) -> Tensor:
        """What the autoencoder gives back for ``x``, in pixels."""
        rows = (x.double() - self.choices.centre) @ self.basis.transpose(0, 1)
        code = self.code_of(rows)
        out = code @ self.pca.components
        if self.decoder is not None:
            out = out + self.hidden(code) @ self.decoder.transpose(0, 1)
        return out @ self.basis + self.choices.centre


@dataclass(frozen=True)
class Statistics:
    """A linear classifier's public choices: the noise multipliers of its DP-PCA and of its release, and its ridge."""

    pca_noise: float
    noise_multiplier: float
    ridge: float


def linear_classifier(
    x: Tensor, labels: Tensor, noise_multiplier: float, ridge: float, source: NoiseSource, ledger: Ledger
) -> Tensor:
    """Ridge regression on one-hot labels from one release of X^T X and Y^T X; returns weights (classes, d + 1).

    Every example's parts are bounded jointly, so the release costs one Gaussian mechanism of ``noise_multiplier``.
    """
    d, classes = x.shape[1] + 1, labels.shape[1]
    bound = JointClip(2.0)  # rows of norm 1 with their constant: both shares have norm at most 2 and sqrt 2

    def contribute(rows: Tensor, y: Tensor) -> list[Part]:
        inputs = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        return bound.apply([OuterPart(y, inputs), GramPart(torch.ones_like(inputs[:, :1]), inputs)])

    blocks = [Block("labels x inputs", (classes, d)), Block("inputs x inputs", (1, d, d), symmetric=True)]
    cross, gram = release(
        PrivateRows(x, labels).everything(),
        contribute,
        bound.promise(blocks),
        noise_multiplier=noise_multiplier,
        source=source,
        ledger=ledger,
        label="sufficient statistics",
    )
    return Polynomial(torch.zeros_like(cross), -cross, gram).floored().minimum(ridge)
