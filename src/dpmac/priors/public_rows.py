"""Public rows that the caller brings, on their word: a table that anybody may have, and much like the private one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, public_text
from dpmac.extensions.outputs import maker_of
from dpmac.priors.base import MOST_ROWS, Prior, refuse_released
from dpmac.tables import Schema, TableEncoder


class PublicRows(Prior):
    """The rows of a public ``table``: an array of numbers, or with ``schema`` a table with its columns.

    ``called`` says what they are, in the user's words, and stands in the statement: that none of the private rows is
    among them is on the user's word. Outputs of a private model are refused.
    """

    kind = "public rows"

    def __init__(self, table: Any, called: str, schema: Schema | None = None) -> None:
        self.called = public_text("called", called, "say what these public rows are, such as 'UCI Adult, 1994'")
        self.rows = _rows_of(table, schema)

    def drawn(self, rows: int) -> Tensor:
        """The first ``rows`` of them, or all."""
        return self.rows[: integer("rows", rows, f"give a number of rows from 1 to {MOST_ROWS:,}", high=MOST_ROWS)]

    def described(self) -> str:
        return f"{len(self.rows):,} rows that the user called public: {self.called}"

    def arguments(self) -> dict[str, Any]:
        return {"table": self.rows, "called": self.called}

    @classmethod
    def sample(cls) -> PublicRows:
        return cls([[0.0, 1.0], [2.0, 3.0], [4.0, 5.5]], "three rows")


def _rows_of(table: Any, schema: Schema | None) -> Tensor:
    refuse_released("table", table)
    if schema is not None:
        refuse_released("schema", schema)
        return _refused_outputs(TableEncoder(schema).codes(table))
    try:
        found = torch.as_tensor(np.asarray(table), dtype=torch.float64).clone()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError("table", type(table).__name__, "give an array of numbers, or a table and schema=") from None
    if found.dim() < 2 or not len(found):
        raise ArgumentError("table", f"shape {tuple(found.shape)}", "give at least one row, (rows, features)")
    return _refused_outputs(found)


def _refused_outputs(found: Tensor) -> Tensor:
    """The rows, unless a column of them is what a private model of this process has given."""
    if maker_of(found.flatten(1).numpy()).runs:
        raise ArgumentError("table", "outputs of a private model", "bring rows that no private row has shaped")
    return found
