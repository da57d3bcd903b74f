"""Released things in modules of the user's own are found, however the code that uses them has imported them."""

from __future__ import annotations

import importlib
import sys

import numpy
import pytest

from dpmac.extensions import contents
from dpmac.extensions.provenance import origin_of
from dpmac.nets import DenseNetwork
from dpmac.privacy import Entry, Ledger, Origin
from dpmac.randomness import SeededNoise

INIT = "from .helpers import network\n\ndef used():\n    return network\n"
CODE = {
    "a dotted name": "import own_package.helpers\n\ndef used():\n    return own_package.helpers.network\n",
    "another name": "import own_package.helpers as h\n\ndef used():\n    return h.network\n",
    "in the function": "def used():\n    import own_package.helpers as h\n    return h.network\n",
    "from the package": "from . import helpers\n\ndef used():\n    return helpers.network\n",
    "from the package, in the function": "def used():\n    from . import helpers\n    return helpers.network\n",
    "from above": "def used():\n    from ..helpers import network\n    return network\n",
    "in a function within": (
        "def used():\n    def inner():\n        from own_package.helpers import network\n        return network\n"
        "    return inner()\n"
    ),
    "from above, a module": "def used():\n    from .. import helpers\n    return helpers.network\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a released network in ``own_package.helpers``, and a module beside and below it."""

    def made(code, init=""):
        for folder in ("own_package", "own_package/inner"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "__init__.py").write_text(init if folder == "own_package" else "")
            (tmp_path / folder / "user.py").write_text(code)
        (tmp_path / "own_package" / "helpers.py").write_text("network = None\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        helpers = importlib.import_module("own_package.helpers")
        helpers.network = DenseNetwork([2, 1], "relu", source=SeededNoise(0))
        ledger = Ledger()
        ledger.append(Entry("training step", 1.0, 0.5))
        helpers.network.origin = Origin.of(ledger)
        return helpers

    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "own_package"]:
        del sys.modules[name]


@pytest.mark.parametrize("how", CODE)
def test_a_network_in_a_module_is_found_however_it_is_imported(how, package):
    """Found in an attack: ``import package.helpers`` and relative imports were not followed."""
    package(CODE[how])
    place = "own_package.inner.user" if "above" in how else "own_package.user"
    assert len(origin_of(importlib.import_module(place).used)) == 1


def test_a_network_that_a_package_imports_is_found(package):
    helpers = package("", INIT)
    sys.modules["own_package"].network = helpers.network
    assert len(origin_of(sys.modules["own_package"].used)) == 1


def test_what_the_code_does_not_name_is_not_taken_for_its_own(package):
    package("from . import helpers\n\ndef used():\n    return helpers.other\n")
    assert origin_of(importlib.import_module("own_package.user").used) == Origin()


def test_modules_that_hold_each_other_are_looked_into_once(package):
    helpers = package("from . import helpers\n\ndef used():\n    return helpers.user.helpers.user.helpers.network\n")
    user = importlib.import_module("own_package.user")
    helpers.user = user
    assert len(origin_of(user.used)) == 1


def test_what_installed_modules_hold_is_not_the_functions_own(package):
    """Else the whole of an installed library would be looked through, for a name that it happens to have."""
    helpers = package("import numpy\n\ndef used():\n    return numpy.zeros, network\n\nnetwork = None\n")
    user = importlib.import_module("own_package.user")
    assert origin_of(user.used) == Origin()
    found = contents._variables(user.used)
    assert not any(one is numpy.zeros for one in found)
    assert helpers.network not in found
