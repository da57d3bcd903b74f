"""Categories: one of a public list of values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dpmac.cells import is_missing
from dpmac.checks import ArgumentError
from dpmac.limits import JSON_BYTES, read_bytes
from dpmac.tables.kinds.base import Array, ColumnKind, Quote
from dpmac.tables.kinds.bases import Basis, Levels, eye
from dpmac.tables.kinds.protocols import Draws
from dpmac.tables.kinds.shared import allowed, check_flag, drawn_choice
from dpmac.tables.texts import check_length, text_of

OTHER = "other"  # what inputs are decoded to that are nearest to "any other value"
_WHOLE = re.compile(r"([+-]?\d+)\.0*")


@dataclass(frozen=True)
class Category(ColumnKind):
    """One of public ``values``, kept and compared as text; any other value counts as "other".

    1, 1.0, "1" and "1.0" are the same value, spaces around a text do not count, and a bool is "True" or "False", or
    else 1 or 0, whichever is listed.
    """

    values: tuple[str, ...]
    missing: bool = False
    kind: ClassVar[str] = "category"
    needed: ClassVar[tuple[str, ...]] = ("values",)
    to_write: ClassVar[str] = "its public values, a list, as a code book has them and not as the rows do"
    help: ClassVar[str] = (
        "category: values, a list of texts, or the name of a file beside this one with one value a line; any other "
        "value counts as 'other'."
    )
    ordered: ClassVar[bool] = False
    dtype: ClassVar[Any] = object
    absent: ClassVar[Any] = None

    def __init__(self, values: Iterable[Any], missing: bool = False) -> None:
        if hasattr(values, "tolist"):
            values = values.tolist()
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ArgumentError("values", values, "give a list of the category's public values, at least one")
        if any(is_missing(value) for value in values):
            raise ArgumentError("values", list(values), "an empty value is no value: leave it out and set missing")
        texts = tuple(text_of(value) for value in values)
        for text in texts:
            check_length("values", text)
        twice = sorted(text for text, count in Counter(texts).items() if count > 1)
        if twice:
            raise ArgumentError("values", twice, "give each value once")
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "missing", missing)
        check_flag(missing)

    @property
    def other(self) -> int:
        """The code of a value that is not listed."""
        return len(self.values)

    # --- cells, codes, inputs -----------------------------------------------------------------------------------------

    def coded(self, name: str, cells: Array) -> Array:
        """Each cell's place among the values as float64, :attr:`other` for one that is not listed, NaN for none."""
        places = {value: code for code, value in reversed(list(enumerate(map(canonical, self.values))))}
        places |= {value: code for code, value in enumerate(self.values)}
        if cells.dtype.kind in "biuf":
            unique, inverse = np.unique(cells, return_inverse=True)
            return allowed(name, self._looked_up(unique, places)[inverse], self.missing)
        if cells.dtype.kind == "U":
            cells = cells.astype(object)  # of plain texts
        return allowed(name, self._looked_up(cells, places), self.missing)

    def _looked_up(self, cells: Iterable[Any], places: dict[str, int]) -> Array:
        every = list(cells)
        if set(map(type, every)) <= {str}:
            known = {text: self._place(text, places) for text in set(every)}
            return np.fromiter(map(known.__getitem__, every), np.float64, len(every))
        # of texts alone: as keys of a dict, True and 1 would be one
        known = {text: self._place(text, places) for text in {cell for cell in every if type(cell) is str}}
        codes = [known[cell] if type(cell) is str else self._place(cell, places) for cell in every]
        return np.array(codes, dtype=np.float64)

    def _place(self, cell: Any, places: dict[str, int]) -> float:
        """The code of one cell."""
        if is_missing(cell):
            return math.nan
        return float(next((places[form] for form in _forms(cell) if form in places), self.other))

    def lists(self, text: str) -> bool:
        return text.strip() in self.values

    def beyond(self, codes: Array) -> Array:
        found: Array = codes[:, 0] == self.other
        return found

    @property
    def beyond_words(self) -> str:
        return "are none of its values and count as 'other': compare the spelling, upper and lower case too"

    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:  # noqa: ARG002
        hot = (
            self._listed_place(value) == torch.arange(self.other + 1, dtype=value.dtype, device=value.device)
        ) & there
        return [hot.to(value.dtype)]

    def _listed_place(self, value: Tensor) -> Tensor:
        """Each code as the place of a listed value, or of "other"."""
        listed = (value >= 0) & (value < self.other) & (value == torch.floor(value))
        return torch.where(listed, value, torch.full_like(value, float(self.other)))

    def bases(self, bins: int) -> Sequence[Basis]:  # noqa: ARG002
        """Its values, and "other"."""
        labels = tuple(name[1:] for name in self.input_names("", 0))
        return (Levels(labels, eye(len(labels)), self._listed_place, 1),)

    def input_names(self, name: str, bins: int) -> list[str]:  # noqa: ARG002
        other = "other"
        if other in self.values:
            other = "(other)"
        return [f"{name}={value}" for value in (*self.values, other)]

    # --- cells of nobody ----------------------------------------------------------------------------------------------

    def drawn(self, uniform: Array) -> Array:
        found: Array = np.array(self.values, dtype=object)[(uniform * len(self.values)).astype(int)]
        return found

    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        """A value for each place, some more frequent than others; "other" is one of them."""
        return drawn_choice(place, self.other + 1, draw).astype(np.float64)

    def examples(self, points: int) -> Array:  # noqa: ARG002
        return np.array(self.values, dtype=object)

    def candidates(self, points: int) -> tuple[Array, Array]:  # noqa: ARG002
        """All values, and "other": which has a code of its own even if that text is among the values."""
        cells: list[str | None] = [*self.values, OTHER]
        codes: list[float] = [*range(self.other + 1)]
        if self.missing:
            cells.append(None)
            codes.append(math.nan)
        return np.array(codes, dtype=np.float64), np.array(cells, dtype=object)

    # --- in words and in files ----------------------------------------------------------------------------------------

    def described(self, quote: Quote) -> str:
        return f"one of {', '.join(map(quote, self.values))}; any other counts as other"

    def label(self, cell: Any) -> str:
        return str(cell)

    def fields(self) -> dict[str, Any]:
        return {"values": list(self.values)}

    def as_input(self) -> dict[str, Any]:
        return {"codes": {value: code for code, value in enumerate(self.values)}, "any other": self.other}

    @classmethod
    def beside(cls, given: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """``values`` may be the name of a file beside the schema, one value a line, in UTF-8."""
        values = given.get("values")
        if isinstance(values, str):
            return {**given, "values": _lines(folder, values)}
        return given

    # --- templates, targets -------------------------------------------------------------------------------------------

    @classmethod
    def guess(cls) -> None:
        """Whatever is nothing else is a category."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.values

    @classmethod
    def samples(cls) -> Sequence[Category]:
        return cls(["x", "y"], missing=True), cls([1, 2, "True", "other"])

    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        return ["x", " y ", 1, 1.0, True, "never seen", b"x", math.inf], []


def _lines(folder: Path, name: str) -> list[str]:
    if not (folder / name).is_file():
        fix = "give a list, or the name of a file beside the schema with one value a line: there is no such file"
        raise ArgumentError("values", name, fix)
    try:
        text = read_bytes(folder / name, JSON_BYTES).decode("utf-8-sig")
    except ValueError as error:
        raise ArgumentError("values", name, f"this file is no UTF-8 text of one value a line ({error})") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _forms(cell: Any) -> tuple[str, ...]:
    """The texts under which a cell may be listed, the likeliest first."""
    text = text_of(cell)
    if isinstance(cell, bool | np.bool_):
        return text, text.lower(), str(int(cell))
    return text, canonical(text)


def canonical(cell: Any) -> str:
    """The one text of all forms of a value: without spaces around it, of a whole number without a point."""
    text = text_of(cell).strip()
    whole = _WHOLE.fullmatch(text)
    if whole:
        return whole[1]
    return text
