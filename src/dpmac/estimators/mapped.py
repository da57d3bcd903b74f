"""Between the encoded rows and the network: a public feature map of the user's own, and whitening by a prior."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from torch import nn

from dpmac.checks import ArgumentError
from dpmac.estimators.arguments import Arguments, estimator
from dpmac.estimators.base import Outputs, PrivateEstimator
from dpmac.estimators.given import Given
from dpmac.estimators.warning import warn_of_values
from dpmac.nets.feature_maps import Chain, FeatureMap, Whitening
from dpmac.nets.feature_maps.saving import packed_feature_map
from dpmac.planning.plan import Plan
from dpmac.priors import Prior, SchemaPrior, WhiteningOptions, whitened
from dpmac.privacy import PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.showing import showing
from dpmac.training.defaults import Defaults, Schedule, defaults_for, penalty_for, schedule_for, whitens
from dpmac.training.progress import progress_bar
from dpmac.training.texts import SHARE, text_defaults

WIDEST = 700  # inputs of a whitened row: the matrix is that wide and high


@estimator
class FeatureMapArguments(Arguments):
    """Arguments of every estimator that takes a feature map of the user's own.

    Parameters
    ----------
    feature_map : a public :class:`dpmac.nets.feature_maps.FeatureMap` that rows pass behind ``feature_range`` or the
        schema's encoding, such as :class:`dpmac.modules.FrozenModule`, an encoder that was trained on public data.
    prior : what is known before any row is seen, used to whiten the inputs (:mod:`dpmac.priors`); it costs no privacy,
        and the statement names it. "auto" draws rows from the schema alone where that was found to help; without a
        schema, or with ranges that were estimated from rows, there is none. None never whitens; a
        :class:`dpmac.priors.Prior` always does.
    """

    feature_map: FeatureMap | None = None
    prior: Prior | Literal["auto"] | None = "auto"


class Mapped(FeatureMapArguments, PrivateEstimator):
    """An estimator whose rows pass a feature map of the user's own, behind the one that their range or schema gives."""

    def _feature_map(self, width: int, bins: int | None = None) -> FeatureMap | None:
        self._prior()  # what it is not is said before anything else
        first = super()._feature_map(width, bins)
        if self.feature_map is None:
            return first
        if not isinstance(self.feature_map, FeatureMap):
            given: Any = self.feature_map
            if isinstance(given, nn.Module):
                given = type(given).__name__
            fix = "give a dpmac.nets.feature_maps.FeatureMap, such as dpmac.modules.FrozenModule(encoder, ...), or None"
            raise ArgumentError("feature_map", given, fix)
        _check_kept(self.feature_map)
        if first is None:
            return self.feature_map
        return Chain((first, self.feature_map))

    @property
    def _drawn(self) -> bool:
        """Whether rows can be drawn from the schema."""
        return self.prior == "auto" and self._prior() is not None

    def _schedule(self, n: int) -> Schedule:
        return schedule_for(n, whitened=self._drawn and not self._regression and whitens(n, regression=False))

    def _defaults(self, own: Plan) -> Defaults:
        hidden, encoder = self._hidden(), self._encoder()
        found = defaults_for(own, regression=self._regression, hidden=hidden, drawn=self._drawn)
        if self._drawn and encoder is not None and encoder.dense_share >= SHARE:
            found = text_defaults(found, own, regression=self._regression, free=hidden is None)
        if own.noise_multiplier:
            return found
        return replace(found, penalty=penalty_for(own.n, regression=self._regression))

    def _train(self, *given: Any, **more: Any) -> tuple[PrivateRows, Outputs, NoiseSource]:
        """With a bar for mapping rows, where that takes long; without progress a bar of the caller's own stays."""
        show = self._world.leads and self._machine.progress
        if show is False:
            return super()._train(*given, **more)
        with showing(partial(progress_bar, show=show, unit="rows", patience=2.0)):
            return super()._train(*given, **more)

    def _map_of(self, given: Given, defaults: Defaults) -> FeatureMap | None:
        warn_of_values(self._encoder(), given, self.epsilon, self._world.leads)
        whole = self._feature_map(given.x.shape[1], self._bins_of(defaults))
        prior = self._prior()
        if whole is None or prior is None:
            return whole
        options = WhiteningOptions()
        if self.prior == "auto":
            if defaults.whitening is None:
                return whole
            options = WhiteningOptions(power=defaults.whitening)
        return self._agreed(whitened(whole, prior, options))

    def _agreed(self, chain: Chain) -> Chain:
        """The whitening in every process as the leader's, to the last bit."""
        last = chain.feature_maps[-1]
        assert isinstance(last, Whitening)
        self._world.spread([last.centre, last.matrix])
        return chain

    def _bins_of(self, defaults: Defaults) -> int:
        """The pieces of a number's code: fewer, down to 12, where a table of many columns would become too wide."""
        bins, encoder = defaults.bins, self._encoder(defaults.bins)
        while encoder is not None and encoder.n_features_out > WIDEST and bins > self._bins:
            bins = max(self._bins, bins // 2)
            encoder = self._encoder(bins)
        return bins

    def _prior(self) -> Prior | None:
        """The prior that was given, or the one that is drawn from the schema; None if there is none."""
        if self.prior is None or isinstance(self.prior, Prior):
            return self.prior
        if not isinstance(self.prior, str) or self.prior != "auto":
            raise ArgumentError("prior", self.prior, "give a dpmac.priors.Prior, 'auto', or None")
        encoder = self._encoder()
        if encoder is None or self.feature_map is not None or encoder.schema.origin.runs:
            return None
        return SchemaPrior(encoder.schema)


def _check_kept(feature_map: FeatureMap) -> None:
    """Raise unless a file can keep the feature map, which must not be found out when the fit is paid for."""
    try:
        json.dumps(packed_feature_map(feature_map, "map", {}), allow_nan=False)
    except ArgumentError:
        raise
    except (NotImplementedError, TypeError, ValueError) as error:
        said = f" ({error})".replace(" ()", "")
        fix = f"no file can keep it{said}: its arguments() must give plain values, tensors, modules and feature maps"
        raise ArgumentError("feature_map", type(feature_map).__name__, fix) from error


def own_part(estimator: Mapped, whole: FeatureMap) -> FeatureMap:
    """The user's own feature map in the one that a fit made of it; ValueError if there is none in it."""
    if isinstance(whole, Chain) and isinstance(whole.feature_maps[-1], Whitening):
        inner = whole.feature_maps[0]
        assert isinstance(inner, FeatureMap)
        whole = inner
    if estimator.schema is None and estimator.feature_range is None:
        return whole
    if not isinstance(whole, Chain):
        raise ValueError("the arguments have a feature map of the user's own, and the model has none")
    last = whole.feature_maps[1]
    assert isinstance(last, FeatureMap)
    return last
