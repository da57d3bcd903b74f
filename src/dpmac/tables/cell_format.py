"""How the texts of a file write cells: which stand for a missing one, and how numbers are written. Public, and kept in
the schema, so that a model reads new rows as it read those that it was trained on.

Cells that are no texts (numbers of a data frame, of Parquet) are what they are, and are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.tables.texts import check_length

if TYPE_CHECKING:
    from dpmac.tables.kinds import Array, ColumnKind

USUAL = ("NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-")  # missing in every file
DECIMALS = (".", ",")
THOUSANDS = ("", ",", ".", " ", "'")
CENSORED = ("refuse", "limit", "half", "missing")
_ALIKE = {" ": " \u00a0\u202f\u2009", "'": "'\u2019"}  # signs that spreadsheets write for one another
_LIMIT = re.compile(r"([<>\u2264\u2265])=?\s*(.*)", re.DOTALL)
_KEYS = ("na", "decimal", "thousands", "censored")


@dataclass(frozen=True)
class CellFormat:
    """``na``: texts that stand for a missing cell, beside the :data:`USUAL` ones, in every column that does not list
    them as values. ``decimal`` and ``thousands``: the signs in a number; a separator of thousands stands before every
    three digits, or the cell is no number. ``censored``: what "<0.5" and ">100" count as: "limit" (0.5 and 100), "half"
    (half of what stands after "<", and the limit after ">"), "missing", or, with "refuse", an error.
    """

    na: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    censored: str = "refuse"

    def __post_init__(self) -> None:
        na = self.na
        if isinstance(na, str) or not isinstance(na, tuple | list) or not all(isinstance(one, str) for one in na):
            raise ArgumentError("na", na, "give a list of texts that stand for a missing cell")
        for text in na:
            check_length("na", text)
        object.__setattr__(self, "na", tuple(dict.fromkeys(text.strip() for text in na)))
        for name, known in (("decimal", DECIMALS), ("thousands", THOUSANDS), ("censored", CENSORED)):
            if getattr(self, name) not in known:
                raise ArgumentError(name, getattr(self, name), f"give one of {', '.join(map(repr, known))}")
        if self.thousands == self.decimal:
            raise ArgumentError("thousands", self.thousands, "it is the decimal sign as well: change one of the two")

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, column: ColumnKind, cells: Array) -> Array:
        """The cells, None where a text stands for a missing one, and texts of numbers as numbers.

        A text that is no number in this format is handed on, so that the column's own error names it.
        """
        if cells.dtype.kind not in "OU":
            return cells
        texts = _texts_in(cells.tolist())
        new = {text: self.cell(column, text) for text in texts}
        if all(value is text for text, value in new.items()):
            return cells
        found = np.empty(len(cells), dtype=object)
        for row, cell in enumerate(cells.tolist()):
            found[row] = new[cell] if isinstance(cell, str) else cell
        return found

    def cell(self, column: ColumnKind, text: str) -> Any:
        """One cell of :meth:`read`."""
        if text.strip() in self._missing and not column.lists(text):
            return None
        if column.target_range is None or is_missing(text):
            return text
        return self._number(text)

    @staticmethod
    def is_limit(text: str) -> bool:
        """Whether a text says that a number is beyond a limit, such as <0.5."""
        return _LIMIT.fullmatch(text.strip()) is not None

    def _number(self, text: str) -> Any:
        """A text of a numeric column as a number, None or, if it is none, something that no reader takes."""
        limit = _LIMIT.fullmatch(text.strip())
        if limit is None:
            return self._plain(text)
        number = self._plain(limit[2])
        try:
            value = float(number)
        except (TypeError, ValueError):
            return NoNumber(text)
        if self.censored == "missing":
            return None
        if self.censored == "half" and limit[1] in "<\u2264":
            return value / 2
        if self.censored == "refuse":
            return NoNumber(text)
        return value

    def _plain(self, text: str) -> Any:
        """The text itself where numbers are written as in Python, else a number or :class:`NoNumber`."""
        if self.plain:
            return text
        match = self._pattern.fullmatch(text.strip())
        if match is None:
            return NoNumber(text)
        whole = "".join(letter for letter in match[1] if letter in "+-0123456789")
        return float(f"{whole}.{match[2] or 0}{match[3] or ''}")

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return (self.decimal, self.thousands) == (".", "")

    @cached_property
    def _missing(self) -> frozenset[str]:
        return frozenset((*USUAL, *self.na))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        whole = r"\d+"
        if self.thousands:
            signs = re.escape(_ALIKE.get(self.thousands, self.thousands))
            whole = rf"(?:\d{{1,3}}(?:[{signs}]\d{{3}})+|\d+)"
        return re.compile(rf"([+-]?{whole})(?:{re.escape(self.decimal)}(\d*))?([eE][+-]?\d+)?", re.ASCII)

    # --- in files -----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default, for JSON."""
        usual = CellFormat()
        found = {name: getattr(self, name) for name in _KEYS if getattr(self, name) != getattr(usual, name)}
        if "na" in found:
            found["na"] = list(self.na)
        return found

    @classmethod
    def from_dict(cls, raw: Any) -> CellFormat:
        if not isinstance(raw, Mapping):
            raise ArgumentError("cells", raw, f"give an object with some of the keys {', '.join(_KEYS)}")
        for key in raw:
            if key not in _KEYS:
                raise ArgumentError(f"cells.{key}", raw[key], f"this key is not known here: use {', '.join(_KEYS)}")
        try:
            return cls(**{key: value for key, value in raw.items() if value is not None})
        except ArgumentError as error:
            raise ArgumentError(f"cells.{error.name}", error.value, error.fix) from None


PLAIN = CellFormat()


def _texts_in(cells: list[Any]) -> set[str]:
    """The different texts among cells; those of a column of numbers cost hardly anything to tell."""
    kinds = set(map(type, cells))
    texts = {kind for kind in kinds if issubclass(kind, str)}
    if texts == kinds:
        return set(cells)
    if not texts:
        return set()
    return {cell for cell in cells if type(cell) in texts}


class NoNumber:
    """A text that is no number in the format of its file: no reader takes it, and its error shows the text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return repr(self.text)


def hint(cell: Any) -> str:
    """What to say of the file if a numeric column has such a cell, as options of the command line; or nothing."""
    text = str(getattr(cell, "text", cell)).strip()
    forms = {
        r"[<>\u2264\u2265]=?\s*\d.*": "say what such cells count as: --censored limit, half or missing",
        r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?": "if commas separate thousands, say --thousands ,",
        r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?": "if points separate thousands, say --decimal , --thousands .",
        r"[+-]?\d{1,3}([ \u00a0\u202f\u2009]\d{3})+([.,]\d*)?": "if spaces separate thousands, say --thousands ' '",
        r"[+-]?\d{1,3}(['\u2019]\d{3})+([.,]\d*)?": 'say --thousands "\'"',
        r"[+-]?\d+,\d*": "if the comma is the decimal sign, say --decimal ,",
        r"[^\d]{1,12}": "if it stands for a missing cell, say so with --na",
    }
    for form, said in forms.items():
        if re.fullmatch(form, text):
            return f"; {said}"
    return ""
