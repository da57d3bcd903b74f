"""Principal components under differential privacy, with an epsilon."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any

import numpy as np
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.arguments import estimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.coder import ENDLESS, MEAN, Coder
from dpmac.methods import DPPCA, DPMean, ReleasedMean, ReleasedPCA
from dpmac.privacy import Ledger, Origin, PrivateRows
from dpmac.randomness import NoiseSource

RADIUS = 1.25  # of the rows' spread: beyond it they are pulled back
SHARES = (("mean", MEAN), ("DP-PCA", 1.0 - MEAN))


@estimator
class DPMACPCA(Coder):
    """Differentially private principal components, about a private mean.

    Two releases, of the mean (with MEAN of the budget) and of the second moments about it (with the rest); all else
    follows from them and is free. After ``fit`` the model is (epsilon, delta)-differentially private for one row, there
    or blank; with ``groups`` for one person with all their rows. ``privacy_`` holds the proof. Rows are coded as they
    are: only what is *released* is clipped.

    Parameters
    ----------
    n_components : directions to keep; None keeps 8, or as many as there are inputs.
    normalise : give every row the same weight, however far from the mean; otherwise distant rows have more, up to
        a limit.
    others : those of :class:`~dpmac.estimators.arguments.Arguments`. Arrays without a ``feature_range`` should lie
        within [-1, 1]. With a schema a number is one input in [-1, 1] (and, if its range is wide, another of its
        logarithm), a category is one-hot. Nothing is trained, so ``micro_batch_size``, ``threads`` and ``checkpoint``
        of the machine are not used.

    Attributes
    ----------
    components_ (n_components, inputs), orthonormal rows, the largest first; mean_ (inputs); explained_variance_ and
    explained_variance_ratio_, noisy, of the rows as they were clipped; n_components_; n_features_in_; feature_map_ (the
    public map from rows to inputs, or None: ``feature_map_.get_feature_names_out()`` names a table's inputs); pca_ (the
    :class:`~dpmac.methods.ReleasedPCA`); privacy_.
    """

    n_components: int | None = field(default=None, kw_only=False)
    normalise: bool = False

    @alone_with_ledger
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> DPMACPCA:  # noqa: ARG002 - scikit-learn's signature
        """Release the mean and the second moments of ``X`` (rows, features). Everything is checked before.

        ``X`` may be in files, and ``groups`` says whose each row is, as of :class:`DPMACClassifier`.
        """
        given = self._look_over(X, groups=groups)
        width = self._width(given.x.shape[1])
        kept = self._kept("n_components", self.n_components, width)
        if not isinstance(self.normalise, bool | np.bool_):
            raise ArgumentError("normalise", self.normalise, "give True or False")

        def make(
            table: PrivateRows, sigma: float, source: NoiseSource, ledger: Ledger
        ) -> tuple[ReleasedMean, ReleasedPCA]:
            first, second = (sigma / math.sqrt(share) for _, share in SHARES)
            middle = DPMean(first, radius=self._reach(width)).fit(table, source, ledger)
            if sigma:
                radius = RADIUS * middle.spread
            else:
                radius = ENDLESS
            method = DPPCA(kept, second, middle.mean, radius, bool(self.normalise))
            return middle, method.fit(table, source, ledger)

        (middle, found), made_of = self._release(given, SHARES, make)
        self.pca_ = replace(found, origin=Origin.merged(found.origin, made_of))
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
