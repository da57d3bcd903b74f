"""What an object holds: everything it refers to, found without running any of the object's own code.

CPython's garbage collector must know all references between objects, so we ask it: it reports attributes, slots, keys,
elements, closure cells, local variables of generators, and what C code keeps. Four kinds of objects are read in another
way: functions (by the variables that their code names, not all variables of their module), classes, NumPy arrays of
objects, and weak references. An object of C code that does not take part in garbage collection cannot be inspected
(:func:`is_opaque`).

*The user's own code* is everything that was not installed: neither part of Python's library, nor in a folder of
installed packages (site-packages, of this environment or of another on the path), nor dpmac itself. For that code,
class attributes, module-level variables that a function names, and all variables of a module that an object has as an
attribute count as held. Installed code is assumed to hold nothing of the user's, except in the attributes of its
objects.
"""

from __future__ import annotations

import builtins
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
# parts of the runtime that refer to much of the process, and that no training step computes with
_MACHINERY = frozenset({"logging", "importlib", "_frozen_importlib", "_frozen_importlib_external", "typing", "_abc"})
# C code that holds only numbers and texts: these classes, and all of these packages but for what may keep objects.
# Of other C objects of NumPy and torch (iterators over arrays of objects, futures) that is not known.
_OPERATORS = (torch._C.FunctionSchema, torch._C.DispatchKey, torch.Tag)  # what torch says of its own operators
_NUMBERS = (np.generic, np.dtype, np.ufunc, np.ndarray, torch.Size, torch.finfo, torch.iinfo, *_OPERATORS)
_NUMERIC = frozenset({"pandas", "scipy", "sklearn", "pyarrow", "pybind11_builtins"})  # pybind11: bases and functions
_TABLES_OF_OBJECTS = frozenset({"pandas._libs.hashtable"})
_CALLBACKS = frozenset({"sqlite3"})  # of Python's library: these keep functions that the collector is not told about
_COLLECTED, _HEAP = 1 << 14, 1 << 9  # Py_TPFLAGS_HAVE_GC, Py_TPFLAGS_HEAPTYPE
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_GLOBAL_HOOKS = tuple(hooks for name, hooks in vars(torch_modules).items() if name.startswith("_global_"))


@lru_cache(maxsize=4096)
def is_inert(kind: type) -> bool:
    """Whether objects of this class hold nothing of interest: numbers, text, and runtime objects such as a logger."""
    return kind in _INERT or issubclass(kind, _DRAWS) or module_of(kind).partition(".")[0] in _MACHINERY


def held_by(thing: Any) -> Iterable[Any]:
    """All objects that ``thing`` refers to and can use, possibly with duplicates."""
    kind = type(thing)
    if kind is FunctionType:
        return _of_function(thing)
    if issubclass(kind, type):
        return _of_class(thing)
    if issubclass(kind, ModuleType):
        if not _is_own(thing.__name__):
            return ()
        return list(vars(thing).values())
    if kind in _PROXIES:
        return _behind_proxy(thing)
    held = gc.get_referents(thing)
    if issubclass(kind, np.ndarray):  # NumPy does not report references to the collector
        return [kind, *getattr(thing, "__dict__", {}).values(), *_elements(thing)]
    if issubclass(kind, np.void):
        return _elements(np.asarray(thing))
    if issubclass(kind, weakref.ref):
        return [kind, *held, weakref.ref.__call__(thing)]
    if kind is ContextVar:
        return [*held, thing.get(None)]
    if issubclass(kind, nn.Module):
        return [kind, *held, *_GLOBAL_HOOKS]  # global hooks run with this module's
    return [kind, *held]


@lru_cache(maxsize=4096)
def is_opaque(kind: type) -> bool:
    """Whether objects of this class may hold something that cannot be inspected from outside.

    That is the case for C code that does not take part in garbage collection and is not known to hold only numbers.
    """
    return any(_hides(base) for base in kind.__mro__)


