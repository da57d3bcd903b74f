"""A private autoencoder from two releases and a linear solve: order-2 MAC where the quadratic is exact.

For a squared-error output layer the second-order expansion is the loss itself, so one release of its slope, with a
curvature that is known, gives the layer in closed form. It is used twice: DP-PCA is the linear code, and a layer of
fixed random features on that code adds what a linear decoder cannot see. On USPS it beats every deep private
autoencoder trained by gradients here, in about a second (see reproduction/results).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.extensions.provenance import Origin
from dpmac.mac import Polynomial
from dpmac.methods.objective import learn_from_all_rows
from dpmac.methods.pca import DPPCA, ReleasedPCA
from dpmac.methods.tables import private_table
from dpmac.nets.feature_maps import FeatureMap
from dpmac.old_names import with_old_arguments
from dpmac.privacy import GramPart, Ledger, OuterPart, Part, Partition, PerLayerClip, PrivateRows, Query
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.query import Answer
from dpmac.randomness import NoiseSource

LABEL = "output layer"
SLOPE = "output layer slope"
GRAM = "hidden features x hidden features"
RADIUS = 1.25  # of the norm, beyond which a row has no more to say in DP-PCA
MIN_RESIDUAL_SHARE = 0.01  # of what is squared and summed, that is left over at least: released moments are noisy
LENGTH = 1.1  # squared, of a row's hidden features: about 1, and never above 2
_LOW = 1e-28  # so that what a threshold follows from is within a bound's limits, 1e-30 and 1e30
SIMULATED = 20_000  # public draws for the features' Gram matrix


class InvertibleFeatureMap(Protocol):
    """A feature map whose outputs can be taken back to raw rows, such as ``Affine`` and ``LowFrequencies``."""

    def __call__(self, rows: Tensor) -> Tensor: ...

    def inverse(self, inputs: Tensor) -> Tensor: ...


@with_old_arguments(front="feature_map")
@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Public choices of a :class:`ClosedFormAutoencoder`.

    ``feature_map`` takes raw rows to what is coded, and back (``Affine``, ``LowFrequencies``); None codes the rows as
    they are. ``share`` of the budget goes to DP-PCA and the rest to the output layer; 1 keeps the linear code alone.
    The code has ``code`` numbers, and the hidden layer ``features`` random cosines of it, of width ``bandwidth``, for
    rows of norm about ``norm``. ``threshold`` clips each example's part of the slope (None: at the length of what
    DP-PCA leaves over, by its eigenvalues), ``ridge`` regularises the solve. DP-PCA is of rows put on the sphere or,
    without ``normalise``, clipped at RADIUS times the ``norm``.

    The solve needs the features' Gram matrix as well. ``curvature`` "simulated" draws codes for it from a Gaussian of
    the released second moments, at no cost: right for images. "released" asks the rows, in the same release as the
    slope: right for tables, whose codes lie in clusters. It makes the hidden layer's bill larger (features squared
    numbers), so that a ridge should grow with the noise and ``features`` be a few hundred at most.
    """

    feature_map: InvertibleFeatureMap | None = None
    share: float = 0.5
    code: int = 20
    features: int = 600
    bandwidth: float = 5.0
    norm: float = 4.6
    threshold: float | None = 2.5
    ridge: float = 20.0
    curvature: Literal["simulated", "released"] = "simulated"
    normalise: bool = True

    def __post_init__(self) -> None:
        number("share", self.share, "give the part of the budget for DP-PCA, above 0 and at most 1", low=1e-6, high=1.0)
        integer("code", self.code, "give the length of the code, at least 1")
        integer("features", self.features, "give the number of hidden units, at least 1")
        sizes = ["bandwidth", "norm", "ridge"]
        if self.threshold is not None:
            sizes.append("threshold")
        for name in sizes:
            number(name, getattr(self, name), "give a finite number above 0", low=_LOW, high=1.0 / _LOW)
        if self.curvature not in ("simulated", "released"):
            raise ArgumentError("curvature", self.curvature, "choose 'simulated' or 'released'")
        if self.feature_map is not None and not hasattr(self.feature_map, "inverse"):
            fix = "an autoencoder must find its way back: give a feature map with an inverse, such as Affine, or None"
            raise ArgumentError("feature_map", self.feature_map, fix)

    def fit(
        self, x: Tensor | PrivateRows, noise_multiplier: float, source: NoiseSource, ledger: Ledger
    ) -> ClosedFormAutoencoder:
        """Train on raw rows ``x`` (n, d) at the total cost of one Gaussian mechanism of ``noise_multiplier``.

        Two releases with multipliers sigma/sqrt(share) and sigma/sqrt(1 - share) compose to sigma exactly. The feature
        map is applied inside the release. Bad arguments raise :class:`ArgumentError` and spend nothing.
        """
        sigma = check_multiplier(noise_multiplier)
        first = check_multiplier(sigma / math.sqrt(self.share))
        second = 0.0
        if self.share < 1.0:
            second = check_multiplier(sigma / math.sqrt(1.0 - self.share))
        table = private_table("x", x)
        if isinstance(self.feature_map, FeatureMap):
            self.feature_map.shape_after(table.shapes[0])
        if self.feature_map is not None:
            table = table.behind(self.feature_map)
        method = DPPCA(self.code, first, radius=RADIUS * self.norm, normalise=self.normalise)
        pca = method.fit(table, source.spawn("pca"), ledger)
        if self.share >= 1.0:
            return ClosedFormAutoencoder(self, pca, None, None, None)
        draw = source.spawn("features")
        frequency = draw.normal((self.code, self.features), table.device) / self.bandwidth
        phase = 2 * math.pi * draw.uniform(self.features).to(table.device)
        table.world.spread([frequency, phase])
        model = ClosedFormAutoencoder(self, pca, frequency, phase, None)
        layer = OutputLayer(model, table.n, source.spawn("simulated codes"))
        noise = source.spawn("output layer")
        learn_from_all_rows(layer, table, noise_multiplier=second, source=noise, ledger=ledger)
        table.world.spread([layer.weights])
        known = replace(pca, origin=Origin.of(ledger, pca.origin))  # this release, too
        return ClosedFormAutoencoder(self, known, frequency, phase, layer.weights)

    def query(self, model: ClosedFormAutoencoder) -> Query:
        """The slope of the output layer at 0, on the hidden features of the code: each example's part clipped.

        With a curvature that is released, the features' Gram matrix beside it.
        """
        asked = [Partition(SLOPE, (model.pca.components.shape[1], self.features))]
        released = self.curvature == "released"
        if released:
            asked.append(Partition(GRAM, (1, self.features, self.features), symmetric=True))
        threshold = self.threshold
        if threshold is None:
            threshold = model.left_over()
        bound = PerLayerClip((threshold, LENGTH) if released else threshold)

        def parts(rows: Tensor) -> list[Part]:
            exact = rows.double()
            code = model.code_of(exact)
            left_over = exact - code @ model.pca.components
            hidden = model.hidden(code)
            found: list[Part] = [OuterPart(-left_over, hidden)]
            if released:
                found.append(GramPart(torch.ones_like(hidden[:, :1]), hidden))
            return bound.apply(found)

        return Query(LABEL, bound.promise(asked), parts)

    def _solve(self, model: ClosedFormAutoencoder, answer: Answer, n: int, draw: NoiseSource) -> Tensor:
        """The output layer: released slope, curvature released or simulated from released moments, ridge solution."""
        slope = answer[SLOPE]
        if self.curvature == "released":
            return Polynomial(torch.zeros_like(slope), slope, answer[GRAM]).floored().minimum(self.ridge)
        fake = draw.normal((SIMULATED, self.code), slope.device) * model.spread()
        hidden = model.hidden(fake)
        gram = hidden.transpose(0, 1) @ hidden * (n / SIMULATED)
        return Polynomial(torch.zeros_like(slope), slope, gram.unsqueeze(0)).minimum(self.ridge)


