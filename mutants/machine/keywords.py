"""Keyword arguments that are forgotten, where the callee is of this package and has a default for them."""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from functools import cache
from pathlib import Path

from mutants.machine.operators import Found
from mutants.machine.source import Place, name_of
from mutants.mutant import PACKAGE, ROOT


def forgotten_keyword(place: Place) -> Found:
    """The call without one of its keywords."""
    node = place.node
    if not isinstance(node, ast.Call) or name_of(node.func) not in defaults():
        return
    for at, keyword in enumerate(node.keywords):
        if keyword.arg in defaults()[name_of(node.func)] and not isinstance(keyword.value, ast.Constant):
            changed = copy.deepcopy(node)
            del changed.keywords[at]
            yield node, ast.unparse(changed)


@cache
def defaults() -> dict[str, set[str]]:
    """The arguments with a default of every function, method and class of the package, by its bare name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        _collect(path, found)
    return dict(found)


def _collect(path: Path, found: defaultdict[str, set[str]]) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            found[node.name] |= _with_default(node.args)
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    found[node.name] |= _with_default(part.args)
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.value is not None:
                    found[node.name].add(part.target.id)  # a dataclass's field


def _with_default(arguments: ast.arguments) -> set[str]:
    places = [*arguments.posonlyargs, *arguments.args]
    by_place = places[len(places) - len(arguments.defaults) :]
    by_name = [
        each for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
    ]
    return {each.arg for each in (*by_place, *by_name)}
