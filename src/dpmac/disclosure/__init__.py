"""What is said of a finished model beside its epsilon: settings, where ranges came from, budgets, mechanisms, code."""

from dpmac.disclosure.declared import NOBODY_SAID, SEARCHED, Declared, declared_notes
from dpmac.disclosure.details import Detail, details_of
from dpmac.disclosure.settings import Setting, settings_of
from dpmac.disclosure.spent import Spent, spent_by

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
