"""What a training aims at: the schema of a file, with the target and the column of persons that were asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpmac.checks import ArgumentError
from dpmac.tables import Schema


def aim_of(path: Path, target: str | None, autoencoder: bool, groups: str | None) -> Schema:
    """The schema of a file as ``dpmac train`` and ``dpmac schema check`` take it."""
    return unseen(aimed(Schema.load(path), target, autoencoder), groups)


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
