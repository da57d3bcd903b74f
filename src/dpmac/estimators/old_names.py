"""Arguments of the estimators that ``machine`` holds now. They are taken for one more release, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator

MOVED = ("device", "micro_batch_size", "threads", "progress", "checkpoint", "world")


class OldName:
    """An attribute that is read from and written to the estimator's ``machine``."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type[Any] | None = None) -> Any:
        if estimator is None:
            return self
        _warn(estimator, [self._name], stacklevel=3)
        return getattr(estimator._machine, self._name)

    def __set__(self, estimator: Any, value: Any) -> None:
        _move(estimator, {self._name: value}, stacklevel=4)


class OldNames(BaseEstimator):
    """Takes the old names in ``set_params``, as attributes and in pickles; ``get_params`` does not know them."""

    machine: Any
    _machine: Any
    device = OldName()
    micro_batch_size = OldName()
    threads = OldName()
    progress = OldName()
    checkpoint = OldName()
    world = OldName()

    def set_params(self, **params: Any) -> Any:
        old = _taken_from(params)
        super().set_params(**params)
        _move(self, old, stacklevel=5)  # by way of Arguments.set_params
        return self

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Of a pickle from before, whose owner has nothing to change: it does not warn."""
        kept = dict(state)
        old = _taken_from(kept)
        super().__setstate__(kept)
        if old:
            self.machine = replace(self._machine, **old)


def with_old_names(init: Callable[..., None]) -> Callable[..., None]:
    """The same constructor, with the same signature, that also takes the old names."""

    @functools.wraps(init)
    def stored(self: Any, *arguments: Any, **named: Any) -> None:
        old = _taken_from(named)
        init(self, *arguments, **named)
        _move(self, old, stacklevel=4)

    return stored


def _taken_from(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given.pop(name) for name in MOVED if name in given}


def _move(estimator: Any, old: Mapping[str, Any], stacklevel: int) -> None:
    if old:
        _warn(estimator, list(old), stacklevel)
        estimator.machine = replace(estimator._machine, **old)


def _warn(estimator: Any, names: list[str], stacklevel: int) -> None:
    new = ", ".join(f"{name}=..." for name in names)
    text = (
        f"{', '.join(names)} of {type(estimator).__name__}: give machine=dpmac.Machine({new}), or "
        f"set_params(machine__{names[0]}=...); the old arguments will be removed in the next release"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