@dataclass(eq=False)
class OutputLayer:
    """The objective of the output layer: ``weights`` are solved for from the released slope and curvature."""

    model: ClosedFormAutoencoder
    n: int
    draw: NoiseSource
    weights: Tensor = field(init=False)

    def query(self) -> Query:
        return self.model.choices.query(self.model)

    def apply(self, answer: Answer) -> None:
        self.weights = self.model.choices._solve(self.model, answer, self.n, self.draw)


@dataclass(frozen=True, eq=False)
class ClosedFormAutoencoder:
    """Rows through the feature map to a linear code, and back through the components and the solved output layer.

    All of it is released or public: using it costs nothing.
    """

    choices: ClosedForm
    pca: ReleasedPCA
    frequency: Tensor | None
    phase: Tensor | None
    decoder: Tensor | None

    def code_of(self, rows: Tensor) -> Tensor:
        """The code of rows that went through the feature map; each row by itself."""
        return rows @ self.pca.components.transpose(0, 1)

    def spread(self) -> Tensor:
        """Typical size of each code number, from the released eigenvalues."""
        share = self.pca.eigenvalues.clamp(min=1.0)
        whole = share.sum()
        if self.choices.curvature == "released":
            whole = torch.maximum(self.pca.moment.trace(), whole)
        return self.choices.norm * torch.sqrt(share / whole)

    def left_over(self) -> float:
        """Typical length of what the linear code does not give back, from the released second moments.

        All of a row where the noise has made the moments' trace or the eigenvalues' sum negative: they say nothing.
        """
        kept, whole = float(self.pca.eigenvalues.sum()), float(self.pca.moment.trace())
        share = 0.0
        if kept > 0.0 and whole > 0.0:
            share = kept / whole
        return self.choices.norm * math.sqrt(max(1.0 - share, MIN_RESIDUAL_SHARE))

    def hidden(self, code: Tensor) -> Tensor:
        assert self.frequency is not None
        assert self.phase is not None
        waves = torch.cos((code / self.spread()) @ self.frequency + self.phase)
        return waves * math.sqrt(2.0 / self.choices.features)

    def encode(self, x: Tensor) -> Tensor:
        """The codes (n, code) of raw rows."""
        if self.choices.feature_map is None:
            return self.code_of(x.double())
        return self.code_of(self.choices.feature_map(x))

    def decode(self, codes: Tensor) -> Tensor:
        """Raw rows from codes."""
        out = codes @ self.pca.components
        if self.decoder is not None:
            out = out + self.hidden(codes) @ self.decoder.transpose(0, 1)
        if self.choices.feature_map is None:
            return out
        return self.choices.feature_map.inverse(out)

    def reconstruct(self, x: Tensor) -> Tensor:
        """What the autoencoder gives back for raw rows ``x``, in double precision."""
        return self.decode(self.encode(x))
