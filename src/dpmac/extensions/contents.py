"""What an object holds: everything it refers to, found without running a line of the object's own code.

The garbage collector of CPython has to know all references between objects, so it is asked: attributes, slots, keys,
elements, cells of closures, local variables of generators and what C code keeps are all there. Four kinds of thing are
read in another way: functions (by the variables that their code names, not all of their module's), classes, NumPy
arrays of objects, and weak references. An object of C code that takes no part in garbage collection cannot be looked
into (:func:`is_opaque`).

*The user's own code* is whatever was not installed: neither part of Python's library, nor in site-packages, nor dpmac
itself. Of that code, class attributes, module-level variables that a function names, and all variables of a module that
an object has as an attribute count as held. Installed code is taken to hold nothing of the user's, except in its
objects' attributes.
"""

from __future__ import annotations

import dis
import gc
import site
import sys
import sysconfig
import weakref
from collections.abc import Iterable
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_modules

_BARE = (str, bytes, bytearray, int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented), range)
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator)
_DRAWS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_INERT = frozenset({*_BARE, *_TORCH, CodeType, np.dtype})
# machinery of a process that refers to much of it, and that no step computes with
_MACHINERY = frozenset({"logging", "importlib", "_frozen_importlib", "_frozen_importlib_external", "typing", "_abc"})
# whose C objects hold numbers alone; pybind11's own are the bases of others' classes, and bare functions
_NUMBERS = frozenset({"numpy", "torch", "pandas", "scipy", "sklearn", "pyarrow", "pybind11_builtins"})
_COLLECTED, _HEAP = 1 << 14, 1 << 9  # Py_TPFLAGS_HAVE_GC, Py_TPFLAGS_HEAPTYPE
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_GLOBAL_HOOKS = tuple(hooks for name, hooks in vars(torch_modules).items() if name.startswith("_global_"))


@lru_cache(maxsize=4096)
def is_inert(kind: type) -> bool:
    """Whether objects of this class hold nothing: numbers, text, and machinery such as a logger."""
    return kind in _INERT or issubclass(kind, _DRAWS) or module_of(kind).partition(".")[0] in _MACHINERY


def held_by(thing: Any) -> Iterable[Any]:
    """All objects that ``thing`` refers to and can work with; one may come twice."""
    kind = type(thing)
    if kind is FunctionType:
        return _of_function(thing)
    if issubclass(kind, type):
        return _of_class(thing)
    if issubclass(kind, ModuleType):
        return vars(thing).values() if _is_own(thing.__name__) else ()
    if kind in _PROXIES:
        return _behind_proxy(thing)
    held = gc.get_referents(thing)
    if issubclass(kind, np.ndarray):  # not collected: NumPy tells the collector nothing
        return [kind, *getattr(thing, "__dict__", {}).values(), *_elements(thing)]
    if issubclass(kind, np.void):
        return _elements(np.asarray(thing))
    if issubclass(kind, weakref.ref):
        return [kind, *held, weakref.ref.__call__(thing)]
    if kind is ContextVar:
        return [*held, thing.get(None)]
    if issubclass(kind, nn.Module):
        return [kind, *held, *_GLOBAL_HOOKS]  # hooks of all modules run with this one's
    return [kind, *held]


@lru_cache(maxsize=4096)
def is_opaque(kind: type) -> bool:
    """Whether objects of this class may hold something that nobody can see from outside.

    So it is of C code that takes no part in garbage collection, and is not known to hold numbers alone.
    """
    return any(_hides(base) for base in kind.__mro__)


def _hides(kind: type) -> bool:
    name, module = kind.__name__, module_of(kind)
    if name == "PyCapsule" or (module.startswith("torch") and name.startswith("Script")):  # a network of TorchScript
        return True
    bare = kind.__basicsize__ <= object.__basicsize__ and not kind.__itemsize__  # it has no fields of its own
    unnamed = module == "builtins" and kind.__flags__ & _HEAP  # C code that says no module has this one
    top = "" if unnamed else module.partition(".")[0]
    return not (kind.__flags__ & _COLLECTED or bare or top in _NUMBERS or top in sys.stdlib_module_names)


