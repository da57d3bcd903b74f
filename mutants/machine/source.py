"""A source file, parsed: its nodes with the function that each is in, and the text that each stands for."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

MODULE = "<module>"
_MESSAGES = {"ArgumentError", "warn", "echo", "Failed", "print", "TypeVar", "NewType", "cast", "deprecated", "secho"}
_OPTIONS = {"Option", "Argument", "Typer"}  # their keywords are about help and display


@dataclass(frozen=True)
class Place:
    """A node and where it is. ``function`` is a qualified name, or the class's or :data:`MODULE` outside functions."""

    node: ast.AST
    parents: tuple[ast.AST, ...]  # the nearest last
    function: str
    returns: str  # what the function says that it returns

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1]


@dataclass
class Source:
    """The text of one file."""

    file: str
    text: str
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        starts = [0]
        for line in self.text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where the node's text begins and ends, in bytes (the parser counts in those)."""
        where: ast.expr = node  # type: ignore[assignment]
        assert where.end_lineno is not None
        assert where.end_col_offset is not None
        return (
            self._starts[where.lineno - 1] + where.col_offset,
            self._starts[where.end_lineno - 1] + where.end_col_offset,
        )

    def replaced(self, node: ast.AST, text: str) -> str:
        """The whole text with another one for the node's, and every line after it where it was."""
        start, end = self.span(node)
        raw = self.text.encode()
        missing = raw[start:end].count(b"\n") - text.count("\n")
        filler = "\n" * max(missing, 0)
        if isinstance(node, ast.expr):
            text = f"({text}{filler})"
        elif filler:
            text = f"{text}{filler}"
        return (raw[:start] + text.encode() + raw[end:]).decode()

    def places(self) -> Iterator[Place]:
        """All nodes whose change could change behaviour, in the order of the text."""
        yield from _walk(self.tree, (), MODULE, "")

    @cached_property
    def functions(self) -> dict[str, tuple[int, int]]:
        """First and last line, decorators included, of every outermost function by its qualified name."""
        return dict(_functions(self.tree, ""))

    def function_at(self, line: int) -> str:
        """The outermost function that the line is in; :data:`MODULE` if it is in none."""
        return next((name for name, (first, last) in self.functions.items() if first <= line <= last), MODULE)

    def digest(self, function: str) -> str:
        """Of an outermost function's text; of the statements outside functions for :data:`MODULE`."""
        return self._digests[function]

    @cached_property
    def _digests(self) -> dict[str, str]:
        lines = self.text.splitlines()
        kept = {name: lines[first - 1 : last] for name, (first, last) in self.functions.items()}
        kept[MODULE] = [line for number, line in enumerate(lines, 1) if self.function_at(number) == MODULE]
        return {name: hashlib.sha256("\n".join(text).encode()).hexdigest()[:16] for name, text in kept.items()}


def _functions(node: ast.AST, before: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            name = f"{before}{child.name}"
            yield f"{name}@{first}" if _is_setter(child) else name, (first, child.end_lineno or first)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{before}{child.name}.")
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _functions(child, before)


def _is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(decorator, ast.Attribute) for decorator in node.decorator_list)


def _walk(node: ast.AST, parents: tuple[ast.AST, ...], function: str, returns: str) -> Iterator[Place]:
    inside = (*parents, node)
    name, promised = function, returns
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = node.name if function == MODULE else f"{function}.{node.name}"
        if not isinstance(node, ast.ClassDef):
            promised = ast.unparse(node.returns) if node.returns else ""
    for child in _children(node, parents):
        if isinstance(child, ast.expr | ast.stmt):
            yield Place(child, inside, name, promised)
        yield from _walk(child, inside, name, promised)


def _children(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[ast.AST]:
    """The node's children but annotations, decorators, messages, docstrings and what only a type checker reads."""
    left_out: set[int] = set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if node.name == "__repr__":
            return
        left_out = {id(each) for each in node.decorator_list}
        if not isinstance(node, ast.ClassDef) and node.returns is not None:
            left_out.add(id(node.returns))
    elif isinstance(node, ast.arg | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    elif isinstance(node, ast.AnnAssign):
        left_out = {id(node.annotation)}
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
        return
    elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        left_out = {id(each) for each in (node.test, *node.body)}
    elif isinstance(node, ast.Call):
        called = name_of(node.func)
        if called in _MESSAGES or isinstance(parents[-1], ast.Raise):
            return
        if called in _OPTIONS:
            left_out = {id(keyword) for keyword in node.keywords if keyword.arg not in ("min", "max", "default")}
        if called in ("isinstance", "issubclass"):
            left_out = {id(node.args[1])}
    yield from (child for child in ast.iter_child_nodes(node) if id(child) not in left_out)


def name_of(function: ast.expr) -> str:
    """``f`` of ``f``, ``x.f``."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
