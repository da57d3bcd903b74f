"""The arguments of the estimators of torch modules, and those of the module itself: ``module__width=16``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from dpmac.estimators.arguments import Arguments, estimator

PREFIX = "module__"


@estimator
class ModuleArguments(Arguments):
    """Arguments of every estimator of a torch module.

    Parameters
    ----------
    module : a class of torch modules, which is built as ``module(width=16)`` where ``module__width=16`` is given, its
        weights drawn from the fit's own source; or an instance, whose weights are the public start (a copy is trained).
    public_start : what the start was trained on, if it was trained: "ImageNet". It must not be of the rows to come; you
        declare it public, and the statement says so. None for a start that no data has shaped.
    """

    module: Any = field(default=None, kw_only=False)
    public_start: str | None = None

    @staticmethod
    def _storing(init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def stored(self: Any, *arguments: Any, **named: Any) -> None:
            own = _taken_from(named)
            init(self, *arguments, **named)
            vars(self).update(own)

        return stored

    def _set_others(self, params: dict[str, Any]) -> None:
        self.__dict__.update(_taken_from(params))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments by name, those of the module among them."""
        found: dict[str, Any] = super().get_params(deep)
        return found | {name: value for name, value in vars(self).items() if name.startswith(PREFIX)}

    @property
    def _of_module(self) -> dict[str, Any]:
        """What the module's class is called with."""
        return {name.removeprefix(PREFIX): value for name, value in vars(self).items() if name.startswith(PREFIX)}


def _taken_from(given: dict[str, Any]) -> Mapping[str, Any]:
    return {name: given.pop(name) for name in list(given) if name.startswith(PREFIX)}