# --- functions and classes --------------------------------------------------------------------------------------------


def _of_function(function: FunctionType) -> list[Any]:
    held = [*(function.__closure__ or ()), function.__defaults__, function.__kwdefaults__, vars(function)]
    module = str(function.__globals__.get("__name__", ""))
    return [*held, *_variables(function)] if _is_own(module) else held


def _variables(function: FunctionType) -> list[Any]:
    """Module-level variables that the function's code names, ``package.helpers.network`` in other modules included.

    What ``from ..helpers import network`` means depends on where the code stands. So every module of the user's own
    counts whose last name the code imports.
    """
    named, imported, attributes = _names(function.__code__)
    called = _modules_called(len(sys.modules))
    waiting = [function.__globals__[name] for name in named if name in function.__globals__]
    waiting += [sys.modules.get(full) for name in imported for full in called.get(name, ())]
    found, seen = list[Any](), set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, ModuleType):
            found.append(one)
        elif id(one) not in seen and _is_own(one.__name__):  # of a module, what is named
            seen.add(id(one))
            waiting += [value for name, value in vars(one).items() if name in attributes]
    return found


@lru_cache(maxsize=1)
def _modules_called(_count: int) -> dict[str, list[str]]:
    """The modules there are, by the last part of their names; looked up anew when their number has changed."""
    found: dict[str, list[str]] = {}
    for full in list(sys.modules):
        found.setdefault(full.rpartition(".")[2], []).append(full)
    return found


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The global variables, the modules it imports and all attributes that some code names, and the code within it."""
    steps = [(step.opname, str(step.argval)) for step in dis.get_instructions(code)]
    named = {name for kind, name in steps if kind in ("LOAD_GLOBAL", "LOAD_NAME")}
    imported = {part for kind, name in steps if kind in ("IMPORT_NAME", "IMPORT_FROM") for part in name.split(".")}
    attributes = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            within = _names(inner)
            named, imported, attributes = named | within[0], imported | within[1], attributes | within[2]
    return frozenset(named), frozenset(imported), frozenset(attributes)


def _of_class(kind: type) -> list[Any]:
    if not _is_own_class(kind):
        return []
    return [*type.__getattribute__(kind, "__dict__").values(), *kind.__mro__[1:], type(kind)]


@lru_cache(maxsize=4096)
def _is_own_class(kind: type) -> bool:
    """Of installed code are the classes that its modules have; it makes others for its callers (``make_dataclass``)."""
    module = module_of(kind)
    there = getattr(sys.modules.get(module), "__dict__", {}).get(kind.__name__)
    return _is_own(module) or bool(kind.__flags__ & _HEAP and there is not kind)


def module_of(kind: type) -> str:
    """The name of the module that a class says it is of."""
    name = type.__getattribute__(kind, "__module__")
    return name if isinstance(name, str) else ""  # a class may have a property of that name


@cache
def _is_own(module: str) -> bool:
    """Whether a module is the user's own: see above."""
    if module == "__main__":
        return True
    if module.partition(".")[0] == "dpmac":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module.partition(".")[0] not in sys.stdlib_module_names
    return not any(Path(file).is_relative_to(place) for place in _installed())


@cache
def _installed() -> tuple[str, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return (*(sysconfig.get_path(kind) for kind in kinds), *site.getsitepackages(), site.getusersitepackages())


# --- arrays and weak references ---------------------------------------------------------------------------------------


def _elements(array: np.ndarray[Any, Any]) -> list[Any]:
    return [np.ndarray.tolist(array)] if array.dtype.hasobject else []


def _behind_proxy(proxy: Any) -> list[Any]:
    try:
        return [proxy.__init__.__self__]  # what it stands for, which has no other name
    except ReferenceError:
        return []
