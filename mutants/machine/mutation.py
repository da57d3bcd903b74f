"""Mutants of a file: each with a name that stays the same while lines move around it."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType

from mutants.machine.codes import changed, compiled
from mutants.machine.keywords import forgotten_keyword
from mutants.machine.operators import OPERATORS
from mutants.machine.source import Place, Source
from mutants.mutant import PACKAGE, ROOT

_LONGEST = 100  # characters of code in a name


@dataclass(frozen=True, eq=False)
class Mutation:
    """One bug: in the text of ``source``, ``text`` stands for ``node``."""

    source: Source
    function: str  # the innermost function or class, by its qualified name
    operator: str
    before: str
    after: str
    occurrence: int
    statement: ast.stmt | None  # the nearest around the node
    node: ast.AST
    text: str

    @property
    def file(self) -> str:
        return self.source.file

    @cached_property
    def name(self) -> str:
        """All that tells it from others, and no line number."""
        change = f"{self.before} -> {self.after}"
        return f"{self.file} | {self.function} | {self.operator} | {change} | {self.occurrence}"

    @cached_property
    def key(self) -> str:
        """A short name, for a command line."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:10]

    @property
    def line(self) -> int:
        return int(getattr(self.node, "lineno", 1))

    def executed(self) -> range:
        """The lines that are executed if the node is: its statement's, without the statements inside that."""
        if self.statement is None:
            return range(self.line, self.line + 1)
        inner = [
            each.lineno
            for part in ("body", "orelse", "handlers", "finalbody")
            for each in getattr(self.statement, part, [])
        ]
        last = min([*inner, (self.statement.end_lineno or self.line) + 1])
        return range(self.statement.lineno, max(last, self.statement.lineno + 1))

    @cached_property
    def home(self) -> str:
        """The outermost function that it is in."""
        return self.source.function_at(self.line)

    @cached_property
    def digest(self) -> str:
        """Of the outermost function that it is in."""
        return self.source.digest(self.home)

    def applied(self) -> str:
        """The file's text with the bug in it."""
        return self.source.replaced(self.node, self.text)

    def lines(self) -> tuple[str, str]:
        """The line that changes, before and after."""
        old, new = self.source.text.splitlines(), self.applied().splitlines()
        return old[self.line - 1].strip(), new[self.line - 1].strip()


def module_of(file: str) -> str:
    """``dpmac.extensions.ledger_file`` of ``extensions/ledger_file.py``."""
    return ".".join(["dpmac", *file.removesuffix(".py").removesuffix("/__init__").split("/")])


def read(file: str) -> Source:
    """A file of the package."""
    return Source(file, (ROOT / PACKAGE / file).read_text(encoding="utf-8"))


def mutations(source: Source, *, checked: bool = True) -> Iterator[Mutation]:
    """All mutants of a file that compile, and to another program than the file's own.

    Those that do not are among them if it is not ``checked``, which takes most of the time.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    texts = {source.text}
    original = compiled(source.text, source.file) if checked else None
    for place in source.places():
        for operator, change in {**OPERATORS, "keyword": forgotten_keyword}.items():
            for node, text in change(place):
                before = _short(ast.unparse(node))
                kind = (place.function, operator, before, _short(text))
                made = Mutation(source, *kind, seen[kind], _statement(place, node), node, text)
                seen[kind] += 1
                if original is None:
                    yield made
                elif (text_now := made.applied()) not in texts and _differs(text_now, original):
                    texts.add(text_now)
                    yield made


def _statement(place: Place, node: ast.AST) -> ast.stmt | None:
    around = (node, place.node, *reversed(place.parents))
    return next((each for each in around if isinstance(each, ast.stmt)), None)


def _short(text: str) -> str:
    flat = " ".join(text.split()).replace('"', "'")  # versions of Python differ in which quotes they write
    if len(flat) <= _LONGEST:
        return flat
    return f"{flat[: _LONGEST - 12]}...{hashlib.sha256(flat.encode()).hexdigest()[:8]}"


def _differs(text: str, original: CodeType) -> bool:
    try:
        return changed(original, compiled(text, "")) != []
    except SyntaxError:
        return False
