"""Whose code is looked into, and whose is not: classes of C code, imports in functions, modules without a file."""

from __future__ import annotations

import contextvars
import logging
import logging.handlers
import sys
import types
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from torch import nn

from dpmac.extensions import contents
from dpmac.extensions.provenance import PUBLIC
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import origin_of
from hiding import RELEASED, run_in


def module_named(name: str, monkeypatch: pytest.MonkeyPatch, **variables: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(variables)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_c_code_that_says_no_module_has_its_class_is_opaque():
    """Rust's bindings call such a class one of Python's own: it was taken for that, and nothing was said of it."""
    assert contents.module_of(safe_open) == "builtins"
    assert contents.is_opaque(safe_open)


def test_c_code_without_fields_hides_nothing():
    """This one says that it is of a module that there is not."""
    missing = type(contextvars.Token.MISSING)
    assert contents.module_of(missing) not in sys.modules
    assert not contents.is_opaque(missing)


@pytest.mark.parametrize("kind", [int, str, list, object, Exception, type(iter([])), type(iter(range(3)))])
def test_classes_of_python_itself_hide_nothing_and_hold_nothing(kind):
    assert not contents.is_opaque(kind)
    assert list(contents.held_by(kind)) == []


def test_flags_of_classes_are_those_of_cpython():
    own = type("Own", (), {})
    assert own.__flags__ & contents._HEAP
    assert own.__flags__ & contents._COLLECTED
    assert not int.__flags__ & (contents._HEAP | contents._COLLECTED)


def test_a_logger_leads_to_no_other(monkeypatch):
    other = logging.getLogger("somebody.else")
    monkeypatch.setattr(other, "kept", RELEASED, raising=False)
    assert origin_of(logging.getLogger("own"), logging.root, logging.StreamHandler()) == PUBLIC


def test_numbers_and_text_lead_nowhere():
    for kind in (int, str, type(None), logging.Logger, logging.handlers.BufferingHandler):
        assert contents.is_inert(kind)
    assert not any(map(contents.is_inert, (list, dict, Affine, type)))


def test_a_hook_of_all_modules_is_nothing_to_a_list():
    handle = nn.modules.module.register_module_forward_hook(lambda *_: RELEASED)
    try:
        assert origin_of([1], {"a": 2}) == PUBLIC
    finally:
        handle.remove()


def test_installed_modules_are_not_looked_into_but_the_users_own_are(monkeypatch):
    monkeypatch.setattr(logging, "kept", RELEASED, raising=False)
    monkeypatch.setattr(sys, "kept", RELEASED, raising=False)
    assert origin_of([logging], [sys], {"json": types}) == PUBLIC
    assert origin_of([module_named("theirs", monkeypatch, kept=RELEASED)]) == RELEASED.origin


@pytest.mark.parametrize(("folder", "own"), [("site-packages", False), ("dist-packages", False), ("project", True)])
def test_packages_that_another_environment_lends_are_installed_and_other_folders_of_the_path_are_not(
    folder, own, monkeypatch, tmp_path
):
    """PYTHONPATH or a .pth file: torch's own classes were searched for networks, and a fit was refused."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / folder)])
    kept = module_named("theirs", monkeypatch, kept=RELEASED)
    kept.__file__ = str(tmp_path / folder / "theirs" / "__init__.py")
    for cached in (contents._installed, contents._is_own):
        cached.cache_clear()
    try:
        assert bool(origin_of([kept])) == own
    finally:
        monkeypatch.undo()
        for cached in (contents._installed, contents._is_own):
            cached.cache_clear()


SOURCES = {
    "within a function within": "def function(x):\n    def inner():\n        from theirs import network\n"
    "        return network\n    return inner()(x)",
    "a module's variable, within": "def function(x):\n    return (lambda: helpers.network)()(x)",
    "relative to its package": "def function(x):\n    from .helpers import network\n    return network(x)",
}


@pytest.mark.parametrize("kind", SOURCES)
def test_what_a_function_imports_or_names_is_held(kind, monkeypatch):
    for name in ("theirs", "pack.helpers"):
        module_named(name, monkeypatch, network=RELEASED)
    found = run_in(SOURCES[kind], __name__="pack.script", helpers=sys.modules["theirs"])
    assert origin_of(found) == RELEASED.origin


def test_an_attribute_that_is_called_as_a_module_is_not_that_module(monkeypatch):
    module_named("theirs", monkeypatch, network=RELEASED)
    assert origin_of(run_in("def function(x):\n    return (lambda: x.theirs.network)()")) == PUBLIC


def test_what_is_run_by_an_installed_program_is_the_users_own(monkeypatch):
    """``python -m pytest`` or a notebook's kernel: the file of __main__ is installed, its variables are the user's."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", pytest.__file__, raising=False)
    contents._is_own.cache_clear()
    found = run_in("def function(x):\n    return network(x)", __name__="__main__", network=RELEASED)
    assert origin_of(found) == RELEASED.origin


def test_classes_in_the_users_modules_and_those_that_pose_as_installed_hold_their_attributes(monkeypatch):
    module = module_named("theirs", monkeypatch)
    module.Own = type("Own", (), {"__module__": "theirs", "kept": RELEASED})  # type: ignore[attr-defined]
    assert origin_of(module.Own()) == RELEASED.origin
    assert origin_of(type("Own", (), {"__module__": "torch.nn", "kept": RELEASED})()) == RELEASED.origin


def test_a_class_whose_module_is_no_text_is_looked_into_as_any_other():
    class Strange:
        __module__ = property(lambda self: "numpy")

    strange = Strange()
    strange.network = RELEASED
    assert contents.module_of(Strange) == ""
    assert origin_of(strange) == RELEASED.origin


def test_an_array_of_numbers_holds_no_objects_and_one_of_objects_does():
    """A list of all its numbers would take many times its memory."""
    assert not any(isinstance(one, list) for one in contents.held_by(np.zeros(3)))
    assert [RELEASED] in contents.held_by(np.array([RELEASED], dtype=object))
