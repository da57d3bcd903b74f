"""The classifier of any torch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.given import Given
from dpmac.estimators.labelled import Labelled, affine
from dpmac.estimators.labels import CLASSES_NOTE, encoded, looked_over
from dpmac.estimators.module_base import ModuleEstimator, encoded_or_nan
from dpmac.estimators.module_columns import Kind
from dpmac.modules.outputs import OutputLoss


@estimator
class DPMACModuleClassifier(Labelled, ModuleEstimator):
    """A differentially private classifier of any torch module, trained by DP-SGD.

    ``DPMACModuleClassifier(MyModule, module__width=16, epsilon=2.0, classes=[0, 1])``: ``forward`` gives one logit for
    each class (or, of several labels a row, for each label), as a tensor (rows, classes) or an object that has it as
    ``.logits``. After ``fit`` the model is (epsilon, delta)-differentially private for one row, there or blank; with
    ``groups`` for one person with all their rows. ``privacy_`` holds the proof. A module that mixes rows, keeps
    statistics of them or draws by itself is refused before anything is spent, and the error names the layer.

    ``X`` is an array or a tensor (n, ...), of numbers or whole numbers (tokens); a dictionary of them, which are
    ``forward``'s arguments by name; a map-style torch dataset; or what Hugging Face's datasets give. Rows of a dataset
    stay where they are. Numbers are trained on as they are: scale them by public constants first. A data frame is an
    array (n, columns).

    Parameters
    ----------
    others : those of :class:`~dpmac.estimators.arguments.LabelArguments`, ``GradientArguments`` and ``Arguments``,
        which other classifiers have, too.

    Attributes
    ----------
    classes_; module_, the trained copy in eval mode, whose logits are as they were before the calibration; calibration_
    (the slope and, of two classes, the offset of the second logit; of few rows 1 and the offsets of all classes but the
    first, or of all labels; or None); inputs_ (name, shape and type of every
    input, which are public); plan_, privacy_, history_, run_ as of :class:`DPMACClassifier`.
    """

    @alone_with_ledger
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        sample_weight: Any = None,  # noqa: ARG002 - alone_with_ledger refuses it
    ) -> DPMACModuleClassifier:
        """Train on ``X`` and labels ``y``, one for each row, or a matrix (rows, labels) of 0 and 1.

        ``y`` may be the name of a column of ``X``. A torch dataset without ``y`` has items (input, target): they are
        not read beforehand, so ``classes`` must be given, and a row with another label counts as blank. ``groups`` says
        whose each row is, as of :class:`DPMACClassifier`. Everything is checked before any privacy is spent.
        """
        given, targets, classes, indicator = self._look_over(X, y, groups)
        loss, weights = self._weighed(classes, indicator is not None)
        notes: tuple[str, ...] = ()
        if indicator is None and self.classes is None:
            notes = (CLASSES_NOTE,)
        calibration = self._calibration(given.n, self.epsilon)
        table, _, source = self._train(given, targets, OutputLoss(loss, len(classes)), notes=notes)
        self.classes_, self._indicator = classes, indicator
        self.calibration_: tuple[float, ...] | None = None
        with self._post_training("calibration") as done:
            if calibration is not None and (done.kept is not None or done.made < calibration.rounds):
                self.calibration_ = calibration.fit(
                    table,
                    self._private_outputs(),
                    source.spawn("calibration"),
                    done.ledger,
                    several=indicator is not None,
                    weights=weights,
                    made=done.made,
                    kept=done.kept,
                    keep=done.keep,
                    micro_batch=self._machine.micro_batch_size,
                )
        return self

    def _look_over(
        self, X: Any, y: Any = None, groups: Any = None, fitted: tuple[Kind, ...] | None = None
    ) -> tuple[Given, Tensor, Array, np.dtype[Any] | None]:
        """All that ``fit`` asks of the rows, spending nothing: rows, targets, the classes, and the type of y if it has
        several labels a row. Rows for a model that was ``fitted`` are of those kinds."""
        read = self._read_rows(X, y, fitted)
        indicator: np.dtype[Any] | None = None
        encode = None
        if read.y is None:
            classes = self._listed_classes()
            encode = _Places(classes)
            targets = torch.zeros(0, len(classes))
        else:
            labels = looked_over(read.y)
            if labels.ndim == 2:
                indicator = labels.dtype
                classes, targets = self._several(labels)
            else:
                classes, targets = self._single(labels)
        return self._given(read, targets, encode, X, groups), targets, classes, indicator

    def _units(self) -> int:
        return len(self.classes_)

    def _outputs(self, X: Any) -> Tensor:
        """The calibrated logits."""
        u = super()._outputs(X)
        if self.calibration_ is None:
            return u
        slope, offsets = affine(self.calibration_, u.shape[1], self._indicator is not None)
        return slope * u + offsets

    def _listed_classes(self) -> Array:
        if self.classes is None:
            fix = "the items of a dataset are not read beforehand: give the labels, or y= a column or an array"
            raise ArgumentError("classes", None, fix)
        found, _ = encoded(np.unique(np.asarray(self.classes)), self.classes)
        return found


class _Places:
    """Labels of a dataset's items as one-hot rows; NaN for what is no class, so that the row counts as blank."""

    def __init__(self, classes: Array) -> None:
        self._known = {label: place for place, label in enumerate(classes.tolist())}

    def __call__(self, labels: Sequence[Any]) -> Tensor:
        places = np.array([self._place(label) for label in labels], dtype=np.int64)
        return encoded_or_nan(places, len(self._known))

    def _place(self, label: Any) -> int:
        try:
            plain = label.item() if hasattr(label, "item") else label
            return self._known.get(plain, -1)
        except (TypeError, ValueError, RuntimeError):  # a list, an array of several
            return -1
