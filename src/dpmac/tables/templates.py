"""A template for a schema, by looking at the rows: which columns are ids, numbers, dates, postal codes or categories.

Nothing of a guess is covered by a guarantee, so a template takes no range and no value from the rows: it says of what
kind a column seems to be, and how numbers seem to be written. Whoever writes the schema checks both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpmac.tables.cell_format import CellFormat, NoNumber
from dpmac.tables.files import guessed_template
from dpmac.tables.ids import differing
from dpmac.tables.kinds import Category, Number, Prefix
from dpmac.tables.naming import names_ids, words_of_name
from dpmac.tables.stored import Files

POSTAL = {"zip", "zipcode", "postcode", "postalcode", "postal", "plz", "postleitzahl"}
MANY = 100  # values; of more, a list in a file, a prefix or a hash is worth a thought
ENOUGH = 20  # rows or values; fewer may well differ all
_NUMBERS = Number(0, 1)  # a column of numbers, by which cells are read
_FORMS = (
    CellFormat(censored="limit"),
    CellFormat(decimal=",", thousands=".", censored="limit"),
    CellFormat(thousands=",", censored="limit"),
)


@dataclass
class Guessed:
    """Columns as a template has them, how cells are written ("cells"), and what to say of columns to their holder."""

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)


def guessed_columns(table: Mapping[str, Any], target: str | None, stated: CellFormat | None = None) -> Guessed:
    """A guess at every column; ids are left out, but for the ``target``. ``stated`` is how cells are written, if it is
    known; else the way by which most columns are numbers."""
    forms: tuple[CellFormat, ...] = _FORMS
    if stated is not None:
        forms = (stated,)
    tried = [(form, _kinds(table, form)) for form in forms]
    form, kinds = max(tried, key=lambda one: sum(kind["kind"] == Number.kind for kind in one[1].values()))
    found = Guessed(cells=form.to_dict())
    if stated is None:
        found.cells.pop("censored", None)
        if any(kinds[name]["kind"] == Number.kind and _any(table, name, form.is_limit) for name in kinds):
            found.cells["censored"] = None
    for name, kind in kinds.items():
        several = kind["kind"] == Category.kind
        if name == target:
            found.columns[name] = {**kind, "missing": False}
        elif _is_id(table, name, several):
            found.ids.append(name)
        elif POSTAL & set(words_of_name(name)):
            found.columns[name] = {"kind": Prefix.kind, **dict.fromkeys(Prefix.needed), "missing": True}
        else:
            found.columns[name] = kind
            if several and len(_some(table, name, MANY + 1)) > MANY:
                found.crowded.append(name)
    return found


def _kinds(table: Mapping[str, Any], form: CellFormat) -> dict[str, dict[str, Any]]:
    return {name: guessed_template(_read(form, _different(table, name))) for name in table if name}


def _read(form: CellFormat, cells: Iterable[Any]) -> Iterator[Any]:
    """The cells as the format has them; what is no number stays a text."""
    for cell in cells:
        if not isinstance(cell, str):
            yield cell
            continue
        found = form.cell(_NUMBERS, cell)
        if isinstance(found, NoNumber):
            found = cell
        yield found


def _different(table: Mapping[str, Any], name: str) -> Iterable[Any]:
    """The cells of a column, each once where that can be told."""
    if isinstance(table, Files):
        return table.different(name)
    cells = table[name]
    try:
        return dict.fromkeys(cells)
    except TypeError:
        return list(cells)


def _any(table: Mapping[str, Any], name: str, check: Callable[[str], bool]) -> bool:
    return any(isinstance(cell, str) and check(cell) for cell in _different(table, name))


def _some(table: Mapping[str, Any], name: str, most: int) -> list[str]:
    """Different cells of a column, ``most`` at most."""
    found = dict[str, None]()
    for cell in _different(table, name):
        found.setdefault(str(cell))
        if len(found) >= most:
            break
    return list(found)


def _is_id(table: Mapping[str, Any], name: str, several: bool) -> bool:
    """Whether a column is one of ids: by its name, or because no two rows share a value that is no number."""
    named = names_ids(name)
    if named is None and not several:
        return False
    if named is False:  # "subject" may be a category as well
        named = len(_some(table, name, ENOUGH + 1)) > ENOUGH
    return bool(named) or (several and all_differ(table, name))


def all_differ(table: Mapping[str, Any], name: str) -> bool:
    """Whether no two rows of a table share a value of a column, and there are enough of them to say so."""
    if isinstance(table, Files):
        return table.n >= ENOUGH and differing(table.batches([name]), name, 1) == table.n
    rows = len(table[name])
    return rows >= ENOUGH and len(set(map(str, table[name]))) == rows
