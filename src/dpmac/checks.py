"""Errors that name the argument, its value and the fix; raised before anything private is touched. And a warning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
SAID = 10_000  # characters of a text in the words of the user


class ArgumentError(ValueError):
    """A bad argument: the message is ``name=value: what is wrong and what to do``."""

    def __init__(self, name: str, value: Any, fix: str) -> None:
        value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value  # NumPy scalars
        self.name, self.value, self.fix = name, value, fix
        super().__init__(f"{name}={value!r}: {fix}")


class PrivacyWarning(UserWarning):
    """Something about a private fit that its statement cannot know: it is allowed, and probably not what was meant."""


def is_number(value: Any) -> bool:
    """A real number that is not a bool (``True`` is never a sensible epsilon); NumPy scalars count."""
    if isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"}:
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str | bytes)


def number(
    name: str, value: Any, fix: str, *, low: float = -math.inf, high: float = math.inf, strict: bool = False
) -> float:
    """``value`` as a float within ``[low, high]`` (``(low, high)`` if strict); NaN is always refused."""
    if not is_number(value):
        raise ArgumentError(name, value, fix)
    result = float(value)
    inside = low < result < high if strict else low <= result <= high
    if not inside:
        raise ArgumentError(name, value, fix)
    return result


def integer(name: str, value: Any, fix: str, *, low: int = 1, high: int | None = None) -> int:
    """``value`` as an int within ``[low, high]``; a float is taken only if it is whole."""
    if not is_number(value) or not math.isfinite(float(value)) or value != int(value):
        raise ArgumentError(name, value, fix)
    result = int(value)
    if result < low or (high is not None and result > high):
        raise ArgumentError(name, value, fix)
    return result


def chosen(name: str, value: str | T, known: Mapping[str, T]) -> T:
    """``value`` itself, or what is known under that name."""
    if not isinstance(value, str):
        return value
    if value not in known:
        raise ArgumentError(name, value, f"choose one of {', '.join(known)}, or give an object of that kind")
    return known[value]


def how_many(count: int, noun: str) -> str:
    """A count in words: "1 column", "2,000 columns"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


def check_utf8(name: str, text: str) -> None:
    """Refuse a text that no file of ours can hold: what came of bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(name, text, "this is not UTF-8 text, which files and reports are: rename it") from None


def public_text(name: str, value: Any, fix: str) -> str:
    """A text in the user's words on one line, as every file, card and report of a model can hold it."""
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(name, value, fix)
    check_utf8(name, value)
    text = " ".join(value.split()).rstrip(".;")
    if len(text) > SAID:
        raise ArgumentError(name, f"{text[:40]}...", f"it has {len(text):,} characters, and {SAID:,} are the most")
    return text


def one_line(text: str) -> str:
    """A text from somebody else's file as a line can show it: what could end the line or move the cursor is escaped."""
    if text.isprintable():
        return text
    return ascii(text)[1:-1]


def check_dimensions(part: Any, **wanted: int) -> None:
    """Raise unless these tensors of a part have so many dimensions, the first of them its rows; None is no tensor.

    With a dimension more, a norm could be one entry's and not one row's, and a share longer than it says.
    """
    for name, dimensions in wanted.items():
        tensor = getattr(part, name)
        if tensor is not None and (tensor.dim() != dimensions or tensor.shape[0] != part.rows):
            fix = f"give a tensor of {dimensions} dimensions, the first of them the {part.rows} examples"
            raise ArgumentError(name, tuple(tensor.shape), fix)
