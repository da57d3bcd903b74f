"""Pages whose code runs: the blocks of a Markdown file, in order, and what they print against what the page shows.

A ``python`` block runs in the page's one namespace, and a ``text`` block right behind it shows what it prints. Of a
``console`` block every line after ``$`` is run, and the lines up to the next are its output; ``# ends with 2`` behind a
command is the exit code it must have. Other languages (``sh``, ``json``) are only read. In an output ``...`` stands for
anything, and a decimal number that a seeded training printed may differ in its last digits from machine to machine.

``python tests/pages.py docs/PAGE.md`` writes what blocks print now into the page; outputs that hold ``...`` and still
fit stay.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

FENCE = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```[ ]*$", flags=re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
CODE = re.compile(r"\s+# ends with (\d+)$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its text without the indent, and where its inside begins in the page."""

    language: str
    text: str
    start: int
    end: int
    indent: str


@dataclass(frozen=True)
class Shown:
    """Something that a page runs, and the output that it shows for it (None: it shows none), with its place."""

    run: Callable[[], str]
    output: str | None
    start: int
    end: int
    indent: str


def blocks_of(page: str) -> list[Block]:
    return [
        Block(found[2], textwrap.dedent(found[3]), found.start(3), found.end(3), found[1])
        for found in FENCE.finditer(page)
    ]


def shown_on(page: str) -> Iterator[Shown]:
    """All that a page runs, in order; Python shares one namespace."""
    blocks, space = blocks_of(page), {"__name__": "__main__"}
    for place, block in enumerate(blocks):
        if block.language == "python":
            after = blocks[place + 1] if place + 1 < len(blocks) else None
            near = after is not None and page[block.end : after.start].count("\n") <= 3 and after.language == "text"
            told = (after.text, after.start, after.end, after.indent) if near and after else (None, 0, 0, "")
            yield Shown(lambda code=block.text: _python(code, space), *told)  # type: ignore[misc]
        elif block.language == "console":
            yield from _commands(block)


def _commands(block: Block) -> Iterator[Shown]:
    found = list(re.finditer(r"^ *\$ ((?:.*\\\n)*.*)\n", _inside(block), flags=re.MULTILINE))
    for this, after in zip(found, [*found[1:], None], strict=True):
        end = len(_inside(block)) if after is None else after.start()
        output = textwrap.dedent(_inside(block)[this.end() : end])
        command = this[1].replace("\\\n", " ")
        start = block.start + this.end()
        yield Shown(lambda words=command: _command(words), output, start, block.start + end, block.indent)  # type: ignore[misc]


def _inside(block: Block) -> str:
    return textwrap.indent(block.text, block.indent)


def _python(code: str, space: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "a page", "exec"), space)
    return printed.getvalue()


def _command(line: str) -> str:
    """``dpmac`` in this process (a start takes seconds), with at most a ``> FILE``; anything else by the shell."""
    code = CODE.search(line)
    wanted, line = (0, line) if code is None else (int(code[1]), line[: code.start()])
    words = shlex.split(line, comments=True)
    plain = words[0] == "dpmac" and not {";", "|", "&&"} & set(words)
    status, printed, wrong = _dpmac(words[1:]) if plain else _shell(line)
    assert status == wanted, f"$ {line}\nended with {status}, not {wanted}\n{printed}{wrong}"
    return printed + (wrong if wanted else "")


def _dpmac(words: list[str]) -> tuple[int, str, str]:
    from dpmac import cli

    to = words.index(">") if ">" in words else len(words)
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["dpmac", *words[:to]]),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
    ):
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
    if to < len(words):
        Path(words[to + 1]).write_text(out.getvalue())
        out = io.StringIO()
    return status, out.getvalue(), err.getvalue()


def _shell(line: str) -> tuple[int, str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    place = {**os.environ, "PATH": path, "LC_ALL": "C"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=900, env=place)
    return done.returncode, done.stdout, done.stderr


def alike(shown: str, printed: str) -> bool:
    """Word for word, ``...`` being anything, and decimal numbers within 0.02 or 3 %, whichever is more."""
    wanted, got = (_lines(text) for text in (shown, printed))
    pattern = "".join(_pattern(piece) for piece in re.split(rf"(\.\.\.|{DECIMAL.pattern})", wanted))
    found = re.fullmatch(pattern, got, flags=re.DOTALL)
    if found is None:
        return False
    numbers = [float(one) for one in re.split(r"\.\.\.", wanted) for one in DECIMAL.findall(one)]
    pairs = zip(numbers, map(float, found.groups()), strict=True)
    return all(abs(ours - theirs) <= max(0.02, 0.03 * abs(ours)) for ours, theirs in pairs)


def _pattern(piece: str) -> str:
    if piece == "...":
        return ".*?"
    return f"({DECIMAL.pattern})" if DECIMAL.fullmatch(piece) else re.escape(piece)


def _lines(text: str) -> str:
    return textwrap.dedent("\n".join(line.rstrip() for line in text.strip("\n").split("\n"))).strip("\n")


def check_page(page: str) -> int:
    """Run all of a page in the present folder; the number of outputs that were compared."""
    compared = 0
    for shown in shown_on(page):
        printed = shown.run()
        if shown.output is not None and _lines(shown.output):
            compared += 1
            assert alike(shown.output, printed), f"the page shows\n\n{shown.output}\nand this was printed\n\n{printed}"
    return compared


def check_imports(code: str) -> None:
    """Parse a block and run its imports alone: a name that has moved is noticed at once, in long examples too."""
    imports = [one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(list(imports), []), "imports of a page", "exec"), {})


def written(page: str) -> str:
    """The page with what its blocks print now; outputs that hold ``...`` and still fit stay, as do commands without."""
    changes = []
    for shown in shown_on(page):
        printed = shown.run()
        if shown.output is None or not _lines(shown.output):
            continue
        if "..." not in shown.output or not alike(shown.output, printed):
            text = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n")) + "\n"
            changes.append((shown.start, shown.end, textwrap.indent(text, shown.indent)))
    for start, end, text in reversed(changes):
        page = page[:start] + text + page[end:]
    return page


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        path = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(written(path.read_text()))
