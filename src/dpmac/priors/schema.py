"""Rows drawn from a schema alone: what a table with such columns might look like.

Nobody knows how the columns of an unseen table hang together, so many *worlds* are drawn. In a world every column
follows a few common factors and its own chance; its cells have a distribution that the world draws as well (a number is
bent towards one end of its range, a category has some frequent values). Moments over all worlds are moments of tables
that might be, and of none that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import integer
from dpmac.priors.base import MOST_ROWS, Prior, refuse_released
from dpmac.priors.draws import Array, Draws, ranks
from dpmac.tables import Number, Schema
from dpmac.tables.kinds import ColumnKind

WORLD = 2_000  # rows
FACTORS = 6
LOADING = 0.4  # the deviation of a column's weight on a factor
MISSING = 0.1  # of the cells of a column that may be missing


class SchemaPrior(Prior):
    """Rows of codes, as :class:`dpmac.tables.TableEncoder` takes them, drawn from ``schema`` and ``seed``.

    A schema whose ranges were estimated from private rows is refused.
    """

    kind = "schema"

    def __init__(self, schema: Schema | Mapping[str, Any], seed: int = 0) -> None:
        if not isinstance(schema, Schema):
            schema = Schema.from_dict(schema)
        refuse_released("schema", schema)
        self.schema, self.seed = schema, Draws(seed, self.kind).seed

    def drawn(self, rows: int) -> Tensor:
        integer("rows", rows, f"give a number of rows from 1 to {MOST_ROWS:,}", high=MOST_ROWS)
        return drawn_worlds(list(self.schema.features.values()), rows, Draws(self.seed, self.kind))

    def described(self) -> str:
        return f"drawn from the schema alone by the program dpmac.priors.SchemaPrior, seed {self.seed}"

    def arguments(self) -> dict[str, Any]:
        return {"schema": self.schema.to_dict(), "seed": self.seed}

    @classmethod
    def sample(cls) -> SchemaPrior:
        columns = {"age": Number(0.0, 100.0), "dose": Number(0.0, 1.0, missing=True)}
        return cls(Schema(columns), seed=3)


def drawn_worlds(columns: list[ColumnKind], rows: int, draw: Draws) -> Tensor:
    """``rows`` rows of codes of these columns, in worlds of at most WORLD rows."""
    sizes = [WORLD] * (rows // WORLD)
    if rows % WORLD:
        sizes.append(rows % WORLD)
    return torch.from_numpy(np.concatenate([_world(columns, size, draw) for size in sizes]))


def _world(columns: list[ColumnKind], rows: int, draw: Draws) -> Array:
    factors = draw.normal(FACTORS, rows)
    made = []
    for column in columns:
        value = draw.normal(rows)
        for factor, loading in zip(factors, LOADING * draw.normal(FACTORS), strict=True):
            value = value + loading * factor  # in this order on every machine, which a matrix product is not
        codes = column.drawn_codes(ranks(value), draw).reshape(rows, -1)
        gone = draw.uniform(rows) < MISSING
        if column.missing:
            codes = np.where(gone[:, None], np.nan, codes)
        made.append(codes)
    return np.concatenate(made, axis=1)
