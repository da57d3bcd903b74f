"""What every kind of column can do: :class:`ColumnKind`, which each file of this package implements once.

Everything that a column says of itself is public: written by hand, taken from a code book, or estimated privately and
paid for (:mod:`dpmac.tables.estimate`). It is never read off private rows. Everything that a column does to rows it
does to each cell by itself: a cell's code and inputs depend on that cell and on the column's description alone. The
privacy guarantee rests on that, and ``tests/tables/test_kinds.py`` holds every registered kind to it.

A cell goes through three forms: the *cell* as a table has it, its *code* (one float64, NaN where the cell is missing;
of a text several), and the network's *inputs* (several numbers within [-1, 1]). Cells become codes before the private
part, on the CPU and in Python; codes become inputs within it, in torch operations alone, which are also what an
exported model computes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables.kinds.bases import Basis, Own, eye
from dpmac.tables.kinds.protocols import Draws, Guess
from dpmac.tables.words import WordVectors

ENDS = 2049  # candidates among which the longest inputs are: the ends of a range, and its pieces
Array = np.ndarray[Any, Any]
Task = Literal["classification", "regression"]
Quote = Callable[[Any], str]


class ColumnKind(ABC):
    """One column of a table, by what is publicly known of it. A kind is a frozen dataclass with a field ``missing``.

    ``kind`` is its name in files. ``needed`` and ``optional`` are the keys of its JSON, the arguments of the class;
    ``to_write`` says in words what belongs into those that a template leaves open, and ``help`` explains the kind in
    one line of that template. ``ordered`` says whether its values lie on a line: such a column is drawn as a curve.
    ``dtype`` is the NumPy type of an array of its cells, and ``absent`` the missing cell in such an array.
    """

    kind: ClassVar[str]
    needed: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ("missing",)
    to_write: ClassVar[str]
    help: ClassVar[str]
    ordered: ClassVar[bool]
    dtype: ClassVar[Any]
    absent: ClassVar[Any]
    missing: bool

    # --- cells to codes -----------------------------------------------------------------------------------------------

    @abstractmethod
    def coded(self, name: str, cells: Array) -> Array:
        """The codes of cells, float64, NaN where one is missing; each cell is read by itself.

        (n,) or, of a kind whose :attr:`code_width` is not 1, (n, code_width).
        A cell that cannot be read, or is missing where none may be, is an :class:`ArgumentError` that names the column
        ``name``, the row, the cell and the fix. Values outside the public description are no errors.
        """

    @property
    def code_width(self) -> int:
        """The numbers of a code."""
        return 1

    @property
    def dense(self) -> bool:
        """Whether its inputs are many directions of unlike importance, so that whitening pays with few rows already."""
        return False

    def coded_at_once(self, cells: Any) -> Array | None:  # noqa: ARG002
        """The codes of an arrow array, equal to what :meth:`coded` makes of its cells, or None: read them one by one.

        NaN stands for missing cells here whether or not they are allowed.
        """
        return None

    def lists(self, text: str) -> bool:  # noqa: ARG002
        """Whether a text is one of its public values: it is then never taken for a missing cell ("NA" of Namibia)."""
        return False

    def beyond(self, codes: Array) -> Array:
        """Which codes (n, code_width) are of cells that the public description does not cover, as bool (n,).

        For a warning to whoever holds the rows (:mod:`dpmac.tables.agreement`); NaN counts as missing there.
        """
        return np.zeros(len(codes), dtype=bool)

    @property
    def beyond_words(self) -> str:
        """What becomes of the cells that :meth:`beyond` finds, and what to compare."""
        return "are beyond what the schema says"

    def typed(self, cells: list[Any]) -> list[Any]:
        """The texts of a file as the column's own type where all of them can be; otherwise as they are."""
        return cells

    def with_missing(self) -> Self:
        """The same column, which may be missing."""
        return cast("Self", replace(cast("Any", self), missing=True))

    # --- codes to inputs ----------------------------------------------------------------------------------------------

    @abstractmethod
    def encoded(self, value: Tensor, there: Tensor, bins: int) -> list[Tensor]:
        """The inputs of codes (n, code_width), side by side, each (n, k), zeros where ``there`` (as wide) is False.

        Of torch operations that work element by element, write into nothing, and can be exported. ``value`` is finite,
        and may be any number. ``bins`` is how many pieces a code of a range has.
        """

    @abstractmethod
    def input_names(self, name: str, bins: int) -> list[str]:
        """What the columns of :meth:`encoded` are called, in order."""

    def inputs(self, code: Tensor, bins: int) -> Tensor:
        """All inputs (n, width) of codes (n, code_width): :meth:`encoded`, and a flag if one may be missing. No NaN."""
        there = ~(torch.isnan(code) | torch.isinf(code))
        known = torch.where(there, code, torch.zeros_like(code))  # what is computed of NaN is not the same everywhere
        inputs = [*self.encoded(known, there, bins)]
        if self.missing:
            inputs.append((~there[:, :1]).to(code.dtype))
        return torch.cat(inputs, dim=1)

    def labels(self, name: str, bins: int) -> list[str]:
        """The names of :meth:`inputs`."""
        names = [*self.input_names(name, bins)]
        if self.missing:
            names.append(f"{name} missing")
        return names

    def bases(self, bins: int) -> Sequence[Basis]:
        """The points by which an additive model's term of this column is known: without a word, its inputs alone."""
        names = tuple(self.input_names("", bins))

        def encoded(value: Tensor, there: Tensor) -> Tensor:
            return torch.cat(self.encoded(value, there, bins), dim=1)

        return (Own(tuple(name.strip() for name in names), eye(len(names)), encoded),)

    @property
    def rises(self) -> bool:
        """Whether its values lie on a line along which a term can rise or fall."""
        return self.ordered

    # --- cells of nobody ----------------------------------------------------------------------------------------------

    @abstractmethod
    def drawn(self, uniform: Array) -> Array:
        """A cell for each number in [0, 1), all values equally likely; none of them is missing."""

    @abstractmethod
    def drawn_codes(self, place: Array, draw: Draws) -> Array:
        """The codes of made-up cells, one for each ``place`` in (0, 1), with a distribution that is drawn as well.

        For :class:`dpmac.priors.SchemaPrior`: columns whose places go together have codes that do. None is missing.
        Whatever a machine may round differently is put on a grid, so that every machine has the same codes.
        """

    @abstractmethod
    def examples(self, points: int) -> Array:
        """Different cells that show what the column can hold: all values, or about ``points`` along the range.

        The ends of a range are among them.
        """

    def candidates(self, points: int) -> tuple[Array, Array]:
        """Codes, and the cells that they stand for: what inputs are decoded to, by which code is nearest."""
        cells = self.examples(points)
        codes = self.coded("", cells)
        if self.missing:
            codes = np.concatenate([codes, np.full_like(codes[:1], np.nan)])
            return codes, np.append(cells, self.absent)
        return codes, cells

    def longest(self, bins: int) -> float:
        """The largest norm that the inputs of a cell can have."""
        codes, _ = self.candidates(ENDS)
        inputs = self.inputs(torch.from_numpy(codes.reshape(len(codes), -1)), bins)
        return math.sqrt(float(inputs.square().sum(dim=1).max()))

    def positions(self, cells: Array) -> Array:
        """Where cells lie on the line, float64, NaN for a missing one; only of an ``ordered`` kind."""
        return self.with_missing().coded("", cells)

    # --- in words -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def described(self, quote: Quote) -> str:
        """What a model card says of it; ``quote`` makes any text of the user's harmless."""

    @abstractmethod
    def label(self, cell: Any) -> str:
        """A cell of :meth:`examples` in few letters."""

    def tick(self, position: float, written: Callable[[float], str]) -> str:
        """What an axis says at a position; ``written`` is how it writes numbers."""
        return written(position)

    # --- in files -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Plain values for JSON by key, without ``kind`` and ``missing``; what the class is called with."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a schema reads them by ``kind`` and keys."""
        found = {"kind": self.kind, **self.fields()}
        if self.missing:
            found["missing"] = True
        return found

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> Self:
        """The column of a file's keys, without ``kind``."""
        return cls(**given)

    def portable(self) -> ColumnKind:
        """The same column, saying nothing of where files lie on this machine: as a model's folder has it."""
        return self

    @classmethod
    def beside(cls, given: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:  # noqa: ARG003
        """The keys of a file in that folder: paths in it may lead from there."""
        return given

    def word_vectors(self) -> WordVectors | None:
        """The public word list that cells are read by, which a saved model has to hold; None of most kinds."""
        return None

    @abstractmethod
    def as_input(self) -> dict[str, Any]:
        """What an exported model's description says of this column of its rows: how a cell becomes a code."""

    # --- templates and estimates --------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def guess(cls) -> Guess | None:
        """A fresh guess at a column's kind by its cells; None of a kind that is taken where no guess holds."""

    @classmethod
    def unbounded(cls, given: Mapping[str, Any]) -> ColumnKind | None:  # noqa: ARG003
        """A column that reads every cell of this kind, for estimating its range; ``given`` are the keys already known.

        None of a kind without a range.
        """
        return None

    def with_range(self, low: float, high: float, missing: bool) -> ColumnKind:  # noqa: ARG002
        """The same column with a range of codes, widened if need be; only of a kind that has ``unbounded``."""
        raise ArgumentError("kind", self.kind, "a column of this kind has no range: write down what is known of it")

    # --- as a target --------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes, as texts, if this column can be the target of a classification."""
        return None

    @property
    def target_range(self) -> tuple[float, float] | None:
        """The range, if this column can be the target of a regression: its cells are numbers."""
        return None

    @property
    def task(self) -> Task | None:
        """What predicting this column is; None if it cannot be a target."""
        if self.classes is not None:
            return "classification"
        if self.target_range is None:
            return None
        return "regression"

    # --- for the contract tests ---------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def samples(cls) -> Sequence[ColumnKind]:
        """A few columns of this kind that differ in what they do, with missing cells and without, for its tests."""

    @abstractmethod
    def sample_cells(self) -> tuple[list[Any], list[Any]]:
        """Cells, texts among them, that this one of the :meth:`samples` can read, and cells that it cannot."""
