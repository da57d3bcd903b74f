"""Write the pages that the site is built from: ``python docs/making/pages.py build/docs``, then any builder.

They are the Markdown files of ``docs``, with what is made now: figures, the options of all commands, and the paper's
results, which lie outside ``docs``. ``python docs/making/pages.py --check site`` refuses a built site that would fetch
anything from a network when it is read, or that cuts off a signature.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
RESULTS = DOCS.parent / "reproduction" / "results"
COPIED = (".md", ".png", ".svg", ".css")
OPTIONS = "<!-- options -->"
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=['\"]?(?:https?:)?//[^>]*>"
)
SIGNATURE = re.compile(r'<div class="doc-signature[^"]*">(.*?)</div>', re.DOTALL)
WIDEST = 80  # characters of a signature that a page shows without being scrolled
NEEDS_NO_FETCHING = re.compile(r"<link\b[^>]*\brel=['\"]?(?:canonical|license)\b")


def write(to: Path) -> None:
    """All pages into a new folder ``to``; what was there goes."""
    sys.path.insert(0, str(DOCS))
    from figures import drawn

    shutil.rmtree(to, ignore_errors=True)
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in COPIED:
            _copy(path, to / path.relative_to(DOCS))
    for name, content in drawn().items():
        _write(to / "figures" / name, content)
    for path in sorted(RESULTS.iterdir()):
        if path.suffix in COPIED:
            _copy(path, to / "paper" / path.name)


def _copy(path: Path, to: Path) -> None:
    if path.suffix == ".md":
        _write(to, _page(path.read_text("utf-8")))
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def _write(to: Path, content: str | bytes) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    to.write_bytes(content)


def _page(markdown: str) -> str:
    """With the options, links to the paper's results at their place here, and lists that Python-Markdown sees."""
    if OPTIONS in markdown:
        markdown = markdown.replace(OPTIONS, "\n".join(_options()))
    return _spaced_lists(markdown.replace("../reproduction/results/", "paper/"))


def _options() -> Iterator[str]:
    """A section for each command with its arguments and options, read off the commands themselves."""
    import typer

    from dpmac.cli import app

    for name, command in _commands("dpmac", typer.main.get_command(app)):
        yield f"### {name}\n"
        yield from ("| argument or option | what it is |", "|---|---|")
        for one in command.params:
            if one.name != "help":
                yield _row(one)
        yield ""


def _row(one: Any) -> str:
    names = ""
    if one.param_type_name == "option":
        names = ", ".join(one.opts)
    shown = " ".join(filter(None, (names, one.metavar))) or str(one.name).upper()
    said = re.sub(r"\[/?(?:bold|dim)\]", "", getattr(one, "help", "") or "")
    said = said.replace("|", "\\|")
    if one.required:
        said += " *Needed.*"
    return f"| `{shown}` | {said} |"


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or all that a group of commands holds."""
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for word, one in inside.items():
        yield from _commands(f"{name} {word}", one)


def _spaced_lists(markdown: str) -> str:
    """An empty line before a list that follows text, as GitHub reads it and Python-Markdown does not."""
    made: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        starts = re.match(r"(- |\d+\. )", line) is not None
        text = (
            bool(made)
            and made[-1].strip() != ""
            and re.match(r"\s|- |\d+\. ", made[-1]) is None
        )
        if not fenced and starts and text:
            made.append("")
        fenced ^= line.lstrip().startswith("```")
        made.append(line)
    return "\n".join(made)


def check(site: Path) -> None:
    """Raise SystemExit for a page that fetches anything from elsewhere or cuts off a signature, or if there is none."""
    pages = sorted(site.rglob("*.html"))
    for page in pages:
        content = page.read_text("utf-8")
        for found in FETCHED.finditer(content):
            if NEEDS_NO_FETCHING.match(found[0]) is None:
                raise SystemExit(f"{page} fetches from a network: {found[0]}")
        for found in SIGNATURE.finditer(content):
            for line in html.unescape(re.sub(r"<[^>]+>", "", found[1])).split("\n"):
                if len(line) > WIDEST:
                    raise SystemExit(
                        f"{page} cuts off a signature (is ruff there, which breaks them?): {line}"
                    )
    if not pages:
        raise SystemExit(f"there are no pages in {site}")


if __name__ == "__main__":
    *asked, place = sys.argv[1:]
    if asked == ["--check"]:
        check(Path(place))
    else:
        write(Path(place))
