"""What the documentation's build adds to the pages: figures, drawn now, the paper's results, the commands' options.

All of it is in the built site alone, and as new as the code that it is made with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parent.parent
RESULTS = DOCS.parent / "reproduction" / "results"
KEPT = (".md", ".png")
OPTIONS = "<!-- options -->"
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=['\"]?(?:https?:)?//[^>]*>"
)


def on_files(files: Files, *, config: Any) -> Files:
    """Draw every figure and take in the paper's results, which lie outside of ``docs``."""
    sys.path.insert(0, str(DOCS))
    from figures import drawn

    for name, content in drawn().items():
        files.append(File.generated(config, f"figures/{name}", content=content))
    for path in sorted(RESULTS.iterdir()):
        if path.suffix in KEPT:
            files.append(
                File.generated(config, f"paper/{path.name}", abs_src_path=str(path))
            )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link to the paper's results in the repository is one to their page here; lists may follow a line of text."""
    if OPTIONS in markdown:
        markdown = markdown.replace(OPTIONS, "\n".join(_options()))
    return _spaced_lists(markdown.replace("](../reproduction/results/", "](paper/"))


def _options() -> Iterator[str]:
    """A section for each command with its arguments and options, read off the commands themselves."""
    import typer

    from dpmac.cli import app

    for name, command in _commands("dpmac", typer.main.get_command(app)):
        yield f"### {name}\n"
        yield from ("| argument or option | what it is |", "|---|---|")
        for one in command.params:
            if one.name == "help":
                continue
            names = ", ".join(one.opts) if one.param_type_name == "option" else ""
            shown = (
                " ".join(filter(None, (names, one.metavar))) or str(one.name).upper()
            )
            said = re.sub(
                r"\[/?(?:bold|dim)\]", "", getattr(one, "help", "") or ""
            ).replace("|", "\\|")
            yield f"| `{shown}` | {said}{' *Needed.*' if one.required else ''} |"
        yield ""


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or all that a group of commands holds."""
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for word, one in inside.items():
        yield from _commands(f"{name} {word}", one)


def on_post_build(*, config: Any) -> None:
    """Refuse a site that would fetch anything from elsewhere when it is read."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        found = FETCHED.search(page.read_text("utf-8"))
        if found is not None:
            raise PluginError(f"{page} fetches from a network: {found[0]}")


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
