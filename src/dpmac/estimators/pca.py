"""Principal components under differential privacy, with an epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.coder import ENDLESS, MEAN, Coder
from dpmac.extensions.persons import USUAL
from dpmac.extensions.world import World
from dpmac.methods import DPPCA, DPMean, ReleasedMean, ReleasedPCA
from dpmac.privacy import Ledger, Origin, PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.tables import Schema

RADIUS = 1.25  # of the rows' spread: beyond it they are pulled back
SHARES = (("mean", MEAN), ("DP-PCA", 1.0 - MEAN))


class DPMACPCA(Coder):
    """Differentially private principal components, about a private mean.

    Two releases, of the mean (with MEAN of the budget) and of the second moments about it (with the rest); all else
    follows from them and is free. After ``fit`` the model is (epsilon, delta)-differentially private for one row, there
    or blank; with ``groups`` for one person with all their rows. ``privacy_`` holds the proof. Rows are coded as they
    are: only what is *released* is clipped.

    Parameters
    ----------
    n_components : directions to keep; None keeps 8, or as many as there are inputs.
    epsilon : the budget; ``float("inf")`` gives the exact components, and the statement then says "not private".
    delta : must be below 1/n; None takes a power of ten, at most 1e-5 and a tenth of 1/n.
    schema : what is publicly known of a table's columns; rows are then tables, encoded on the private way (a number
        as one input in [-1, 1] and, if its range is wide, another of its logarithm; a category one-hot).
    feature_range : for arrays, ``(low, high)``, numbers or one per feature, public: mapped to [-1, 1] and clipped.
        Without it features should lie within [-1, 1].
    max_rows : rows that a person brings to a release, at most, where ``fit`` is given ``groups``; they are averaged.
    normalise : give every row the same say, however far from the mean; otherwise far rows have more, up to a limit.
    ledger, total_epsilon, random_state, device, world : as of :class:`DPMACClassifier`.

    Attributes
    ----------
    components_ (n_components, inputs), orthonormal rows, the largest first; mean_ (inputs); explained_variance_ and
    explained_variance_ratio_, noisy, of the rows as they were clipped; n_components_; n_features_in_; front_ (the
    public map from rows to inputs, or None: ``front_.get_feature_names_out()`` names a table's inputs); pca_ (the
    :class:`~dpmac.methods.ReleasedPCA`); privacy_.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 2.0,
        delta: float | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        feature_range: tuple[Any, Any] | None = None,
        max_rows: int = USUAL,
        normalise: bool = False,
        ledger: Ledger | str | Path | None = None,
        total_epsilon: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        world: World | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.feature_range = feature_range
        self.max_rows = max_rows
        self.normalise = normalise
        self.ledger = ledger
        self.total_epsilon = total_epsilon
        self.random_state = random_state
        self.device = device
        self.world = world

    @alone_with_ledger
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> DPMACPCA:  # noqa: ARG002 - scikit-learn's signature
        """Release the mean and the second moments of ``X`` (rows, features). Everything is checked before.

        ``X`` may be in files, and ``groups`` says whose each row is, as of :class:`DPMACClassifier`.
        """
        files = self._files(X)
        given = self._checked_rows(X, groups) if files is None else self._from_files(files, groups)[0]
        width = self._width(given.x.shape[1])
        kept = self._kept("n_components", self.n_components, width)
        if not isinstance(self.normalise, bool | np.bool_):
            raise ArgumentError("normalise", self.normalise, "give True or False")

        def make(
            table: PrivateRows, sigma: float, source: NoiseSource, ledger: Ledger
        ) -> tuple[ReleasedMean, ReleasedPCA]:
            first, second = (sigma / math.sqrt(share) for _, share in SHARES)
            middle = DPMean(first, radius=self._reach(width)).fit(table, source, ledger)
            radius = RADIUS * middle.spread if sigma else ENDLESS
            method = DPPCA(kept, second, middle.mean, radius, bool(self.normalise))
            return middle, method.fit(table, source, ledger)

        (middle, found), made_of = self._release(given, SHARES, make)
        self.pca_ = replace(found, origin=Origin.together(found.origin, made_of))
        self.n_components_ = kept
        self.mean_ = self.pca_.centre.cpu().numpy()
        self.components_ = self.pca_.components.cpu().numpy()
        whole = max(float(self.pca_.moment.trace()), 1e-300)
        self.explained_variance_ratio_ = (self.pca_.eigenvalues / whole).clamp(0, 1).cpu().numpy()
        self.explained_variance_ = self.explained_variance_ratio_ * middle.spread**2
        return self

    def _code_of(self, inputs: Tensor) -> Tensor:
        rows = inputs.to(self.pca_.components.device)
        return (rows - self.pca_.centre) @ self.pca_.components.transpose(0, 1)

    def _inputs_of(self, codes: Tensor) -> Tensor:
        return codes.to(self.pca_.components) @ self.pca_.components + self.pca_.centre

    def _origin(self) -> Origin:
        return self.pca_.origin

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
