"""The autoencoder: codes of rows, rows from codes, and how unlike the others a row is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
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
from dpmac.nets.feature_maps import FeatureMap, ToRange
from dpmac.pictures.drawing import SIDES, STYLES
from dpmac.priors import DrawnStart, PicturePrior, Prior
from dpmac.privacy import Ledger, Origin, Plan, PrivateRows
from dpmac.randomness import NoiseSource
from dpmac.showing import showing
from dpmac.training.defaults import Defaults
from dpmac.training.progress import progress_bar
from dpmac.training.starts import started_defaults
from dpmac.training.threads import step_work, threads_for, using

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
    start : what a network begins from. None: random weights. "strokes", "shapes", "textures" or "mixed": weights that
        have learned to give back such drawn pictures (:class:`dpmac.priors.PicturePrior`), for rows that are the pixels
        of square grey pictures, 16 to 64 pixels a side, from 0 to 1 or within ``feature_range``. A
        :class:`dpmac.priors.Prior` draws other rows, in the units of the rows that ``fit`` takes; a
        :class:`dpmac.priors.DrawnStart` also says how the start is trained. It costs no privacy, takes about half a
        minute once in a process, and the statement names it. ``method="auto"`` then takes the gradient method.
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
    start: DrawnStart | Prior | str | None = None
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
        self._drawn = self._drawn_start(given.x.shape[1])
        self.method_ = self._method_for(given.n, width)
        if self.method_ == "gradient":
            notes: tuple[str, ...] = ()
            if self._drawn is not None:
                notes = (self._drawn.note(width),)
            show = self._world.leads and self._machine.progress
            with showing(partial(progress_bar, show=show, patience=2.0)):
                self._train(given, None, LOSSES["squared"], notes=notes)
            del self._drawn
            self.autoencoder_: ClosedFormAutoencoder | None = None
            self._fitted()
        else:
            self.autoencoder_ = self._solve(given, width)
        return self

    def _method_for(self, n: int, width: int) -> Literal["closed-form", "gradient"]:
        """The method that was asked for; "auto" takes a network where there is a start or enough data."""
        if self.method == "closed-form" and self._drawn is not None:
            fix = "only a network begins from one: choose method='gradient' or 'auto', or leave the start out"
            raise ArgumentError("start", self.start, fix)
        if self.method != "auto":
            return self.method
        if self._drawn is not None or n * self.epsilon >= ENOUGH_FOR_A_NETWORK * width:
            return "gradient"
        return "closed-form"

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
        if self._drawn is not None:
            return started_defaults(own, hidden)
        if hidden is None:
            hidden = (HIDDEN,)
        return replace(super()._defaults(own), hidden=hidden, **GRADIENT)

    def _start(
        self,
        given: Given,
        targets: Tensor | None,
        defaults: Defaults,
        feature_map: FeatureMap | None,
        draw: NoiseSource,
    ) -> Network:
        network = super()._start(given, targets, defaults, feature_map, draw)
        if self._drawn is None:
            return network
        seen = feature_map
        if isinstance(self.start, str) and feature_map is not None:
            seen = ToRange(0.0, 1.0)  # pictures are drawn from 0 to 1, which are the ends of the range
        threads = self._machine.threads or threads_for(step_work(network.sizes, self._drawn.training.batch_size))
        with using(threads):
            self._drawn.load_into(network.to(self._machine.available_device()), seen)
        self._world.spread(list(network.state_dict().values()))
        return network

    def _drawn_start(self, width: int) -> DrawnStart | None:
        """The start that was asked for, of rows of ``width`` cells."""
        given: Any = self.start
        if given is None or isinstance(given, DrawnStart):
            return given
        if isinstance(given, Prior):
            return DrawnStart(given)
        if given not in STYLES:
            fix = f"give None, one of {', '.join(map(repr, STYLES))}, a dpmac.priors.Prior or a DrawnStart"
            raise ArgumentError("start", given, fix)
        side = math.isqrt(width)
        if self.schema is not None or side * side != width or not SIDES[0] <= side <= SIDES[1]:
            what = f"it draws square pictures of {SIDES[0]} to {SIDES[1]} pixels a side, and rows have {width} cells"
            fix = f"{what}: give a dpmac.priors.Prior that draws such rows, as PicturePrior(height, width) does"
            raise ArgumentError("start", given, fix)
        return DrawnStart(PicturePrior(side, side, style=given, white=1.0))

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
