"""Small pieces of HTML. Whatever comes from a file goes through :func:`text` or :func:`table`, which escape it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

# Nothing is fetched and nothing runs, whatever a file might have smuggled in.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """``value`` as it reads, escaped; :class:`Markup` stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(str(value)))


def paragraph(*parts: Any, style: str = "") -> Markup:
    kind = ""
    if style:
        kind = f' class="{style}"'
    return Markup(f"<p{kind}>{''.join(text(part) for part in parts)}</p>")


def bullets(items: Sequence[Any]) -> Markup:
    return Markup(f"<ul>{''.join(f'<li>{text(item)}</li>' for item in items)}</ul>")


def section(name: str, title: str, *parts: Any) -> Markup:
    return Markup(
        f'<section id="{escape(name)}"><h2>{text(title)}</h2>{"".join(text(part) for part in parts)}</section>'
    )


def figure(chart: str, caption: str) -> Markup:
    return Markup(f"<figure>{chart}<figcaption>{text(caption)}</figcaption></figure>")


def group(style: str, *parts: Any) -> Markup:
    return Markup(f'<div class="{style}">{"".join(text(part) for part in parts)}</div>')


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], numeric: Sequence[int] = ()) -> Markup:
    """A table that scrolls by itself where it is too wide; columns in ``numeric`` stand to the right."""

    def cell(kind: str, place: int, value: Any) -> str:
        style = ""
        if place in numeric:
            style = ' class="n"'
        return f"<{kind}{style}>{text(value)}</{kind}>"

    top = "".join(cell("th", place, value) for place, value in enumerate(head))
    body = "".join(f"<tr>{''.join(cell('td', k, v) for k, v in enumerate(row))}</tr>" for row in rows)
    return Markup(f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>')


def facts(items: Sequence[tuple[str, str, str]]) -> Markup:
    """Figures that are seen first: what, how much, and a few words."""
    made = (
        f"<div><dt>{text(what)}</dt><dd>{text(much)}<small>{text(words)}</small></dd></div>"
        for what, much, words in items
    )
    return Markup(f'<dl class="facts">{"".join(made)}</dl>')


def document(title: str, style: str, *parts: Any) -> str:
    """A whole page, by itself."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(text(part) for part in parts)
        + "\n</main>\n</body>\n</html>\n"
    )
