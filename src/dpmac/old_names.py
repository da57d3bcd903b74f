"""Names that changed: the old ones work for one more release, with a :class:`DeprecationWarning`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])


def warn_of_old_name(old: str, new: str, stacklevel: int = 3) -> None:
    said = f"{old} is now called {new}; the old name will be removed in the next release"
    warnings.warn(said, DeprecationWarning, stacklevel=stacklevel)


class OldAttribute:
    """An attribute under its old name: reads the new one."""

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._old = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        warn_of_old_name(f"{type(instance).__name__}.{self._old}", self._new)
        return getattr(instance, self._new)


def with_old_arguments(**names: str) -> Callable[[Class], Class]:
    """A class whose constructor also takes arguments by their old names: ``@with_old_arguments(old="new")``."""

    def decorated(cls: Class) -> Class:
        init = cls.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def taking_old_names(self: Any, *arguments: Any, **named: Any) -> None:
            for old, new in names.items():
                if old in named:
                    warn_of_old_name(f"{old}= of {cls.__name__}", f"{new}=")
                    named[new] = named.pop(old)
            init(self, *arguments, **named)

        cls.__init__ = taking_old_names  # type: ignore[misc]
        return cls

    return decorated


def old_module(old: str, new: str, names: Mapping[str, str], home: Any) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that moved: ``names`` are those that changed on the way."""

    def getattribute(name: str) -> Any:
        found = names.get(name, name)
        if name.startswith("__") or not hasattr(home, found):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn_of_old_name(f"{old}.{name}", f"{new}.{found}")
        return getattr(home, found)

    return getattribute
