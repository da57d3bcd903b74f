"""The schema: what is publicly known of a table, before a private row is touched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.files import whole_file
from dpmac.limits import read_json
from dpmac.tables.cell_format import PLAIN, CellFormat
from dpmac.tables.described import check_keys, column_of
from dpmac.tables.kinds import KINDS, ColumnKind, Task
from dpmac.tables.texts import check_length, did_you_mean, each_once, either, text_of

if TYPE_CHECKING:
    from dpmac.privacy import Ledger
    from dpmac.randomness import NoiseSource

_KEYS = ("name", "about", "task", "target", "columns", "positive", "cells", "origin")


@dataclass(frozen=True, eq=False, repr=False)
class Schema:
    """Columns by name, in order; the name of the ``target``; and, if it is a category, its ``positive`` value.

    ``task`` follows from the target's column: classification for a category, regression for a number (a date cannot be
    the target); if it is given, it must agree. A schema is frozen and equal by value (including the order of columns),
    so it can be hashed, copied and kept in files. Its contents must be public: cells outside a range are clipped, and
    values that are not listed count as "other".
    """

    columns: Mapping[str, ColumnKind]
    target: str | None = None
    positive: str | None = None
    task: Task | None = None
    name: str = ""
    about: str = ""
    origin: Origin = (
        PUBLIC  # the releases that ranges come from, if they were estimated: see dpmac.extensions.provenance
    )
    cells: CellFormat = PLAIN  # how the texts of files write them

    def __post_init__(self) -> None:
        forms = either([f"{kind.__name__}({', '.join(kind.needed)})" for kind in KINDS.values()])
        fix = f"give a mapping of names to {forms}"
        if not isinstance(self.columns, Mapping):
            raise ArgumentError("columns", self.columns, fix)
        for name, column in self.columns.items():
            if not isinstance(name, str) or not name:
                raise ArgumentError("columns", name, "a column's name must be a text that is not empty")
            check_length("columns", name)
            if not isinstance(column, ColumnKind):
                raise ArgumentError(f"columns.{name}", column, fix)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        if not isinstance(self.cells, CellFormat):
            raise ArgumentError("cells", self.cells, "give a CellFormat")
        for key in ("name", "about"):
            if not isinstance(getattr(self, key), str):
                raise ArgumentError(key, getattr(self, key), "give a text")
            check_length(key, getattr(self, key))
        if not isinstance(self.target, str | None):
            raise ArgumentError("target", self.target, "give the name of one of the columns, a text")
        if self.target is not None and self.target not in self.columns:
            hint = did_you_mean(self.target, self.columns)
            raise ArgumentError("target", self.target, f"it is not among the columns {list(self.columns)}{hint}")
        if not self.features:
            raise ArgumentError("columns", list(self.columns), "give at least one column beside the target")
        object.__setattr__(self, "task", self._checked_task())
        object.__setattr__(self, "positive", self._checked_positive())
        try:
            json.dumps(self.to_dict(), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            fix = "this is half a character, which no file can hold: correct the name or the value that has it"
            raise ArgumentError("columns", error.object[error.start : error.end], fix) from None

    @property
    def features(self) -> dict[str, ColumnKind]:
        """The columns without the target, in order."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def target_column(self) -> ColumnKind | None:
        if self.target is None:
            return None
        return self.columns[self.target]

    def _checked_task(self) -> Task | None:
        column = self.target_column
        if self.task not in (None, "classification", "regression"):
            raise ArgumentError("task", self.task, "give 'classification', 'regression', or leave it out")
        if column is None:
            if self.task is not None:
                raise ArgumentError("task", self.task, "it needs a target: name one of the columns")
            return None
        follows = column.task
        if follows is None:
            fix = f"a {column.kind} cannot be predicted: choose another target, or make a number or a category of it"
            raise ArgumentError("target", self.target, fix)
        if self.task not in (None, follows):
            fix = f"the target {self.target!r} is a {column.kind}, which makes it {follows}: change one of the two"
            raise ArgumentError("task", self.task, fix)
        return follows

    def _checked_positive(self) -> str | None:
        if self.positive is None:
            return None
        classes = None
        if self.target_column is not None:
            classes = self.target_column.classes
        if classes is None:
            raise ArgumentError("positive", self.positive, "it needs a target that is a category")
        value = text_of(self.positive)
        if value not in classes:
            fix = f"give one of the target's values {list(classes)}"
            raise ArgumentError("positive", self.positive, fix + did_you_mean(value, classes))
        return value

    def as_public(self, why: str) -> Schema:
        """The same, declared public to the rows to come (:meth:`dpmac.extensions.provenance.Shaped.as_public`)."""
        return replace(self, origin=self.origin.called_public(why))

    # --- by value -----------------------------------------------------------------------------------------------------

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.columns.items()), self.target, self.positive, self.task, self.name, self.about, self.cells

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Schema):
            return self._key() == other._key()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Schema(name={self.name!r}, features={list(self.features)}, target={self.target!r})"

    def __reduce__(self) -> tuple[Any, ...]:  # copied and pickled as what it says; a mapping proxy cannot be
        return Schema.from_dict, (self.to_dict(),)

    # --- in files -----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in the order of the files; what :meth:`from_dict` reads."""
        found: dict[str, Any] = {"name": self.name, "about": self.about}
        if self.target is not None:
            found |= {"task": self.task, "target": self.target}
        found["columns"] = {name: column.to_dict() for name, column in self.columns.items()}
        if self.positive is not None:
            found["positive"] = self.positive
        if self.cells != PLAIN:
            found["cells"] = self.cells.to_dict()
        if self.origin != PUBLIC:
            found["origin"] = self.origin.to_dict()
        return found

    def portable(self) -> Schema:
        """The same, without the paths of files on this machine."""
        return replace(self, columns={name: column.portable() for name, column in self.columns.items()})

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None = None) -> Schema:
        """A schema from plain values. Unknown keys, wrong kinds and contradictions are errors that name the key.

        Paths of word vectors may lead from ``folder``, where the values were read.
        """
        if isinstance(raw, Mapping):  # "_help" and the like are notes of whoever wrote the file
            raw = {key: value for key, value in raw.items() if not str(key).startswith("_")}
        check_keys("schema", raw, _KEYS, ("columns",))
        if not isinstance(raw["columns"], Mapping):
            raise ArgumentError("columns", raw["columns"], "give an object: a name and a description for each column")
        columns = {name: column_of(f"columns.{name}", described, folder) for name, described in raw["columns"].items()}
        given = {key: raw[key] for key in _KEYS if raw.get(key) is not None and key != "columns"}
        if "cells" in given:
            given["cells"] = CellFormat.from_dict(given["cells"])
        try:
            given["origin"] = Origin.from_dict(raw.get("origin"))
        except (KeyError, TypeError, AttributeError):
            raise ArgumentError("origin", raw.get("origin"), "it is not as it was written: estimate anew") from None
        return cls(columns, **given)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a JSON file; an error names the file, the key, the value and the fix."""
        raw = cls.read(path)
        try:
            return cls.from_dict(raw, Path(path).parent)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error.name}", error.value, error.fix) from None

    @staticmethod
    def read(path: str | Path) -> Any:
        """What a JSON file holds, finished or not: see :func:`dpmac.tables.described.unfinished`."""
        try:
            return read_json(Path(path), objects=each_once)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error.name}", error.value, error.fix) from None
        except ValueError as error:
            raise ArgumentError("path", str(path), f"this file is not JSON ({error})") from None

    def save(self, path: str | Path) -> None:
        """Write the JSON file that :meth:`load` reads."""
        with whole_file(path) as handle:
            handle.write(self.written())

    def written(self) -> str:
        """The text of such a file."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def estimate(
        cls,
        table: Any,
        *,
        epsilon: float,
        delta: float,
        categories: Mapping[str, ColumnKind | Sequence[Any]] | None = None,
        target: str | None = None,
        positive: str | None = None,
        name: str = "",
        ledger: Ledger | None = None,
        source: NoiseSource | None = None,
        quantile: float = 0.005,
        groups: Any = None,
        estimated: Mapping[str, ColumnKind] | None = None,
    ) -> Schema:
        """A schema whose ranges are estimated privately, at a price: see :mod:`dpmac.tables.estimate`.

        It knows the ledger, which must come along to whatever is fitted with it on the same rows.
        """
        from dpmac.privacy import Ledger
        from dpmac.tables.estimate import estimated_columns

        if ledger is None:
            ledger = Ledger()
        columns, about = estimated_columns(
            *(table, epsilon, delta, categories or {}, target),
            ledger=ledger,
            source=source,
            quantile=quantile,
            groups=groups,
            estimated=estimated,
        )
        return cls(columns, target, positive, name=name, about=about, origin=Origin.of(ledger))
