"""Additive models: a sum of one function a column, and of the pairs that are asked for. It can be read, term by term.

The fit is that of a linear model on the table's codes; afterwards the model *becomes* the sum of its terms
(:mod:`dpmac.estimators.term_values`): ``feature_map_`` gives the weights of the terms' points, and the weights of
``network_`` are the terms' values there. All of that is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.arguments import Arguments, estimator
from dpmac.estimators.base import Outputs
from dpmac.estimators.edits import Edited
from dpmac.estimators.given import Given
from dpmac.estimators.mapped import Mapped
from dpmac.estimators.monotone import checked_directions, monotone_values
from dpmac.estimators.term_values import Linear, noise_at_points, numbers, paired, trained
from dpmac.estimators.terms import Terms
from dpmac.mac import Averaged, NoiseGain, WStep
from dpmac.mac.wsteps.gain import NoiseGainUpdater
from dpmac.nets import Network
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.layers import Dense
from dpmac.planning.plan import STEP, Plan
from dpmac.privacy import Partition, PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.tables import TermEncoder
from dpmac.tables.terms import checked_pairs
from dpmac.training.defaults import Defaults

WIDENED = 1.0051  # of a release's noise by the count of its sample, at most (dpmac.kernels.padding)


@estimator
class AdditiveArguments(Arguments):
    """Arguments of every estimator that can be additive.

    Parameters
    ----------
    additive : True for a sum of one function a column of the ``schema``, which :meth:`terms` gives exactly; a list of
        pairs of columns, ``[("age", "hours")]``, for a function of each of these as well.
    monotone : ``{"age": +1}``: the prediction never falls with age (-1: never rises), all else equal; of an additive
        model. The released terms are projected, which costs no privacy.
    """

    additive: bool | Sequence[tuple[str, str]] = False
    monotone: Mapping[str, int] | None = field(default=None)


class Additive(AdditiveArguments, Edited, Mapped):
    """An estimator of tables that may be additive."""

    term_noise_: Any  # (outputs, points): the deviation of the noise on each value; zeros without noise
    _gain: list[NoiseGainUpdater]  # during a fit

    # --- what is asked ------------------------------------------------------------------------------------------------

    def _is_additive(self) -> bool:
        given: Any = self.additive
        if isinstance(given, bool | np.bool_):
            return bool(given)
        if isinstance(given, str) or not isinstance(given, Sequence):
            fix = 'give True, False, or pairs of columns by name, such as [("age", "hours")]'
            raise ArgumentError("additive", given, fix)
        return True

    def _pairs(self) -> Any:
        if isinstance(self.additive, bool | np.bool_):
            return ()
        return self.additive

    def _check_budget(self) -> None:
        """And what an additive model cannot be: said before a row is read."""
        super()._check_budget()
        if not self._is_additive():
            if self.monotone:
                fix = "only an additive model has terms to project: give additive=True"
                raise ArgumentError("monotone", self.monotone, fix)
            return
        encoder = self._encoder()
        if encoder is None:
            fix = "its terms are functions of a table's columns: give a schema (dpmac.tables.Schema)"
            raise ArgumentError("additive", self.additive, fix)
        if self.feature_map is not None:
            fix = "an additive model is one of the columns themselves: leave one of the two out"
            raise ArgumentError("feature_map", type(self.feature_map).__name__, fix)
        self._hidden()
        checked_pairs(encoder.schema, self._pairs())
        checked_directions(encoder.schema, self.monotone or {})

    def _hidden(self) -> tuple[int, ...] | None:
        found = super()._hidden()
        if not self._is_additive():
            return found
        if found:
            fix = "hidden units would mix the columns: leave it out, or leave additive out"
            raise ArgumentError("hidden_layer_sizes", self.hidden_layer_sizes, fix)
        return ()

    # --- how it is trained --------------------------------------------------------------------------------------------

    def _feature_map(self, width: int, bins: int | None = None) -> FeatureMap | None:
        found = super()._feature_map(width, bins)
        if not self._is_additive() or found is None:
            return found
        return paired(found, self._term_encoder(bins))

    def _term_encoder(self, bins: int | None) -> TermEncoder:
        if bins is None:
            bins = self._bins
        assert self.schema is not None
        return TermEncoder(self.schema, bins, pairs=self._pairs())

    def _defaults(self, own: Plan) -> Defaults:
        """With coarse codes: finer ones gain little, and make terms much rougher."""
        found = super()._defaults(own)
        if self._is_additive():
            return replace(found, bins=min(found.bins, self._bins))
        return found

    def _map_of(self, given: Given, defaults: Defaults) -> FeatureMap | None:
        self._trained_bins = self._bins_of(defaults)
        return super()._map_of(given, defaults)

    def _train(
        self, given: Given, targets: Tensor | None, loss: Any, **more: Any
    ) -> tuple[PrivateRows, Outputs, NoiseSource]:
        for name in ("edits_", "term_noise_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self._is_additive():
            self._gain = []
            several = getattr(loss, "name", "") == "multilabel"
            if self.monotone and targets is not None and targets.shape[1] > 2 and not several:
                raise ArgumentError("monotone", dict(self.monotone), _MANY)
        return super()._train(given, targets, loss, **more)

    def _wstep(self, rate: float, defaults: Defaults, plan: Plan) -> WStep:
        """Where there is noise, what becomes of it in the weights is followed."""
        found = super()._wstep(rate, defaults, plan)
        if not self._is_additive() or not plan.noise_multiplier or not isinstance(found, Averaged):
            return found
        scale = self._bound(defaults).promise([Partition("layer 1", (1,))])[0].scale or 0.0
        return NoiseGain(found, plan.noise_multiplier * scale / plan.batch_size, self._gain)

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def _become_additive(self, slope: float = 1.0) -> None:
        """The end of a fit: the model as the sum of its terms. ``slope`` is what a calibration did to the weights."""
        if not self._is_additive():
            return
        encoder, before = self._term_encoder(self._trained_bins), self.feature_map_
        assert before is not None
        layer = self.network_.weight_layers[-1]
        assert isinstance(layer, Dense)
        signs = self._contrast(layer.out_features)
        whole = trained(numbers(layer.weight), numbers(layer.bias), before, encoder).centred(encoder)
        kept = Linear(signs @ whole.values, signs @ whole.constant)
        spread = np.zeros_like(kept.values)
        if self._gain:
            deviation = numbers(self._gain[0].deviations()[0]) * self._noise_of_a_gradient() * abs(slope)
            spread = np.sqrt(np.square(signs) @ np.square(noise_at_points(deviation, before, encoder)))
        self.term_noise_, self.edits_ = spread, ()
        self.__dict__.pop("_gain", None)
        self.__dict__.pop("_trained_bins", None)
        self._put(encoder, kept)
        if self.monotone:
            directions = checked_directions(encoder.schema, self.monotone)
            self._write_values(monotone_values(self._values(), encoder, directions))

    def _contrast(self, outputs: int) -> Any:
        """What is kept of the outputs (outputs, outputs): of two classes the second less the first, of more what each
        is above their mean. Probabilities stay as they are."""
        if not self._of_classes():
            return np.eye(outputs)
        if outputs == 2:
            return np.array([[0.0, 0.0], [-1.0, 1.0]])
        return np.eye(outputs) - 1.0 / outputs

    def _of_classes(self) -> bool:
        """Whether the outputs are one softmax."""
        return hasattr(self, "classes_") and getattr(self, "_indicator", None) is None

    def _noise_of_a_gradient(self) -> float:
        """The deviation of the noise on every released mean gradient; the largest, where a bound learns."""
        plan, names = self.plan_, set(self.network_.layer_names)
        own = [
            e for e in self.privacy_.ledger.entries if (e.label, e.noise_multiplier) == (STEP, plan.noise_multiplier)
        ]
        most = max(
            (scale for e in own[-plan.steps :] for name, scale in e.scales.items() if name in names), default=0.0
        )
        return WIDENED * plan.noise_multiplier * most / plan.batch_size

    def _put(self, encoder: TermEncoder, kept: Linear) -> None:
        network = Network(
            [Dense(encoder.n_features_out, len(kept.values))], input_shape=(encoder.n_features_out,), source=None
        ).double()
        layer = network.weight_layers[-1]
        with torch.no_grad():
            layer.write(torch.from_numpy(np.column_stack([kept.values, kept.constant])))
        network.origin = self.network_.origin
        network.to(self.network_.device)
        self.network_, self.feature_map_ = network, encoder.to(self.network_.device)
        self.run_ = replace(self.run_, model=network, feature_map=encoder)

    # --- reading it ---------------------------------------------------------------------------------------------------

    def terms(self) -> Terms:
        """Every term, exactly; their sum and the intercept are what :meth:`decision_function` gives (of a regressor
        the prediction, before it is clipped to its range)."""
        return Terms(self._additive_model())

    def explain(self, X: Any) -> dict[str, Any]:
        """What each term says of each row: arrays (rows,), of several outputs (rows, outputs), by the term's name, and
        the "intercept", alike for all. Their sum is what :meth:`decision_function` gives, or the prediction of a
        regressor before it is clipped. They are as private as the row is."""
        model = self._additive_model()
        found = model.contributions(self._raw(X))
        return {name: self._handed_out(values) for name, values in found.items()}


_MANY = (
    "of more than two classes no term alone makes a probability rise: it is for two classes, labels of several, or "
    "numbers"
)
