"""Schemas: mutated trees of plain values, and mutated files."""

from __future__ import annotations

from typing import Any

from dpmac import Schema, TableEncoder
from dpmac.tables.described import unfinished
from fuzz.cases import Action, Case
from fuzz.mutations import as_json, spoilt_bytes, spoilt_tree
from fuzz.surfaces.starts import SCHEMA


def prepare(case: Case) -> Action:
    """A schema with one to three things wrong."""
    tree: Any = SCHEMA.to_dict()
    for _ in case.times():
        tree, said = spoilt_tree(case.random, tree)
        case.note(said)
    if case.random.random() < 0.4:
        return lambda: _kept(Schema.from_dict(tree))
    raw = as_json(tree if case.random.random() < 0.5 else SCHEMA.to_dict())
    if case.random.random() < 0.6:
        raw, said = spoilt_bytes(case.random, raw)
        case.note(said)
    path = case.folder / "schema.json"
    path.write_bytes(raw)

    def action() -> None:
        unfinished(Schema.read(path))
        found = Schema.load(path)
        _kept(found)
        if case.random.random() < 0.3:
            found.save(case.folder / "again.json")
            assert Schema.load(case.folder / "again.json") == found

    return action


def _kept(found: Schema) -> None:
    """What is taken is whole: it says the same again, and rows can be encoded by it."""
    assert Schema.from_dict(found.to_dict()) == found
    hash(found)
    repr(found)
    TableEncoder(found, bins=2).get_feature_names_out()
