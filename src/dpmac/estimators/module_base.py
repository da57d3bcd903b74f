"""What the estimators of torch modules share: how the module is built, fitted and asked."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.estimators.base import TrainedEstimator
from dpmac.estimators.given import Given, Stored
from dpmac.estimators.module_arguments import PREFIX, ModuleArguments
from dpmac.estimators.module_columns import Kind, blank_of, check_tokens, like_kind
from dpmac.estimators.module_inputs import Inputs, read_inputs
from dpmac.estimators.module_stores import DatasetStore, Encode, is_table
from dpmac.estimators.rows import Array
from dpmac.extensions.provenance import PUBLIC, Origin, mark, origin_of
from dpmac.limits import check_kept
from dpmac.modules.outputs import RowOutputs
from dpmac.modules.refusals import check_module, check_state
from dpmac.modules.task import device_of
from dpmac.modules.token_limits import token_limits
from dpmac.modules.trying import check_outputs
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import Plan
from dpmac.randomness import NoiseSource, torch_draws_from
from dpmac.training.defaults import Defaults, defaults_for
from dpmac.training.progress import progress_bar
from dpmac.training.threads import threads_for

NETWORK = (1,)  # to the rule, a module is a network with a hidden layer
_BLOCK = 512  # rows that are predicted at a time, unless the machine says otherwise
CLASS = "give a class of torch modules, such as MyModule (its arguments by module__name=...), or an instance"


class ModuleEstimator(ModuleArguments, TrainedEstimator):
    """An estimator that trains any torch module on its rows as they are: no schema, no range, no feature map."""

    _needs_scales = False  # pixels, tokens, counts: what a module does with them is its own business
    schema = None
    feature_range = None
    inputs_: tuple[Kind, ...]
    module_: nn.Module

    # --- the module ---------------------------------------------------------------------------------------------------

    def _check_module(self) -> None:
        """Raise unless there is a module, or something that makes one; nothing is built yet."""
        if self.module is None or not (isinstance(self.module, nn.Module) or callable(self.module)):
            raise ArgumentError("module", self.module, CLASS)
        if isinstance(self.module, nn.Module):
            check_module(self.module)
            if self._of_module:
                name, value = next(iter(self._of_module.items()))
                fix = "the module is built already: give its class to set its arguments"
                raise ArgumentError(f"{PREFIX}{name}", value, fix)
        if self.public_start is not None:
            PUBLIC.called_public(self.public_start)  # raises for what is no reason
        for name, value in self._of_module.items():
            check_kept(f"{PREFIX}{name}", value)

    def _built(self, draw: NoiseSource) -> nn.Module:
        """The module before the first step: a copy of the instance, or an instance of the class."""
        if isinstance(self.module, nn.Module):
            return copy.deepcopy(self.module)
        try:
            with torch_draws_from(draw):
                made = self.module(**self._of_module)
        except TypeError as error:
            raise ArgumentError("module", getattr(self.module, "__name__", self.module), f"{error}: {CLASS}") from error
        if not isinstance(made, nn.Module):
            raise ArgumentError("module", type(made).__name__, CLASS)
        return made

    def _start(
        self,
        given: Given,
        targets: Tensor | None,
        defaults: Defaults,  # noqa: ARG002
        feature_map: FeatureMap | None,  # noqa: ARG002
        draw: NoiseSource,
    ) -> nn.Module:
        module = self._built(draw)
        if self.public_start is not None:  # beside the releases that have shaped it, which its ledger must hold
            mark(module, Origin.merged(origin_of(module), PUBLIC.called_public(self.public_start)))
        check_state(module)
        self._world.everywhere(lambda: self._check_outputs(module, targets))
        if isinstance(given.x, Tensor):
            columns, limits = (given.x, *given.more), self._limits(module)
            self._world.everywhere(lambda: self._check_tokens(columns, limits))
        return module

    def _check_outputs(self, module: nn.Module, targets: Tensor | None) -> None:
        """Raise unless the module can be used when it is trained, which must not be found out when that is paid for."""
        assert targets is not None
        blank = tuple(column.to(device_of(module)) for column in blank_of(self.inputs_, 1))
        check_outputs(RowOutputs(module, targets.shape[1], self._input_names), blank)

    def _limits(self, module: nn.Module) -> dict[int, int]:
        """How many tokens there are, by the place of an input."""
        blank = tuple(column.to(device_of(module)) for column in blank_of(self.inputs_, 2))
        return token_limits(module, blank, self._input_names)

    def _check_tokens(self, columns: tuple[Tensor, ...], limits: dict[int, int]) -> None:
        """Raise for a token that an embedding does not have."""
        for place, limit in limits.items():
            check_tokens(self.inputs_[place][0] or "X", columns[place], limit)

    def _keep(self, model: nn.Module) -> None:
        self.module_ = model.eval()

    def _model(self) -> nn.Module:
        return self.module_

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _read_rows(self, X: Any, y: Any, fitted: tuple[Kind, ...] | None = None) -> Inputs:
        """What ``fit`` was given, looked over; or rows of the kinds that a model was ``fitted`` on."""
        self._check_budget()
        self._check_module()
        found = read_inputs(self, X, y, fitted)
        if fitted is not None:
            found = self._as_fitted(found, fitted)
        if found.y is None and not found.has_targets:
            fix = "a fit requires y to be passed, but the target y is None: give one target for each row"
            raise ArgumentError("y", None, fix)
        return found

    def _as_fitted(self, read: Inputs, fitted: tuple[Kind, ...]) -> Inputs:
        """Inputs as the fit had them; a row of a dataset that is of another kind counts as blank."""
        _check_count(read, fitted)
        if read.source is not None:
            for column, kind in zip(read.block(0, 1), fitted, strict=True):
                like_kind(column, kind)  # raises where the first is of another kind
            return replace(read, from_source=fitted)
        columns = tuple(like_kind(column, kind) for column, kind in zip(read.columns, fitted, strict=True))
        self._check_tokens(columns, self._limits(self.module_))
        return replace(read, columns=columns)

    def _given(self, read: Inputs, targets: Tensor, encode: Encode | None, X: Any, groups: Any) -> Given:
        """The rows of a fit with their ``targets``, (n, units); or (0, units), where a dataset has them."""
        if encode is None and len(targets) != len(read):
            raise ArgumentError("y", f"{len(targets)} targets", f"there are {len(read)} rows")
        for name in read.names or ():
            check_kept("X", name)
        self.inputs_, self._input_names = read.kinds, read.names
        ids = None
        if isinstance(groups, str) and is_table(X):
            ids = np.asarray(X[groups])
        if read.source is None:
            return self._enough(read.columns[0], X, groups, ids, more=read.columns[1:])
        beside = None
        if encode is None:
            beside = targets
        store = DatasetStore(read.source, read.kinds, targets.shape[1], beside, encode)
        return self._enough(Stored(store, store.few()), X, groups, ids)

    def _map_of(self, given: Given, defaults: Defaults) -> None:  # noqa: ARG002
        return None

    def _defaults(self, own: Plan) -> Defaults:
        return defaults_for(own, regression=self._regression, hidden=NETWORK)

    def _threads(self, network: nn.Module, plan: Plan) -> int:
        if self._machine.threads is not None:
            return self._machine.threads
        work = 6.0 * plan.batch_size * sum(p.numel() for p in network.parameters())
        return int(self._world.leaders(threads_for(work)))

    # --- predictions --------------------------------------------------------------------------------------------------

    def _units(self) -> int:
        """How many numbers the module gives for each row."""
        raise NotImplementedError

    def _private_outputs(self) -> RowOutputs:
        """The trained module inside a release: no row of whatever kind stops it."""
        return RowOutputs(self.module_, self._units(), self._input_names)

    def _outputs(self, X: Any) -> Tensor:
        """The module's outputs in double precision, micro-batch by micro-batch."""
        check_is_fitted(self, "module_")
        read = read_inputs(self, X, fitted=self.inputs_)
        _check_count(read, self.inputs_)
        outputs = RowOutputs(self.module_, self._units(), self._input_names, total=False)
        size, limits = self._machine.micro_batch_size or _BLOCK, self._limits(self.module_)
        found: list[Tensor] = []
        with progress_bar("predicting", self._machine.progress, "rows", patience=2.0) as on_rows:
            for first in range(0, len(read), size):
                last = min(first + size, len(read))
                columns = zip(read.block(first, last), self.inputs_, strict=True)
                block = tuple(like_kind(column, kind) for column, kind in columns)
                self._check_tokens(block, limits)
                found.append(outputs(*(column.to(device_of(self.module_)) for column in block)).double().cpu())
                if on_rows is not None:
                    on_rows(last, len(read))
        return torch.cat(found)

    def _raw(self, X: Any) -> Any:
        """The columns of rows in memory."""
        return read_inputs(self, X, fitted=self.inputs_).columns


def _check_count(read: Inputs, fitted: tuple[Kind, ...]) -> None:
    if len(read.kinds) != len(fitted):
        raise ArgumentError("X", f"{len(read.kinds)} inputs", f"the model was fitted on {len(fitted)}")


def encoded_or_nan(places: Array, units: int) -> Tensor:
    """One-hot rows; NaN where the place is -1."""
    found = torch.eye(units)[torch.from_numpy(np.maximum(places, 0))]
    found[torch.from_numpy(places < 0)] = torch.nan
    return found
