"""The way from what a user has, a table or an array, to rows of numbers and their public feature map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.estimators.arrays import validate_data
from dpmac.estimators.budget import Budgeted
from dpmac.estimators.given import Given, Stored
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.ids import warn_of_ids
from dpmac.estimators.sharing import check_own_rows
from dpmac.estimators.target_cells import target_of
from dpmac.estimators.warning import Few, outside
from dpmac.extensions.persons import MOST
from dpmac.nets.feature_maps import FeatureMap, ToRange, first_of
from dpmac.old_names import OldAttribute
from dpmac.privacy import Persons
from dpmac.tables import Files, Schema, TableEncoder
from dpmac.tables.agreement import Agreement
from dpmac.tables.coding import Reader, Targets
from dpmac.tables.frames import cells
from dpmac.tables.kinds import ColumnKind
from dpmac.tables.stored import files_of
from dpmac.training.progress import progress_bar

Array = np.ndarray[Any, Any]


class OnRows(Budgeted):
    """An estimator of tables with a ``schema``, or of arrays with (or without) a ``feature_range``."""

    schema: Schema | Mapping[str, Any] | None
    feature_range: tuple[Any, Any] | None
    feature_map_: FeatureMap | None
    front_ = OldAttribute("feature_map_")
    privacy_: Privacy
    _bins = 12  # pieces of a numeric code
    _made = 8  # bytes for each input of a row in memory, at the most, while a fit makes them
    _labels_may_be_several = False  # whether y may be a matrix, (n, labels)

    def save(
        self,
        folder: str | Path,
        *,
        extra: Mapping[str, Any] | None = None,
        searched: str | None = None,
        ranges_from: str | None = None,
    ) -> Path:
        """Write the fitted model to a new folder; ``dpmac.load`` gives it back. See :func:`dpmac.saving.save`."""
        import dpmac  # the package itself: dpmac.saving imports this package

        return dpmac.save(self, folder, extra=extra, searched=searched, ranges_from=ranges_from)

    def _encoder(self, bins: int | None = None) -> TableEncoder | None:
        """The table's encoder, with ``bins`` pieces of a numeric code; codes do not depend on them, inputs do."""
        if self.schema is None:
            return None
        if self.feature_range is not None:
            fix = "the schema has the ranges: leave feature_range out"
            raise ArgumentError("feature_range", self.feature_range, fix)
        if bins is None:
            bins = self._bins
        return TableEncoder(self.schema, bins)

    def _target_column(self) -> ColumnKind | None:
        """What the schema says of its target; None without a schema or a target."""
        encoder = self._encoder()
        if encoder is None:
            return None
        return encoder.schema.target_column

    def _checked(self, X: Any, y: Any, groups: Any = None) -> tuple[Given, Any]:
        """Raw rows and targets, looked over, enough of them, and a delta that suits them."""
        self._check_budget()
        table = X
        encoder = self._encoder()
        if encoder is None:
            several = self._labels_may_be_several
            X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=1, multi_output=several)
            return self._enough(self._looked_over(X), table, groups), y
        if y is None:
            y = target_of(encoder.schema, X)
        y = np.asarray(y)
        rows = self._read(encoder, X)
        if len(rows) != len(y):
            raise ArgumentError("y", f"{len(y)} targets", f"there are {len(rows)} rows")
        return self._enough(rows, table, groups), y

    def _checked_rows(self, X: Any, groups: Any = None) -> Given:
        """Raw rows without targets, looked over, enough of them, and a delta that suits them."""
        self._check_budget()
        encoder = self._encoder()
        if encoder is None:
            rows = self._looked_over(validate_data(self, X, dtype=np.float32, ensure_min_samples=1))
            return self._enough(rows, X, groups)
        return self._enough(self._read(encoder, X), X, groups)

    def _files(self, X: Any, y: Any = None) -> Files | None:
        """The rows as a table in files; None if they are in memory. What it lacks is said before it is read."""
        files = files_of(X)
        if files is None:
            return None
        self._check_budget()
        files = files.within(self._machine.memory, self._machine.scratch)
        if self._encoder() is None:
            fix = "rows in files need a schema: what is publicly known of their columns (dpmac.tables.Schema)"
            raise ArgumentError("schema", None, fix)
        if y is not None:
            raise ArgumentError("y", type(y).__name__, "targets of rows in files are the schema's: leave y out")
        if files.n < 2:
            raise ArgumentError("X", f"n_samples={files.n}", "give at least 2 rows; a guarantee needs a crowd")
        return files

    def _from_files(self, files: Files, groups: Any, targets: Targets | None = None) -> tuple[Given, Tensor]:
        """All rows, read once and looked over, and their targets: none of them, but in their shape, if they are stored.

        What is made of them is what would be made of the table in memory, bit for bit.
        """
        encoder = self._encoder()
        assert encoder is not None
        if targets is not None and encoder.schema.target is None:
            raise ArgumentError("schema", encoder.schema, "it names no target: rows in files have theirs by the schema")
        name = None
        if isinstance(groups, str):
            self._check_name(groups)
            name = groups
        self.n_features_in_, self.feature_names_in_ = encoder.n_features_in_, encoder.feature_names_in_
        target = None
        if targets is not None:
            target = encoder.schema.target
        reader = Reader(encoder.schema.features, target, targets, encoder.schema.cells)
        beside = 0
        if groups is None:
            beside = 2 * self._made * encoder.n_features_out
        few, show, seen = Few(files.n), files.progress, Agreement(encoder.schema.features)

        def look_at(codes: Array) -> None:
            few.add(codes)
            seen.add(codes)

        if show is None:
            show = self._machine.progress
        with progress_bar("reading", show, "rows", patience=2.0) as on_rows:
            read = files.read(reader, ids=name, beside=beside, on_rows=on_rows, seen=look_at)
        self._say_where_they_disagree(seen)
        rows = read.rows
        if isinstance(rows, tuple):
            x: Tensor | Stored = rows[0]
            y = rows[1:]
        else:
            x, y = Stored(rows, few.rows()), rows.blank[1:]
        given = self._enough(x, files, groups, read.ids)
        if not y:  # an autoencoder has no targets
            return given, torch.empty(0)
        return given, y[0]

    def _looked_over(self, X: Array) -> Tensor:
        self._feature_map(X.shape[1])  # a bad range is said before anything else
        return _tensor(X)

    def _read(self, encoder: TableEncoder, X: Any) -> Tensor:
        rows = self._codes(encoder, X)
        self.n_features_in_, self.feature_names_in_ = encoder.n_features_in_, encoder.feature_names_in_
        return rows

    def _enough(
        self,
        rows: Tensor | Stored,
        table: Any,
        groups: Any,
        ids: Array | None = None,
        more: tuple[Tensor, ...] = (),
    ) -> Given:
        if len(rows) < 2:
            where = ""
            if self._world.size > 1:
                where = " to each process, or start fewer"
            fix = f"give at least 2 rows{where}; a guarantee needs a crowd"
            raise ArgumentError("X", f"n_samples={len(rows)}", fix)
        given = Given(rows, self._persons(table, groups, len(rows), ids), more=more)
        if given.n < 2:
            raise ArgumentError("groups", f"{given.n} person", "give rows of at least 2; a guarantee needs a crowd")
        whole = self._joined(given, table, groups)
        self._delta(whole.n)
        return whole

    def _joined(self, given: Given, table: Any, groups: Any) -> Given:
        """With the number of rows, or persons, of all processes; nobody's rows may be in more than one."""
        world = self._world
        world.agree("the unit of privacy", given.unit)
        persons = given.persons
        if persons is not None and world.size > 1:
            ids = groups
            if isinstance(groups, str):
                if isinstance(table, Files):
                    seen: Iterable[Any] = table.different(groups)
                else:
                    seen = self._ids(table, groups)
                ids = [one for one in seen if one is not None]
            persons = persons.whole_in(world, ids)
        check_own_rows(world, given.few)
        elsewhere = sum(world.everyone(given.n)) - given.n
        return replace(given, persons=persons, world=world, elsewhere=elsewhere)

    def _persons(self, table: Any, groups: Any, rows: int, ids: Array | None) -> Persons | None:
        """Whose the rows are; None where every row is a person of its own, as far as anyone said.

        ``ids`` is the column ``groups`` of a table in files, which has been read already.
        """
        integer("max_rows", self.max_rows, f"give the rows of a person in a step, 1 to {MOST}", low=1, high=MOST)
        if groups is None:
            if math.isfinite(self.epsilon) and self._world.leads:
                warn_of_ids(table)
            return None
        if isinstance(groups, str):
            if ids is None:
                ids = self._ids(table, groups)
            persons = Persons.of(ids, self.max_rows, groups)
        else:
            persons = Persons.of(groups, self.max_rows)
        if persons.rows != rows:
            raise ArgumentError("groups", f"{persons.rows} ids", f"there are {rows} rows: give one for each")
        return persons

    def _ids(self, table: Any, name: str) -> Array:
        """The column of a table that says whose a row is."""
        self._check_name(name)
        return cells(table, [name])[name]

    def _check_name(self, name: str) -> None:
        encoder = self._encoder()
        if encoder is None:
            raise ArgumentError("groups", name, "give the ids themselves (a name needs a schema), and no column of X")
        if name in encoder.schema.columns:
            raise ArgumentError("groups", name, "the schema has it for a model to see: take it out there")

    def _raw(self, X: Any) -> Tensor:
        encoder = self._encoder()
        if encoder is None:
            return _tensor(validate_data(self, X, dtype=np.float32, reset=False))
        files = files_of(X)
        if files is not None:
            X = files
        return self._codes(encoder, X)

    def _codes(self, encoder: TableEncoder, X: Any) -> Tensor:
        """The codes of a table, and a warning to whoever has it where schema and rows disagree."""
        codes, seen = encoder.codes(X), Agreement(encoder.schema.features)
        seen.add(codes.numpy())
        self._say_where_they_disagree(seen)
        return codes

    def _say_where_they_disagree(self, seen: Agreement) -> None:
        if self._world.leads:
            seen.warn(outside() + 1)

    def _target_name(self) -> str:
        """What an error or a warning calls the target."""
        return getattr(getattr(self._encoder(), "schema", None), "target", None) or "y"

    def _feature_map(self, width: int, bins: int | None = None) -> FeatureMap | None:
        if self.schema is not None:
            return self._encoder(bins)
        if self.feature_range is None:
            return None
        fix = "give public, finite bounds with low < high"
        try:
            if not isinstance(self.feature_range, tuple | list | np.ndarray):
                raise TypeError
            low, high = (np.asarray(end, dtype=np.float64) for end in self.feature_range)
        except (TypeError, ValueError):
            raise ArgumentError("feature_range", self.feature_range, f"{fix}: (low, high)") from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ArgumentError("feature_range", self.feature_range, fix)
        if any(end.shape not in ((), (width,)) for end in (low, high)):
            raise ArgumentError("feature_range", self.feature_range, f"give two numbers, or {width} a side")
        return ToRange(torch.from_numpy(np.array(low)), torch.from_numpy(np.array(high)))


def raw_width(estimator: OnRows) -> int:
    """The numbers of a raw row: an array's features, or a table's codes, of which a text has several."""
    first = first_of(estimator.feature_map_)
    if isinstance(first, TableEncoder):
        return first.code_width
    return int(estimator.n_features_in_)


def _tensor(X: Array) -> Tensor:
    return torch.from_numpy(np.require(X, requirements=["C", "W"]))  # a copy only where it must be
