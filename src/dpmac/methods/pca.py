"""DP-PCA: principal components of a second-moment matrix that is released once, with Gaussian noise.

Every row is moved by a public ``centre``, divided by a public ``radius`` and clipped to norm 1, by itself. One row
blanked or filled in moves sum_n x_n x_n^T by x x^T, of Frobenius norm ||x||^2 <= 1, so noise of standard deviation
``noise_multiplier`` on every coordinate is one unsampled Gaussian mechanism of sensitivity 1. Averaging the noisy
matrix with its transpose, eigenvectors, codes and whatever is built from them are post-processing, and free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.mac.released import eigen, tamed
from dpmac.methods.objective import learn_from_all_rows
from dpmac.methods.tables import check_table, private_table, public_ball
from dpmac.nets.feature_maps import Ball, Projection
from dpmac.nets.files import read_tensors, rebuilding, write_tensors
from dpmac.old_names import OldAttribute
from dpmac.privacy import Answer, GramPart, Ledger, Mechanism, Partition, PrivateRows, Query
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

FORMAT = "dpmac-pca-1"
LABEL = "DP-PCA"
MOMENT = "second moments"


@dataclass(frozen=True, eq=False)  # a centre may be a tensor, and tensors have no truth value to compare by
class DPPCA:
    """What to release, fixed before a row is touched. Everything here must be public.

    ``components`` directions are kept. ``centre`` (one number, or one per feature) is subtracted from every row; it
    must not be computed from the rows, and nothing is re-centred later, so these are components of the *second
    moment* about ``centre``: if the data's mean lies elsewhere, the first component will spend itself on it.

    ``radius`` is the distance from ``centre`` beyond which a row is pulled back. None takes sqrt(d), which no row
    exceeds whose features lie within 1 of the centre. The noise is fixed relative to the radius, so a smaller one
    gives a better signal until it clips away what matters. With ``normalise`` every row is put *on* the sphere instead
    of into the ball: the radius then does not influence the components, and long rows count no more than short ones.

    ``noise_multiplier`` 0 gives the exact components and no privacy, and the ledger will say so.
    """

    components: int
    noise_multiplier: float
    centre: float | Tensor = 0.0
    radius: float | None = None
    normalise: bool = False

    def __post_init__(self) -> None:
        fix = "give the number of directions to keep, at least 1"
        object.__setattr__(self, "components", integer("components", self.components, fix))
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        if self.radius is not None:
            number("radius", self.radius, "give a public number above 0, or None for sqrt(d)", low=1e-30, high=1e30)
        if isinstance(self.centre, Tensor):
            if self.centre.dim() > 1 or not bool(torch.isfinite(self.centre).all()):
                raise ArgumentError("centre", self.centre, "give a finite public number, or one for each feature")
        else:
            number("centre", self.centre, "give a finite public number", low=-1e30, high=1e30)

    def mechanism(self) -> Mechanism:
        """What :meth:`fit` will cost, for ``Plan.before``."""
        return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)

    def fit(
        self, x: Tensor | PrivateRows, source: NoiseSource, ledger: Ledger, *, micro_batch: int | None = None
    ) -> ReleasedPCA:
        """Release the second moments of ``x`` (n, d) and take their leading components.

        Adds exactly one event to ``ledger``: a Gaussian mechanism of this noise multiplier on all rows. Bad arguments
        raise :class:`ArgumentError` and spend nothing. The noise comes from ``source.spawn("DP-PCA")``: fresh at every
        call, unless the source is seeded, which replays it. A table may come behind a feature map
        (``PrivateRows(x).behind(feature_map)``): its components are then those of the feature map's outputs.
        """
        table = private_table("x", x)
        ball = self._ball(table)
        moments = SecondMoments(self, ball)
        learn_from_all_rows(
            moments,
            table,
            noise_multiplier=self.noise_multiplier,
            source=source.spawn(LABEL),
            ledger=ledger,
            micro_batch=micro_batch,
        )
        moment = moments.released
        eigenvalues, directions = leading(moment, self.components)
        table.world.spread([eigenvalues, directions])  # machines that are not alike round otherwise
        known = Origin.of(ledger, table.origin)
        return ReleasedPCA(signed(directions), eigenvalues, moment, ball, self.noise_multiplier, known)

    def query(self, ball: Ball) -> Query:
        """The sum of x x^T over rows brought into the ball."""
        d = len(ball.centre)

        def parts(rows: Tensor) -> list[GramPart]:
            return [GramPart(torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device), ball(rows))]

        return Query(LABEL, (Partition(MOMENT, (1, d, d), 1.0, symmetric=True),), parts)

    def _ball(self, table: PrivateRows) -> Ball:
        """The public ball for rows of this table."""
        if table.n < 2:
            raise ArgumentError("x", f"{table.n} rows", "give at least 2 rows")
        d = math.prod(table.shapes[0])
        if self.components > d:
            raise ArgumentError("components", self.components, f"the rows have {d} features: keep at most {d}")
        return public_ball(self.centre, self.radius, d, self.normalise).to(table.device)


@dataclass(eq=False)
class SecondMoments:
    """The objective of DP-PCA: ``released`` is the noisy sum of x x^T over rows in the ball."""

    method: DPPCA
    ball: Ball
    released: Tensor = field(init=False)

    def query(self) -> Query:
        return self.method.query(self.ball)

    def apply(self, answer: Answer) -> None:
        self.released = tamed(answer[MOMENT][0])


@dataclass(frozen=True, eq=False)
class ReleasedPCA:
    """The released matrix and its leading components. All of it is public; using it costs nothing.

    ``components`` (k, d) are orthonormal rows, largest eigenvalue first, each with its largest entry positive.
    ``moment`` (d, d) is the noisy sum of x x^T over the scaled rows, and ``eigenvalues`` are its largest: both grow
    with n, and an eigenvalue near ``noise_multiplier * sqrt(2 d)`` or below is mostly noise. ``origin`` are the
    releases that it comes from, which every feature map and network that is made of it knows.
    """

    components: Tensor
    eigenvalues: Tensor
    moment: Tensor
    ball: Ball
    noise_multiplier: float
    origin: Origin = PUBLIC

    @property
    def centre(self) -> Tensor:
        return self.ball.centre

    @property
    def radius(self) -> float:
        return self.ball.radius

    front = OldAttribute("feature_map")

    def mechanism(self) -> Mechanism:
        """What the release cost, for ``Plan.before``."""
        return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)

    def feature_map(self, length: float | None = None) -> Projection:
        """The map from raw rows to their codes, for a model: each code scaled to ``length``, if that is given.

        Private rows go through it inside the release: ``Trainer(feature_map=pca.feature_map())``.
        """
        ball = self.ball
        made = Projection(self.components, ball.centre, ball.radius, ball.normalise, length)
        made.origin = self.origin
        return made

    def transform(self, x: Tensor) -> Tensor:
        """Codes (n, k) of *public* rows (n, d): scaled and clipped exactly as in fitting, then projected; row by row.

        Every code has norm at most 1. Codes of private rows are private, and must not be made for a whole table
        beforehand (the shape of the product, and so its rounding, would depend on every row): use :meth:`feature_map`.
        """
        check_table("x", x, self.components.shape[1])
        codes: Tensor = self.feature_map().to(x.device)(x)
        return codes.to(x.dtype)

    def reconstruct(self, codes: Tensor) -> Tensor:
        """Rows (n, d) on the original scale from codes (n, k): the projection of rows that were not clipped.

        Rows that were clipped (or normalised) come back at the length that they were given.
        """
        check_table("codes", codes, self.components.shape[0])
        scaled = codes.double() @ self.components.to(codes.device)
        return (self.centre.to(codes.device) + self.radius * scaled).to(codes.dtype)

    def within(self, basis: Tensor) -> ReleasedPCA:
        """The same release, with components sought only among the span of public directions ``basis`` (m, d).

        Costs nothing. Its rows must be orthonormal and must not come from private rows. Noise has no structure and data
        often have: where m directions hold what matters (low frequencies of an image), the noise in the other d - m
        can no longer be taken for signal. ``moment`` stays what was released.
        """
        k, d = self.components.shape
        check_table("basis", basis, d)
        rows = basis.to(self.moment)
        eye = torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
        if not k <= len(rows) <= d or not torch.allclose(rows @ rows.T, eye, atol=1e-5):
            shape = f"shape {tuple(basis.shape)}"
            raise ArgumentError("basis", shape, f"give at least {k} and at most {d} orthonormal rows")
        eigenvalues, directions = leading(rows @ self.moment @ rows.T, k)
        return replace(self, components=signed(directions @ rows), eigenvalues=eigenvalues)

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file."""
        header: dict[str, Any] = {"format": FORMAT, "radius": self.radius, "normalise": self.ball.normalise}
        header |= {"noise_multiplier": self.noise_multiplier, "origin": self.origin.to_dict()}
        write_tensors(path, header, {name: getattr(self, name) for name in _TENSORS})

    @classmethod
    def load(cls, path: str | Path) -> ReleasedPCA:
        """Read what :meth:`save` wrote. No code is ever executed from the file."""
        header, tensors = read_tensors(path, FORMAT, "a dpmac PCA")
        with rebuilding(path, "PCA"):
            components, eigenvalues, moment, centre = (tensors[name] for name in _TENSORS)
            ball = Ball(centre, float(header["radius"]), bool(header["normalise"]))
            known = Origin.from_dict(header.get("origin"))
            return cls(components, eigenvalues, moment, ball, float(header["noise_multiplier"]), known)


_TENSORS = ("components", "eigenvalues", "moment", "centre")


def leading(moment: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest eigenvalues of a symmetric matrix, in falling order, and their eigenvectors as rows.

    Largest *algebraically*: noise makes eigenvalues as negative as it makes others positive, and by singular values a
    direction of pure negative noise would pass for signal.
    """
    values, vectors = eigen(moment)
    return values.flip(0)[:k].clone(), vectors.T.flip(0)[:k]


def signed(rows: Tensor) -> Tensor:
    """Each row or its negative, whichever has its largest entry positive: eigenvectors have no sign of their own."""
    largest = rows.gather(1, rows.abs().argmax(dim=1, keepdim=True))
    return torch.where(largest < 0, -rows, rows)
