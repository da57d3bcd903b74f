"""Docstrings as help."""

from __future__ import annotations

import inspect


def flowing(docstring: str | None) -> str:
    """A docstring whose paragraphs wrap as the terminal likes; paragraphs that are indented keep their lines."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else " ".join(p.split("\n")) for p in paragraphs)