def _hides(kind: type) -> bool:
    name, module = kind.__name__, module_of(kind)
    if name == "PyCapsule" or (module.startswith("torch") and name.startswith("Script")):  # a network of TorchScript
        return True
    bare = kind.__basicsize__ <= object.__basicsize__ and not kind.__itemsize__  # it has no fields of its own
    top = module.partition(".")[0]
    if module == "builtins" and kind.__flags__ & _HEAP:  # C code that names no module gets this one
        top = ""
    if top in _CALLBACKS:
        return not bare
    if issubclass(kind, _NUMBERS) or kind in _INERT or issubclass(kind, _DRAWS):
        return False
    known = top in sys.stdlib_module_names or (top in _NUMERIC and module not in _TABLES_OF_OBJECTS)
    return not (kind.__flags__ & _COLLECTED or bare or known)


# --- functions and classes --------------------------------------------------------------------------------------------


def _of_function(function: FunctionType) -> list[Any]:
    held = [*(function.__closure__ or ()), function.__defaults__, function.__kwdefaults__, vars(function)]
    module = str(function.__globals__.get("__name__", ""))
    if _is_own(module):
        held += _variables(function)
    return held


def _variables(function: FunctionType) -> list[Any]:
    """Module-level variables that the function's code names, including ``package.helpers.network`` in other modules.

    The meaning of ``from ..helpers import network`` depends on the package of the code. So every module of the user's
    own counts if the last part of its name is imported.
    """
    named, imported, attributes = _names(function.__code__)
    called = _modules_called(len(sys.modules))
    known = {**vars(builtins), **function.__globals__}  # a name that is not global may be a builtin
    waiting = [known[name] for name in named if name in known]
    waiting += [sys.modules.get(full) for name in imported for full in called.get(name, ())]
    found, seen = list[Any](), set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, ModuleType):
            found.append(one)
        elif id(one) not in seen and _is_own(one.__name__):  # of a module, the attributes that are named
            seen.add(id(one))
            waiting += [value for name, value in vars(one).items() if name in attributes]
    return found


@lru_cache(maxsize=1)
def _modules_called(_count: int) -> dict[str, list[str]]:
    """All loaded modules by the last part of their names; recomputed when their number changes."""
    found: dict[str, list[str]] = {}
    for full in list(sys.modules):
        found.setdefault(full.rpartition(".")[2], []).append(full)
    return found


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The global variables, the imported modules and all attributes that code, or code nested in it, names."""
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
    """Whether a class is the user's own. Classes that installed code creates for its callers (``make_dataclass``) are:
    they are not attributes of its modules."""
    module = module_of(kind)
    there = getattr(sys.modules.get(module), "__dict__", {}).get(kind.__name__)
    return _is_own(module) or bool(kind.__flags__ & _HEAP and there is not kind)


def module_of(kind: type) -> str:
    """The name of the module that a class claims to be from."""
    name = type.__getattribute__(kind, "__module__")
    if not isinstance(name, str):  # a class may have a property of that name
        return ""
    return name


@cache
def _is_own(module: str) -> bool:
    """Whether a module is the user's own (see the module's docstring)."""
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
    """Folders of Python's library and of installed packages; also of those that another environment lends to this one
    (by PYTHONPATH or a .pth file), which are told by their names."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    lent = (place for place in sys.path if Path(place).name in ("site-packages", "dist-packages"))
    return (*(sysconfig.get_path(kind) for kind in kinds), *site.getsitepackages(), site.getusersitepackages(), *lent)


# --- arrays and weak references ---------------------------------------------------------------------------------------


def _elements(array: np.ndarray[Any, Any]) -> list[Any]:
    if not array.dtype.hasobject:
        return []
    return [np.ndarray.tolist(array)]


def _behind_proxy(proxy: Any) -> list[Any]:
    try:
        return [proxy.__init__.__self__]  # the referent, which cannot be reached otherwise
    except ReferenceError:
        return []
