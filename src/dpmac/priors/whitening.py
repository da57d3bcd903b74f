"""Whitening by drawn rows: a public feature map, turned and scaled by the moments of rows that a prior has drawn.

With m and C the mean and covariance of the drawn rows' features, and C = V diag(w) V', features become

    (features - m) V diag((w / w_0 + floor)^-power) V' scale

with w_0 the largest eigenvalue and a scale that gives a drawn row the mean length ``length``. Turning back by V' leaves
every feature about where it was and makes the matrix a smooth function of C, so that machines which round differently
agree; its numbers are rounded to multiples of 2**-20 for the same reason. With ``directions`` only so many of the
longest directions are kept, and features are not turned back.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.extensions.provenance import Origin, origin_of
from dpmac.nets.feature_maps import Chain, FeatureMap, Whitening
from dpmac.priors.base import Prior, refuse_released
from dpmac.priors.content import digest_of
from dpmac.priors.directions import longest, worth_it
from dpmac.showing import shown

ROWS = 20_000
_GRID = 2.0**20
_BLOCK = 2_048  # rows that are mapped at a time
_MEASURED = 4_096  # rows that tell the mean length, where there are many features: within a thousandth
_KEPT = 8  # whitenings that a process remembers
_known: OrderedDict[str, Whitening] = OrderedDict()


@dataclass(frozen=True)
class WhiteningOptions:
    """How a feature map is whitened: see the module. ``rows`` is how many rows the prior draws."""

    power: float = 0.5
    floor: float = 1e-3
    length: float = 6.0
    directions: int | None = None
    rows: int = ROWS

    def __post_init__(self) -> None:
        number("power", self.power, "give a number from 0 (no whitening) to 0.5 (equal variances)", low=0.0, high=1.0)
        number("floor", self.floor, "give a number above 0, such as 0.001", low=1e-12, high=1.0)
        number("length", self.length, "give the mean length of a drawn row, such as 6", low=1e-6, high=1e6)
        integer("rows", self.rows, "give how many rows to draw, at least 2", low=2, high=10**6)
        if self.directions is not None:
            integer("directions", self.directions, "give how many directions to keep, or None for all")


def whitened(feature_map: FeatureMap, prior: Prior, options: WhiteningOptions | None = None) -> Chain:
    """``feature_map``, then the whitening that ``prior`` gives: public, and the same for the same arguments.

    It is computed in seconds, and once only for the same content. What private releases have shaped the feature map
    have shaped the whitening, too, and it knows; a prior that a release has shaped is refused.
    """
    if not isinstance(prior, Prior):
        raise ArgumentError("prior", prior, "give a dpmac.priors.Prior, such as SchemaPrior(schema)")
    refuse_released("prior", prior)
    chosen = options
    if chosen is None:
        chosen = WhiteningOptions()
    known = Origin.merged(origin_of(feature_map, name="feature_map"), origin_of(prior, name="prior"))
    key = digest_of(feature_map, prior, known, asdict(chosen))
    if key not in _known:
        made = _whitening(feature_map, prior, chosen)
        made.origin = known  # its numbers are moments of what the feature map gave
        _known[key] = made
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return Chain((feature_map, _known[key]))


@torch.no_grad()
def _whitening(feature_map: FeatureMap, prior: Prior, options: WhiteningOptions) -> Whitening:
    features = _features(feature_map, prior.drawn(options.rows), options.directions)
    rows, centre = len(features), features.mean(dim=0, dtype=torch.float64)
    features -= centre.to(features.dtype)
    if worth_it(features.shape[1], options.directions):
        values, vectors = longest(features, options.directions or 0)
        features = features[:_MEASURED]
    else:
        values, vectors = torch.linalg.eigh(features.T @ features / len(features))
        values, vectors = values.flip(0).clamp(min=0.0), vectors.flip(1)
    if float(values[0]) <= 0:
        raise ArgumentError("prior", prior.described(), "all drawn rows have the same features: draw others")
    matrix = vectors * (values / values[0] + options.floor) ** -options.power
    if options.directions is None:
        matrix = matrix @ vectors.T
    else:
        matrix = matrix[:, : options.directions]
    scale = options.length / _mean_length(features, matrix.to(features.dtype))
    said = f"{rows:,} rows {prior.described()}"
    return Whitening(_rounded(centre), _rounded(matrix * scale), said)


def _mean_length(features: Tensor, matrix: Tensor) -> Tensor:
    """The mean length of whitened rows, block by block: all of them would take as much memory as the features."""
    lengths = [torch.linalg.vector_norm(block @ matrix, dim=1) for block in torch.split(features, _BLOCK)]
    return torch.cat(lengths).mean().double()


def _features(feature_map: FeatureMap, rows: Tensor, directions: int | None) -> Tensor:
    """The features of drawn rows, flat; a row whose features are not finite is left out. Many features of which few
    directions are kept are in single precision. They are written into one tensor: blocks put together at the end would
    take twice the memory."""
    found, kept, seen = torch.empty(0), 0, 0
    with shown("mapping drawn rows") as tell:
        for block in torch.split(rows, _BLOCK):
            mapped = feature_map(block).flatten(1)
            if seen == 0:
                found = _empty(len(rows), mapped.shape[1], directions)
            mapped = mapped.to(found.dtype)
            mapped = mapped[torch.isfinite(mapped).all(dim=1)]
            found[kept : kept + len(mapped)] = mapped
            kept, seen = kept + len(mapped), seen + len(block)
            tell(seen, len(rows))
    if kept < 2:
        raise ArgumentError("prior", f"{kept} rows with finite features", "whitening needs at least 2")
    return found[:kept]


def _empty(rows: int, width: int, directions: int | None) -> Tensor:
    """Where features are written to."""
    if worth_it(width, directions):
        return torch.empty(rows, width, dtype=torch.float32)
    return torch.empty(rows, width, dtype=torch.float64)


def _rounded(numbers: Tensor) -> Tensor:
    return torch.round(numbers * _GRID) / _GRID
