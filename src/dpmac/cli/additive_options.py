"""Additive models on the command line: options of ``dpmac train``, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.tables import Schema

Additive = Annotated[
    bool,
    typer.Option("--additive", help="A model to read: a sum of one function a column, which the report draws."),
]
Pair = Annotated[
    list[str] | None,
    typer.Option("--pair", help="With --additive, a function of two columns as well: age,hours. Repeatable."),
]
Monotone = Annotated[
    list[str] | None,
    typer.Option(
        "--monotone", help="With --additive: never falling with a column, age=+1, or never rising, age=-1. Repeatable."
    ),
]


def additive_wanted(
    schema: Schema | None, additive: bool, pairs: Sequence[str] | None, monotone: Sequence[str] | None
) -> dict[str, Any] | None:
    """What was asked, in plain values for a job; None for a model of any other kind."""
    if not additive:
        for name, given in (("--pair", pairs), ("--monotone", monotone)):
            if given:
                raise ArgumentError(name, given[0], "it is for a sum of terms: add --additive")
        return None
    if schema is None:
        raise ArgumentError("--additive", True, "pictures have no columns: leave it out")
    if schema.task is None:
        raise ArgumentError("--additive", True, "an autoencoder has no terms: leave it out, or name a --target")
    return {"pairs": [_columns(pair) for pair in pairs or ()], "monotone": directions(monotone or ())}


def directions(given: Sequence[str]) -> dict[str, int]:
    """Columns and directions: "age=+1"."""
    found: dict[str, int] = {}
    for text in given:
        name, _, sign = text.rpartition("=")
        if not name or sign not in ("+1", "1", "-1"):
            raise ArgumentError("--monotone", text, "give a column and +1 (never falling) or -1, such as age=+1")
        found[name] = int(sign)
    return found


def _columns(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise ArgumentError("--pair", text, "give two columns, such as age,hours")
    return names


def arguments(wanted: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of an estimator."""
    if wanted is None:
        return {}
    pairs = [tuple(pair) for pair in wanted["pairs"]]
    return {"additive": pairs or True, "monotone": wanted["monotone"] or None}
