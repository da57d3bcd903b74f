"""What ``dpmac train`` is to learn: the schema with the target that was asked for, and the layers in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.tables import Schema


def aimed(schema: Schema, target: str | None, autoencoder: bool) -> Schema:
    """The schema with the target that was asked for."""
    if autoencoder:
        if target is not None:
            raise ArgumentError("--target", target, "an autoencoder has none: leave out one of the two")
        return replace(schema, target=None, positive=None, task=None)
    if target is None or target == schema.target:
        return schema
    return replace(schema, target=target, positive=None, task=None)


def unseen(schema: Schema, groups: str | None) -> Schema:
    """The schema without the column that says whose a row is: a model must not see it."""
    if groups is None or groups not in schema.columns:
        return schema
    if groups == schema.target:
        raise ArgumentError("--groups", groups, "it is the target: name the column that says whose a row is")
    return replace(schema, columns={name: column for name, column in schema.columns.items() if name != groups})


def units(hidden: str | None) -> list[int] | None:
    if hidden is None or hidden == "auto":
        return None
    if hidden in ("none", ""):
        return []
    try:
        return [int(size) for size in hidden.split(",")]
    except ValueError:
        fix = "give whole numbers of units, 64 or 64,32; or none for a linear model"
        raise ArgumentError("--hidden", hidden, fix) from None
