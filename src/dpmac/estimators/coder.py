"""What PCA and the autoencoder share: rows to codes and back, how far the way back misses, and a budget in shares."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.estimators.arguments import TableArguments
from dpmac.estimators.arrays import exact_array
from dpmac.estimators.given import Given
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.rows import Array, OnRows
from dpmac.estimators.stages import stage_before
from dpmac.estimators.warning import counted, warn_of_scales
from dpmac.extensions.outputs import remember
from dpmac.extensions.provenance import check_split
from dpmac.nets.feature_maps import FeatureMap, ToRange
from dpmac.planning.calibration import calibrate
from dpmac.privacy import Ledger, Mechanism, Origin, PrivateRows, check_origin
from dpmac.randomness import NoiseSource, noise_source
from dpmac.tables import TableEncoder
from dpmac.tables.decoder import cells_near, longest
from dpmac.training.distributed_sync import books

MEAN = 0.05  # of the budget, for the mean
DEFAULT_CODE = 8
ENDLESS = 1e9  # the radius of a ball that clips nothing, for a fit without privacy
Model = TypeVar("Model")
Make = Callable[[PrivateRows, float, NoiseSource, Ledger], Model]
Shares = tuple[tuple[str, float], ...]


class Coder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TableArguments, OnRows):  # type: ignore[misc]
    """An estimator that codes rows and decodes codes, both on the scale of the feature map's outputs, its *inputs*.

    A number of a table is one input in [-1, 1] (and its logarithm, if the range is wide), a category is one-hot. The
    class on it says :meth:`_code_of` and :meth:`_inputs_of`, and fits by :meth:`_release`.
    """

    _made = 16
    _bins = 0  # pieces of a numeric code: an autoencoder gives back numbers, and needs no pieces

    def _code_of(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError

    def _inputs_of(self, codes: Tensor) -> Tensor:
        raise NotImplementedError

    def _origin(self) -> Origin:
        """The releases that codes are made by."""
        raise NotImplementedError

    # --- fitting ------------------------------------------------------------------------------------------------------

    def _look_over(self, X: Any, y: Any = None, groups: Any = None) -> Given:  # noqa: ARG002 - as of the others
        """All that ``fit`` asks of the rows: every cell, and whose the rows are. Nothing is spent."""
        files = self._files(X)
        if files is None:
            return self._checked_rows(X, groups)
        return self._from_files(files, groups)[0]

    def _release(self, given: Given, shares: Shares, make: Make[Model]) -> tuple[Model, Origin]:
        """Whatever ``make(table, noise_multiplier, source, ledger)`` releases, and what has made the rows;
        ``feature_map_`` and ``privacy_`` are set.

        ``shares`` says what will be released, unsampled, with which part of the budget; the noise multiplier s is that
        of all of it, so that a part p must be released at s / sqrt(p). Nothing is spent before all has been checked.
        """
        x = given.x
        delta, device, feature_map = (
            self._delta(given.n),
            self._machine.available_device(),
            self._feature_map(x.shape[1]),
        )
        sigma = _noise_for(shares, float(self.epsilon), delta)
        ledger, source = books(self._world, self.ledger), noise_source(self._seed())
        ledger.check_unit(given.unit, given.n)
        self._check_total(ledger, lambda at: _mechanisms(shares, _noise_for(shares, at, delta)), delta)
        known = check_origin(ledger, delta, schema=feature_map)
        check_split(ledger, known)
        before = stage_before(given.inputs, ledger, _mechanisms(shares, sigma), delta, self._world.leads)
        if feature_map is None and sigma and self._world.leads:
            warn_of_scales(given.few)
        with counted(given.few, self.epsilon, ledger, self.ledger is not None or not self._world.leads):
            rows = given.table().to(device)
            if feature_map is not None:
                rows = rows.behind(feature_map.to(device))
            model = make(rows, sigma, source, ledger)
        if feature_map is not None:
            feature_map = feature_map.cpu()
        self.feature_map_ = feature_map
        self.privacy_ = Privacy(ledger, delta, (*known.notes(), *before.notes))
        return model, before.origin

    def _width(self, raw: int) -> int:
        """The number of inputs of rows of ``raw`` cells."""
        feature_map = self._feature_map(raw)
        if feature_map is None:
            return raw
        return math.prod(feature_map.shape_after((raw,)))

    def _kept(self, name: str, value: int | None, width: int) -> int:
        """The length of the code: as given, or DEFAULT_CODE, and never more than there are inputs."""
        if value is None:
            return min(DEFAULT_CODE, width)
        kept = integer(name, value, "give the length of the code, at least 1, or None")
        if kept > width:
            raise ArgumentError(name, value, f"the rows have {width} inputs: give at most {width}")
        return kept

    def _reach(self, width: int) -> float:
        """A public bound on the norm of inputs; rows without a feature map are pulled back to it."""
        if not math.isfinite(self.epsilon):
            return ENDLESS
        encoder = self._encoder()
        if encoder is None:
            return math.sqrt(width)
        return longest(encoder)

    # --- using --------------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """The codes of rows, float64 (n, length of the code). Codes of private rows are private."""
        check_is_fitted(self, "privacy_")
        codes: Array = self._code_of(self._exact(X)).cpu().numpy()
        remember(codes, self._origin())
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """Rows from codes, in the units of the rows that ``fit`` took.

        With a ``feature_range`` they lie within it. With a ``schema`` a table comes back, a dictionary of columns
        without the target: of each the cell whose code is nearest (``pandas.DataFrame(...)`` makes a frame of it).
        """
        check_is_fitted(self, "privacy_")
        codes = torch.from_numpy(exact_array(X))
        if codes.shape[1] != self._n_features_out:
            fix = f"give codes of {self._n_features_out} numbers, as transform does"
            raise ArgumentError("X", f"{codes.shape[1]} columns", fix)
        return _rows_of(self.feature_map_, self._inputs_of(codes).cpu())

    def reconstruction_error(self, X: Any) -> Array:
        """Of each row, the mean squared difference between its inputs and what comes back: large for rows unlike those
        that were fitted. It is of public rows, or as private as the row."""
        check_is_fitted(self, "privacy_")
        inputs = self._exact(X)
        missed: Array = (self._inputs_of(self._code_of(inputs)) - inputs).square().mean(dim=1).cpu().numpy()
        return missed

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - scikit-learn's signature
        """Minus the mean reconstruction error: higher is better."""
        return -float(self.reconstruction_error(X).mean())

    def _exact(self, X: Any) -> Tensor:
        """The inputs of rows, float64."""
        rows = self._raw(X)
        feature_map = self._feature_map(rows.shape[1])
        if feature_map is not None:
            rows = feature_map(rows)
        return rows.double()

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError


def _rows_of(feature_map: FeatureMap | None, inputs: Tensor) -> Any:
    """Raw rows from inputs, through a feature map that the estimators make."""
    if isinstance(feature_map, TableEncoder):
        return cells_near(feature_map, inputs)
    if isinstance(feature_map, ToRange):
        inputs = (inputs.clamp(-1, 1) + 1) / 2 * (feature_map.high - feature_map.low) + feature_map.low
    return inputs.numpy()


def _mechanisms(shares: Shares, sigma: float) -> list[Mechanism]:
    return [Mechanism(sigma / math.sqrt(share), 1.0, 1, label) for label, share in shares]


def _noise_for(shares: Shares, epsilon: float, delta: float) -> float:
    """The noise multiplier of all shares together; 0 without privacy."""
    if math.isfinite(epsilon):
        return _least_noise(shares, epsilon, delta)
    return 0.0


@functools.lru_cache(maxsize=256)
def _least_noise(shares: Shares, epsilon: float, delta: float) -> float:
    """The least noise at which all shares together meet the budget; public numbers alone, so an answer can be kept."""
    return calibrate(lambda s: _mechanisms(shares, s), epsilon, delta)
