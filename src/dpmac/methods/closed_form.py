"""A private autoencoder from two releases and a linear solve: order-2 MAC where the quadratic is exact.

For a squared-error output layer the second-order expansion is the loss itself, so one release of its slope, with a
curvature that is known, gives the layer in closed form. It is used twice: DP-PCA is the linear code, and a layer of
fixed random features on that code adds what a linear decoder cannot see. On USPS it beats every deep private
autoencoder trained by gradients here, in about a second (see reproduction/results).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.mac import Polynomial
from dpmac.methods.pca import DPPCA, ReleasedPCA
from dpmac.methods.tables import private_table
from dpmac.nets.fronts import Front
from dpmac.privacy import Ledger, OuterPart, Part, Partition, PerLayerClip, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "output layer"
SLOPE = "output layer slope"
SIMULATED = 20_000  # public draws for the features' Gram matrix


class InvertibleFront(Protocol):
    """A front whose outputs can be taken back to raw rows, such as ``Affine`` and ``LowFrequencies``."""

    def __call__(self, rows: Tensor) -> Tensor: ...

    def inverse(self, inputs: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Public choices of a :class:`ClosedFormAutoencoder`.

    ``front`` takes raw rows to what is coded, and back (``Affine``, ``LowFrequencies``); None codes the rows as they
    are. ``share`` of the budget goes to DP-PCA and the rest to the output layer; 1 keeps the linear code alone. The
    code has ``code`` numbers, and the hidden layer ``features`` random cosines of it, of width ``bandwidth``, for rows
    of norm about ``norm``. ``threshold`` clips each example's part of the slope, ``ridge`` regularises the solve.
    """

    front: InvertibleFront | None = None
    share: float = 0.5
    code: int = 20
    features: int = 600
    bandwidth: float = 5.0
    norm: float = 4.6
    threshold: float = 2.5
    ridge: float = 20.0

    def __post_init__(self) -> None:
        number("share", self.share, "give the part of the budget for DP-PCA, above 0 and at most 1", low=1e-6, high=1.0)
        integer("code", self.code, "give the length of the code, at least 1")
        integer("features", self.features, "give the number of hidden units, at least 1")
        for name in ("bandwidth", "norm", "threshold", "ridge"):
            number(name, getattr(self, name), "give a finite number above 0", low=1e-30, high=1e30)
        if self.front is not None and not hasattr(self.front, "inverse"):
            fix = "an autoencoder must find its way back: give a front with an inverse, such as Affine, or None"
            raise ArgumentError("front", self.front, fix)

    def fit(
        self, x: Tensor | PrivateRows, noise_multiplier: float, source: NoiseSource, ledger: Ledger
    ) -> ClosedFormAutoencoder:
        """Train on raw rows ``x`` (n, d) at the total cost of one Gaussian mechanism of ``noise_multiplier``.

        Two releases with multipliers sigma/sqrt(share) and sigma/sqrt(1 - share) compose to sigma exactly. The front
        is applied on the private way. Bad arguments raise :class:`ArgumentError` and spend nothing.
        """
        sigma = check_multiplier(noise_multiplier)
        first = check_multiplier(sigma / math.sqrt(self.share))
        second = check_multiplier(sigma / math.sqrt(1.0 - self.share)) if self.share < 1.0 else 0.0
        raw = private_table("x", x)
        if isinstance(self.front, Front):
            self.front.shape_after(raw.shapes[0])
        table = raw if self.front is None else raw.behind(self.front)
        pca = DPPCA(self.code, first, normalise=True).fit(table, source.spawn("pca"), ledger)
        if self.share >= 1.0:
            return ClosedFormAutoencoder(self, pca, None, None, None)
        draw = source.spawn("features")
        frequency = draw.normal((self.code, self.features), table.device) / self.bandwidth
        phase = 2 * math.pi * draw.uniform(self.features).to(table.device)
        model = ClosedFormAutoencoder(self, pca, frequency, phase, None)
        answer = release(
            table.everything(),
            self.query(model),
            noise_multiplier=second,
            source=source.spawn("output layer"),
            ledger=ledger,
        )
        decoder = self._solve(model, answer[SLOPE], table.n, source.spawn("simulated codes"))
        return ClosedFormAutoencoder(self, pca, frequency, phase, decoder)

    def query(self, model: ClosedFormAutoencoder) -> Query:
        """The slope of the output layer at 0, on the hidden features of the code: each example's part clipped."""
        bound = PerLayerClip(self.threshold)

        def parts(rows: Tensor) -> list[Part]:
            exact = rows.double()
            code = model.code_of(exact)
            left_over = exact - code @ model.pca.components
            return bound.apply([OuterPart(-left_over, model.hidden(code))])

        width = model.pca.components.shape[1]
        return Query(LABEL, bound.promise([Partition(SLOPE, (width, self.features))]), parts)

    def _solve(self, model: ClosedFormAutoencoder, slope: Tensor, n: int, draw: NoiseSource) -> Tensor:
        """The output layer: released slope, curvature simulated from released second moments, ridge solution."""
        fake = draw.normal((SIMULATED, self.code), slope.device) * model.spread()
        hidden = model.hidden(fake)
        gram = hidden.transpose(0, 1) @ hidden * (n / SIMULATED)
        return Polynomial(torch.zeros_like(slope), slope, gram.unsqueeze(0)).minimum(self.ridge)


@dataclass(frozen=True, eq=False)
class ClosedFormAutoencoder:
    """Rows through the front to a linear code, and back through the components and the solved output layer.

    All of it is released or public: using it costs nothing.
    """

    choices: ClosedForm
    pca: ReleasedPCA
    frequency: Tensor | None
    phase: Tensor | None
    decoder: Tensor | None

    def code_of(self, rows: Tensor) -> Tensor:
        """The code of rows that went through the front; each row by itself."""
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

    def encode(self, x: Tensor) -> Tensor:
        """The codes (n, code) of raw rows."""
        front = self.choices.front
        return self.code_of(x.double() if front is None else front(x))

    def decode(self, codes: Tensor) -> Tensor:
        """Raw rows from codes."""
        out = codes @ self.pca.components
        if self.decoder is not None:
            out = out + self.hidden(codes) @ self.decoder.transpose(0, 1)
        return out if self.choices.front is None else self.choices.front.inverse(out)

    def reconstruct(self, x: Tensor) -> Tensor:
        """What the autoencoder gives back for raw rows ``x``, in double precision."""
        return self.decode(self.encode(x))
