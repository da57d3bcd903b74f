"""Things in odd places: objects, classes, functions and modules that each hold what they are given."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import sys
import threading
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import nn

from dpmac.extensions.provenance import Origin
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import Entry, Ledger

BOOK = Ledger()
BOOK.append(Entry("mean", 1.0, 1.0))
RELEASED = Affine(1.0)
RELEASED.origin = Origin.of(BOOK)
ALIVE: list[Any] = []  # what weak references of these tests refer to


@dataclasses.dataclass(slots=True)
class Slotted:
    kept: Any


class SlottedBelow(Slotted):
    __slots__ = ("more",)


class Pair(NamedTuple):
    first: Any
    second: Any = None


class Bare:
    """A thing with attributes."""

    def __init__(self, **kept: Any) -> None:
        vars(self).update(kept)

    def method(self) -> Any:
        return self


class Evasive(Bare):
    """Has everything, if it is asked, and minds being asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __iter__(self) -> Any:
        raise RuntimeError("iterated")

    def __bool__(self) -> bool:
        raise RuntimeError("asked")

    __len__ = __bool__
    __eq__ = __iter__  # type: ignore[assignment]
    __hash__ = object.__hash__


class Fetching(Bare):
    """Not a store of rows, though it has a method of that name."""

    def fetch(self) -> Any:
        return vars(self)


class Cached:
    def __init__(self, thing: Any) -> None:
        ALIVE.append(thing)

    @functools.cached_property
    def network(self) -> Any:
        return ALIVE[-1]


def of_a_class(thing: Any) -> Any:
    return type("Own", (), {"kept": thing})()


def of_a_base(thing: Any) -> Any:
    return type("Below", (type("Own", (), {"kept": [thing]}),), {})()


def of_a_metaclass(thing: Any) -> Any:
    return type("Meta", (type,), {"kept": thing})("Own", (), {})()


def of_a_property(thing: Any) -> Any:
    return type("Own", (), {"kept": property(lambda _: thing)})()


def of_a_dataclass(thing: Any) -> Any:
    own = dataclasses.make_dataclass("Own", [("kept", Any, dataclasses.field(default_factory=lambda: thing))])
    return own.__new__(own)


def of_an_enum(thing: Any) -> Any:
    return enum.Enum("Kind", {"ONLY": (1, thing)}).ONLY


def nested(thing: Any) -> Any:
    def outer() -> Any:
        def inner() -> Any:
            return thing

        return inner

    return outer


def with_attribute(thing: Any) -> Any:
    def function() -> None: ...

    function.kept = thing  # type: ignore[attr-defined]
    return function


def by_global(_: Any) -> Any:
    return lambda rows: RELEASED(rows)


def by_global_within(_: Any) -> Any:
    return lambda rows: [(lambda: RELEASED)() for _ in rows]


def helper(rows: Any) -> Any:
    return RELEASED(rows)


def by_another_function(_: Any) -> Any:
    return lambda rows: helper(rows)


def module_with(thing: Any) -> types.ModuleType:
    module = types.ModuleType("their_helpers")
    module.network = thing  # type: ignore[attr-defined]
    sys.modules["their_helpers"] = module
    return module


def run_in(source: str, **variables: Any) -> Any:
    scope = {"__name__": "their_script", **variables}
    exec(source, scope)
    return scope["function"]


def of_another_module(thing: Any) -> Any:
    return run_in("def function(x):\n    return helpers.network(x)", helpers=module_with(thing))


def imported_within(thing: Any) -> Any:
    module_with(thing)
    return run_in("def function(x):\n    from their_helpers import network\n    return network(x)")


def started(thing: Any) -> Any:
    def generate() -> Any:
        own = thing
        yield
        yield own

    generator = generate()
    next(generator)
    return generator


def not_awaited(thing: Any) -> Any:
    async def own() -> Any:
        yield thing

    return own()


def weakly(make: Any) -> Any:
    def hidden(thing: Any) -> Any:
        ALIVE.append(thing)
        return make(thing)

    return hidden


def in_weak_values(thing: Any) -> Any:
    kept = weakref.WeakValueDictionary()
    kept["here"] = thing
    return kept


def of_a_thread(thing: Any) -> Any:
    local = threading.local()
    local.kept = thing
    return local


def in_context(thing: Any) -> Any:
    variable = contextvars.ContextVar("kept")
    variable.set(thing)
    return variable


def hooked(thing: Any) -> Any:
    module = nn.Linear(1, 1)
    module.register_forward_hook(lambda *_: thing)
    return module


def hooked_backward(thing: Any) -> Any:
    module = nn.Linear(1, 1)
    module.weight.register_hook(lambda _: thing)
    return module


def unregistered(thing: Any) -> Any:
    module = nn.Linear(1, 1)
    object.__setattr__(module, "helpers", [thing])
    return module


def parametrized(thing: Any) -> Any:
    own = nn.Module()
    own.helper = [thing]
    own.forward = lambda x: x
    module = nn.Linear(1, 1)
    nn.utils.parametrize.register_parametrization(module, "weight", own)
    return module


def on_a_tensor(thing: Any) -> Any:
    tensor = torch.ones(1)
    tensor.made_by = thing  # type: ignore[attr-defined]
    return tensor


def on_an_array(thing: Any) -> Any:
    array = np.zeros(1).view(type("Own", (np.ndarray,), {}))
    array.made_by = thing
    return array


def structured(thing: Any) -> Any:
    return np.array([(1.0, thing)], dtype=[("a", "f8"), ("b", "O")])


def cached(thing: Any) -> Any:
    own = Cached(thing)
    assert own.network is thing
    ALIVE.clear()
    return own


def remembered(thing: Any) -> Any:
    made = iter([thing])
    kept = functools.cache(lambda: next(made))
    assert kept() is thing
    return kept


def later(thing: Any) -> Any:
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["made by"] = thing
    return frame
