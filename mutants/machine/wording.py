"""The words of tests: one that names what a mutant changes is more likely to notice than one that passes by."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

from mutants.machine.mutation import Mutation
from mutants.mutant import ROOT

_COMMON = 0.05  # of all test functions: a word in more of them says nothing


def hits(mutation: Mutation, test: str) -> int:
    """How many rare words a test function shares with the statement that changes, and the name of its function."""
    return len(_asked(mutation) & _words_of(test.partition("[")[0]))


@cache
def _asked(mutation: Mutation) -> frozenset[str]:
    lines = mutation.source.text.splitlines()
    text = [lines[line - 1] for line in mutation.executed()]
    return _words(" ".join([*text, mutation.function])) - _common()


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z]\w\w+", text))


@cache
def _words_of(function: str) -> frozenset[str]:
    file, _, name = function.partition("::")
    return _file(file).get(name.rpartition("::")[2], frozenset())


@cache
def _file(file: str) -> dict[str, frozenset[str]]:
    """The words of every test function of a file."""
    path = ROOT / file
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {node.name: _words("\n".join(lines[node.lineno - 1 : node.end_lineno])) for node in functions}


@cache
def _common() -> frozenset[str]:
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    texts = [words for file in files for name, words in _file(file).items() if name.startswith("test_")]
    counts = Counter(word for words in texts for word in words)
    return frozenset(word for word, count in counts.items() if count > _COMMON * len(texts))
