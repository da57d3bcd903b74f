"""The arguments of the estimators, each declared and described once.

An estimator is a dataclass of its arguments: its constructor takes those of its bases as well, and only stores them, as
scikit-learn asks; ``fit`` looks at them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, dataclass_transform

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.estimators.machine import Machine
from dpmac.estimators.old_names import OldNames, with_old_names
from dpmac.extensions.persons import USUAL
from dpmac.mac import ZStep
from dpmac.nets import Activation
from dpmac.privacy import Bound, Ledger
from dpmac.tables import Schema

T = TypeVar("T")
NESTED = "machine__"


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(kind: type[T]) -> type[T]:
    """Class decorator: a constructor that takes the fields of the class and of its bases by name, and stores them.

    A field with ``kw_only=False`` can be given by position, too. The docstring continues with those of the bases that
    declare arguments, so that ``help`` describes all of them.
    """
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(kind)
    made.__init__ = with_old_names(made._storing(made.__init__))
    made._own_doc = inspect.cleandoc(made.__doc__ or "")
    declaring = (base for base in made.__mro__ if "_own_doc" in vars(base))
    made.__doc__ = "\n\n".join(base._own_doc for base in declaring)
    return made  # type: ignore[no-any-return]


@estimator
class Arguments(OldNames):
    """Arguments of every estimator.

    Parameters
    ----------
    epsilon : the budget; ``float("inf")`` fits without noise or bound (tables with a small penalty on squared weights
        in their place), and the statement then says "not private".
    delta : must be below 1/n; None takes a power of ten, at most 1e-5 and a tenth of 1/n.
    max_rows : the most rows that a person contributes to a release if ``fit`` is given ``groups``; of more rows, so
        many are drawn anew for every step. It affects the time, not the noise: a person's rows are averaged.
    ledger : a :class:`dpmac.privacy.Ledger` or a path: it records every release, and the statement composes all that it
        holds. Any number of fits may share one. ``total_epsilon`` refuses a fit that would exceed it.
    random_state : a number makes the run repeatable, and *not private* against anyone who knows it; None is private.
    machine : a :class:`dpmac.Machine`: device, threads, memory, checkpoint, progress bar. It does not affect privacy.
        None is ``Machine()``: the CPU, with the default limits.
    """

    epsilon: float = 2.0
    delta: float | None = None
    max_rows: int = USUAL
    ledger: Ledger | str | Path | None = None
    total_epsilon: float | None = None
    random_state: int | np.random.RandomState | None = None
    machine: Machine | None = None  # scikit-learn allows no Machine() here

    @property
    def _machine(self) -> Machine:
        """What ``machine`` stands for."""
        if not isinstance(self.machine, Machine | None):
            raise ArgumentError("machine", self.machine, "give a dpmac.Machine, or None")
        if self.machine is None:
            return Machine()
        return self.machine

    @staticmethod
    def _storing(init: Callable[..., None]) -> Callable[..., None]:
        """The constructor that a dataclass made, for a class that takes more arguments than its fields."""
        return init

    def _set_others(self, params: dict[str, Any]) -> None:
        """Take out of ``params`` and set what is no field, for the same classes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments by name; ``deep`` adds those of the machine, as ``machine__device``, if one was given."""
        found: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.machine, Machine):
            found |= {NESTED + one.name: getattr(self.machine, one.name) for one in fields(self.machine)}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set arguments by name; those of the machine are ``machine__device`` and so on."""
        nested = {name: params.pop(name) for name in list(params) if name.startswith(NESTED)}
        self._set_others(params)
        super().set_params(**params)
        for name, value in nested.items():
            own = name.removeprefix(NESTED)
            known = [one.name for one in fields(Machine)]
            if own not in known:
                raise ArgumentError(name, value, f"a Machine has no such argument, but {', '.join(known)}")
            self.machine = replace(self._machine, **{own: value})
        return self


@estimator
class TableArguments(Arguments):
    """Arguments of every estimator of tables and of arrays (rows, features).

    Parameters
    ----------
    schema : what is publicly known about a table's columns (:class:`dpmac.tables.Schema`); rows are then tables
        (pandas, polars, arrow, ...), encoded inside the release, and targets may be one of their columns.
    feature_range : for arrays, ``(low, high)``, numbers or one per feature, public: mapped to [-1, 1] and clipped.
    """

    schema: Schema | Mapping[str, Any] | None = None
    feature_range: tuple[Any, Any] | None = None


@estimator
class GradientArguments(Arguments):
    """Arguments of every estimator that is trained by gradients.

    Parameters
    ----------
    batch_size, epochs, learning_rate : None follows from public numbers (:mod:`dpmac.training.defaults`).
    bound : "joint", "normalise", "clip", "adaptive", or a :class:`dpmac.privacy.Bound` object; None clips the whole
        gradient of an example, at a threshold by the rule.
    """

    batch_size: float | None = None
    epochs: float | None = None
    learning_rate: float | None = None
    bound: str | Bound | None = None


@estimator
class TrainingArguments(GradientArguments, TableArguments):
    """Arguments of every estimator that trains a network.

    Parameters
    ----------
    hidden_layer_sizes : units of each hidden layer; ``()`` for a linear model; "auto" follows from the number of rows.
    activation : that of the hidden layers; None follows from public numbers, too.
    z_step : how the auxiliary coordinates are found: "fixed", one backward sweep with fixed predictions, which gives
        DP-SGD's directions; "adam", the paper's 30 Adam steps; "error", "gauss-newton", or a Z-step of your own.
    """

    hidden_layer_sizes: Sequence[int] | Literal["auto"] = field(default="auto", kw_only=False)
    activation: str | Activation | None = None
    z_step: str | ZStep = "fixed"


@estimator
class LabelArguments(Arguments):
    """Arguments of every classifier.

    Parameters
    ----------
    classes : the class labels, if they are known; None takes those of the schema's target, or reads them from ``y``,
        which treats them as public. With several labels a row their number is in ``y``'s shape, public as the number of
        columns is; ``classes`` may name them.
    class_weight : public weights {class: weight}, 1 for a class left out; with several labels a row a list of dicts
        {0: weight, 1: weight}, one a label. They multiply an example's loss *before* the bound, which therefore holds,
        and cuts what it makes too long: weights of at most 1 keep their ratios best. Probabilities are those of the
        re-weighted problem, and the calibration keeps them so (it weighs the rows alike); p_k / weight_k, made to sum
        to 1, are those of the rows as they are. "balanced" is refused: it would read the rows' class frequencies.
    calibrate : spend 5 % of the budget on a recalibration of the logits; below 1,000 rows 10 %, and where n epsilon is
        below 500 20 %, on the classes' base rates alone.
    """

    classes: Sequence[Any] | None = None
    class_weight: Mapping[Any, float] | Sequence[Mapping[int, float]] | None = None
    calibrate: bool = True


@estimator
class RangeArguments(Arguments):
    """Arguments of every regressor.

    Parameters
    ----------
    target_range : ``(low, high)``, public; None takes the schema's range of its target.
    residuals : spend 2 % of the budget (5, 10, 20 % where n epsilon is below 5,000, 2,000, 1,000) on the residual's
        scale, for ``predict(..., return_std=True)``; nothing is released where n epsilon is below 500.
    """

    target_range: tuple[float, float] | None = None
    residuals: bool = True
