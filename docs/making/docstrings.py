"""Docstrings as the code has them, made into Markdown: lists of arguments and attributes, references, literals."""

from __future__ import annotations

import re
from typing import Any

import griffe

TITLES = ("Parameters", "Attributes")


class Sentences(griffe.Extension):
    """Rewrites every docstring that is shown; the code's own stays as it is."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown_of(obj.docstring.value)


def markdown_of(text: str) -> str:
    """Roles become code, double backticks single ones, and underlined sections lists with bold titles."""
    text = re.sub(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    opening, *sections = re.split(
        rf"^({'|'.join(TITLES)})\n-+\n", text, flags=re.MULTILINE
    )
    made = [opening.rstrip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        made.append(
            f"**{title}**\n\n{_listed(body) if title == 'Parameters' else _named(body)}"
        )
    return "\n\n".join(made)


def _listed(body: str) -> str:
    """One list item for each ``names : what they are``; a line that is indented goes on with the one before, as does
    one that ends in a comma, which is a list of names."""
    items: list[str] = []
    for line in body.strip().split("\n"):
        goes_on = items and (line.startswith(" ") or " : " not in items[-1])
        if goes_on:
            items[-1] += " " + line.strip()
        else:
            items.append(line)
    return "\n".join(_item(item) for item in items)


def _named(body: str) -> str:
    """What ``fit`` sets, each name as code: they end in an underscore."""
    return re.sub(r"(?<![\w.`])([a-z]\w*_)(?![\w`])", r"`\1`", body.strip())


def _item(item: str) -> str:
    names, _, what = item.partition(" : ")
    return f"- {', '.join(f'`{name.strip()}`' for name in names.split(','))}: {what}"
