"""The autoencoder: codes of rows, rows from codes, and how unlike the others a row is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, number
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import PrivateEstimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.coder import ENDLESS, MEAN, Coder, Shares
from dpmac.estimators.given import Given
from dpmac.methods import ClosedForm, ClosedFormAutoencoder, DPMean
from dpmac.methods.closed_form import LENGTH
from dpmac.nets import LOSSES, Dense, Network
from dpmac.privacy import Ledger, Origin, Plan, PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.training.defaults import Defaults

METHODS = ("auto", "closed-form", "gradient")
ENOUGH_FOR_A_NETWORK = (
    600.0  # n epsilon for each input, from which on a network learns better codes than the closed form's
)
FEATURES = 400  # hidden units of the closed form's decoder
HIDDEN = 64  # units of the network's layers on either side of the code
GRADIENT: dict[str, Any] = {"learning_rate": 0.01, "threshold": 1.0}
RIDGE = 0.5  # of the norm that the noise in the features' Gram matrix has


@estimator
class DPMACAutoencoder(Coder, PrivateEstimator):
    """A differentially private autoencoder: in closed form, or a network trained by gradients.

    The closed form (:class:`dpmac.methods.ClosedForm`) takes three releases and about a second: the mean, DP-PCA for
    a linear code, and a decoder of random features of that code, which gives back what no linear decoder can. A network
    learns its code as well; it takes a minute, and much data or budget. After ``fit`` the model is (epsilon, delta)-
    differentially private for one row, there or blank; with ``groups`` for one person with all their rows. ``privacy_``
    holds the proof. :class:`DPMACPCA` is the linear case.

    The gradient method takes one backward sweep with fixed predictions (``z_step="fixed"``), which gives the directions
    of DP-SGD. A step with the paper's own Z-steps (``z_step="adam"``) takes about 10 times as long on its USPS
    autoencoder, on a CPU; with the paper's settings they were ahead of DP-SGD at a stated epsilon of 1, 2 and 8, and
    far behind the sweep with tuned settings (docs/method.md has the figures).

    Parameters
    ----------
    code_size : numbers of a code; None takes 8, or as many as there are inputs.
    method : "closed-form"; "gradient", a network (inputs, *hidden_layer_sizes, code, *reversed, inputs) whose code is
        linear, trained as the other estimators are; or "auto": a network from n epsilon = 600 for each input on, and
        the closed form below, which is the better one of the two on real tables (benchmarks/autoencoders.py).
    share : of the closed form's budget beside the mean's, for the linear code; 1 keeps a linear decoder.
    others : those of :class:`~dpmac.estimators.arguments.TrainingArguments`; what concerns a training, also
        ``micro_batch_size``, ``threads`` and ``checkpoint`` of the machine, is of the gradient method alone.

    Attributes
    ----------
    code_size_, method_, n_features_in_, feature_map_ (the public map from rows to inputs, or None), privacy_; of the
    closed form autoencoder_ (a :class:`dpmac.methods.ClosedFormAutoencoder`, else None); of the gradient method
    network_, plan_, history_ and run_.
    """

    _regression = True

    code_size: int | None = field(default=None, kw_only=False)
    method: Literal["auto", "closed-form", "gradient"] = "auto"
    share: float = 0.3
    hidden_layer_sizes: Sequence[int] | Literal["auto"] = "auto"  # by name only: the code's size comes first here

    @alone_with_ledger
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> DPMACAutoencoder:  # noqa: ARG002 - scikit-learn's
        """Fit on ``X`` (rows, features). Everything is checked before any privacy is spent.

        ``X`` may be in files, and ``groups`` says whose each row is, as of :class:`DPMACClassifier`.
        """
        given = self._look_over(X, groups=groups)
        if self.method not in METHODS:
            raise ArgumentError("method", self.method, "choose 'auto', 'closed-form' or 'gradient'")
        fix = "give the part of the budget for the linear code, above 0 and at most 1"
        number("share", self.share, fix, low=1e-3, high=1.0)
        width = self._width(given.x.shape[1])
        self.code_size_ = self._kept("code_size", self.code_size, width)
        self.method_ = self.method
        if self.method == "auto":
            self.method_ = "closed-form"
            if given.n * self.epsilon >= ENOUGH_FOR_A_NETWORK * width:
                self.method_ = "gradient"
        if self.method_ == "gradient":
            self._train(given, None, LOSSES["squared"])
            self.autoencoder_: ClosedFormAutoencoder | None = None
            self._fitted()
        else:
            self.autoencoder_ = self._solve(given, width)
        return self

    # --- in closed form -----------------------------------------------------------------------------------------------

    def _solve(self, given: Given, width: int) -> ClosedFormAutoencoder:
        share = float(self.share)
        if self.code_size_ == width:  # a whole code leaves nothing to a decoder
            share = 1.0
        rest = 1.0 - MEAN
        parts = (("mean", MEAN), ("DP-PCA", rest * share), ("output layer", rest * (1.0 - share)))
        shares: Shares = parts
        if share == 1.0:
            shares = parts[:2]

        def make(table: PrivateRows, sigma: float, source: NoiseSource, ledger: Ledger) -> ClosedFormAutoencoder:
            middle = DPMean(sigma / math.sqrt(MEAN), radius=self._reach(width)).fit(table, source, ledger)
            noise = 0.0
            if share < 1.0:
                noise = sigma / math.sqrt(parts[2][1])
            choices = ClosedForm(
                feature_map=middle.feature_map(),
                share=share,
                code=self.code_size_,
                features=FEATURES,
                bandwidth=max(0.5, 0.15 * self.code_size_),
                norm=middle.spread,
                threshold=None if sigma else ENDLESS,
                ridge=max(RIDGE * noise * math.sqrt(2) * LENGTH * math.sqrt(2 * FEATURES), 1e-3 * table.n / FEATURES),
                curvature="released",
                normalise=False,
            )
            return choices.fit(table, sigma / math.sqrt(rest), source, ledger)

        found, made_of = self._release(given, shares, make)
        return replace(found, pca=replace(found.pca, origin=Origin.merged(found.pca.origin, made_of)))

    # --- by gradients -------------------------------------------------------------------------------------------------

    def _defaults(self, own: Plan) -> Defaults:
        """The defaults of a network with as many targets as inputs: a larger learning rate and threshold."""
        hidden = self._hidden()
        if hidden is None:
            hidden = (HIDDEN,)
        return replace(super()._defaults(own), hidden=hidden, **GRADIENT)

    def _network(self, inputs: int, outputs: int, defaults: Defaults, source: NoiseSource) -> Network:
        hidden = defaults.hidden
        act = self.activation
        if act is None:
            act = defaults.activation
        sizes = [inputs, *hidden, self.code_size_, *reversed(hidden), outputs]
        stack: list[Any] = []
        for place, (before, after) in enumerate(pairwise(sizes)):
            linear = place in (len(hidden), 2 * len(hidden) + 1)  # the code, so that nothing of it is cut off; the end
            stack.append(Dense(before, after))
            if not linear:
                stack.append(act)
        return Network(stack, input_shape=(inputs,), source=source)

    def _halves(self) -> tuple[nn.Module, nn.Module]:
        """The network up to its code, and from there, in double precision."""
        exact = self.network_.plain().double()
        middle = 1 + 2 * (len(self.network_.weight_layers) // 2 - 1)
        return exact[:middle], exact[middle:]

    # --- using --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _code_of(self, inputs: Tensor) -> Tensor:
        if self.autoencoder_ is None:
            codes: Tensor = self._halves()[0](inputs.to(self.network_.device))
            return codes
        return self.autoencoder_.encode(inputs.to(self.autoencoder_.pca.components.device))

    @torch.no_grad()
    def _inputs_of(self, codes: Tensor) -> Tensor:
        if self.autoencoder_ is None:
            inputs: Tensor = self._halves()[1](codes.to(self.network_.device))
            return inputs
        return self.autoencoder_.decode(codes.to(self.autoencoder_.pca.components.device))

    def _origin(self) -> Origin:
        if self.autoencoder_ is None:
            return self.network_.origin
        return self.autoencoder_.pca.origin

    @property
    def _n_features_out(self) -> int:
        return self.code_size_
