"""Walks over the package: its modules, its imports, and the code that runs inside queries."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import dpmac

PACKAGE = Path(dpmac.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
PUBLIC_BY_CONTRACT = {"partitions", "promise"}  # they get weights and arguments, never rows


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST):
    """Every call in a tree: the node, the function's name, and what it was called on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, ast.unparse(node.func.value)
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id, ""


def imports(path: Path):
    """The package's modules that ``path`` imports, wherever in the file it does."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpmac"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("dpmac"))


def loaded(path: Path):
    """The package's modules that are imported with ``path``: at its top, and not for the type checker alone."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpmac"):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("dpmac"))


def handed_over(path: Path):
    """The package's modules that a function of ``path`` imports when it is called."""
    inside = (node for one in ast.walk(tree_of(path)) if isinstance(one, ast.FunctionDef) for node in ast.walk(one))
    for node in inside:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpmac"):
            yield node.module


def packages_graph() -> dict[str, set[str]]:
    """Which packages each package imports. ``dpmac/__init__`` and ``__main__`` are none.

    Of the argument (``privacy``) what it hands over to extensions does not count, nor what its ``__init__`` re-exports:
    another test lists that.
    """
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        package = room_of(name_of(path))
        if package.startswith("__") or name_of(path) == "privacy/__init__.py":
            continue
        found = loaded(path) if package in ("privacy", "kernels") else imports(path)
        targets = {target.split(".")[1] for target in found if "." in target}
        graph.setdefault(package, set()).update(targets - {package, "__version__"})
    return graph


class Private:
    """Watches which functions of the package run between ``with`` and its end; all but what is public by contract."""

    def __init__(self) -> None:
        self.code: set[tuple[Path, int]] = set()
        self._public = 0

    def __enter__(self) -> Private:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame, event, _argument) -> None:
        code = frame.f_code
        if code.co_name in PUBLIC_BY_CONTRACT and code.co_filename.startswith(str(PACKAGE)):
            self._public += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and self._public == 0 and code.co_filename.startswith(str(PACKAGE)):
            self.code.add((Path(code.co_filename), code.co_firstlineno))

    def functions(self) -> dict[tuple[str, str], ast.FunctionDef]:
        """The innermost function around every line that ran, by module and name."""
        found = {}
        for path, line in self.code:
            around = [
                node
                for node in ast.walk(tree_of(path))
                if isinstance(node, ast.FunctionDef)
                and min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= (node.end_lineno or 0)
            ]
            if around:
                inner = max(around, key=lambda node: node.lineno)
                found[name_of(path), inner.name] = inner
        return found


REDUCTIONS = {
    *(
        "sum",
        "aminmax",
        "sort",
        "argsort",
        "topk",
        "kthvalue",
        "bincount",
        "unique",
        "histc",
        "mean",
        "std",
        "var",
        "median",
        "max",
        "min",
        "amax",
        "amin",
        "norm",
        "vector_norm",
        "prod",
        "any",
    ),
    *("all", "cumsum", "logsumexp", "quantile", "nansum", "nanmean", "einsum", "bmm", "mm", "matmul", "addmm"),
}
TRANSPOSED = re.compile(r"\.T\b|\.t\(\)|transpose\(0, ?1\)|transpose\(1, ?0\)")


def keeps_rows(call: ast.Call) -> bool:
    """True if a reduction names dimensions other than the first."""
    for keyword in call.keywords:
        if keyword.arg == "dim":
            try:
                dims = ast.literal_eval(keyword.value)
            except ValueError:
                return False
            return dims is not None and 0 not in (dims if isinstance(dims, tuple) else (dims,))
    return False


def sums_in(function: ast.AST) -> list[str]:
    """What in a function may reduce over rows."""
    found = [
        called
        for call, called, owner in calls(function)
        if called in REDUCTIONS and owner and owner not in ("math", "np") and not keeps_rows(call)
    ]
    for node in ast.walk(function):
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        if product and TRANSPOSED.search(ast.unparse(node.left)):
            found.append("transpose @")
    return found
