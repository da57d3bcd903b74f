"""What is said of a finished model beside its epsilon: settings, where ranges came from, budgets, mechanisms, code.

Names are loaded on first use: ``dpmac version`` needs the digest of the code only, and no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmac.disclosure.declared import NOBODY_SAID, SEARCHED, Declared, declared_notes
    from dpmac.disclosure.details import Detail, details_of
    from dpmac.disclosure.settings import Setting, settings_of
    from dpmac.disclosure.spent import Spent, spent_by

_HOMES = {
    "NOBODY_SAID": "declared",
    "SEARCHED": "declared",
    "Declared": "declared",
    "Detail": "details",
    "Setting": "settings",
    "Spent": "spent",
    "declared_notes": "declared",
    "details_of": "details",
    "settings_of": "settings",
    "spent_by": "spent",
}

__all__ = [
    "NOBODY_SAID",
    "SEARCHED",
    "Declared",
    "Detail",
    "Setting",
    "Spent",
    "declared_notes",
    "details_of",
    "settings_of",
    "spent_by",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"dpmac.disclosure.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dpmac.disclosure' has no attribute {name!r}")
