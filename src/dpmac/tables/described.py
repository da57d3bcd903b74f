"""Columns as a schema's JSON describes them: read by their kind, and what a template has left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.tables.kinds import KINDS, ColumnKind
from dpmac.tables.texts import did_you_mean, either

_KINDS = either([f"'{name}' (with {' and '.join(kind.needed)})" for name, kind in KINDS.items()])


def unfinished(raw: Any) -> dict[str, str]:
    """The columns of a schema's plain values that still have a null where a public fact is needed, and what to write.

    A template (``dpmac schema init``) has such nulls: ranges and values are never copied from rows.
    """
    found: dict[str, str] = {}
    if not isinstance(raw, Mapping) or not isinstance(raw.get("columns"), Mapping):
        return found
    for name, column in raw["columns"].items():
        if not isinstance(column, Mapping):
            continue
        keys: tuple[str, ...] = ("kind",)
        missing = f"its kind, {_KINDS}"
        kind = KINDS.get(str(column.get("kind", "")))
        if kind is not None:
            keys, missing = (*kind.needed, *kind.optional), kind.to_write
        if any(key != "missing" and column.get(key, 0) is None for key in keys):
            found[name] = missing
    return found


def column_of(where: str, raw: Any, folder: Path | None) -> ColumnKind:
    """One column from its description; ``where`` is its key in errors."""
    if not isinstance(raw, Mapping):
        raise ArgumentError(where, raw, f"describe the column: kind {_KINDS}")
    name = raw.get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise ArgumentError(f"{where}.kind", name, f"give {_KINDS}{did_you_mean(name, KINDS)}")
    kind = KINDS[name]
    known = ("kind", *kind.needed, *kind.optional)
    raw = {key: value for key, value in raw.items() if value is not None or key in known}  # a template's nulls
    for key in known:
        if key in raw and raw[key] is None:
            raise ArgumentError(f"{where}.{key}", None, f"this is not filled in yet: write {kind.to_write}")
    check_keys(where, raw, known, ("kind", *kind.needed))
    given: Mapping[str, Any] = {key: value for key, value in raw.items() if key != "kind"}
    try:
        if folder is not None:
            given = kind.beside(given, folder)
        return kind.from_fields(given)
    except ArgumentError as error:
        raise ArgumentError(f"{where}.{error.name}", error.value, error.fix) from None


def check_keys(where: str, raw: Any, known: Sequence[str], needed: Sequence[str]) -> None:
    if not isinstance(raw, Mapping):
        raise ArgumentError(where, raw, f"give an object with the keys {', '.join(known)}")
    for key in raw:
        if key not in known:
            fix = f"this key is not known here: use {', '.join(known)}"
            raise ArgumentError(f"{where}.{key}", raw[key], fix + did_you_mean(key, known))
    for key in needed:
        if key not in raw:
            raise ArgumentError(f"{where}.{key}", None, "this key is needed and is not there")
