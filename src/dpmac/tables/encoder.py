"""From cells to a network's inputs, by the schema alone: a feature map, and a scikit-learn transformer that learns
nothing.

A table is read once into codes (one float64 a cell, several of a text: :meth:`TableEncoder.codes`), and rows of codes
are what a release gets. The feature map then makes inputs of each row by itself. Nothing is fitted: no mean, no
quantile and no vocabulary is ever taken from rows, so there is nothing to pay for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.outputs import remember
from dpmac.nets.feature_maps.base import FeatureMap, Shape
from dpmac.tables.coding import side_by_side
from dpmac.tables.frames import cells
from dpmac.tables.kinds import KINDS, Array
from dpmac.tables.schema import Schema
from dpmac.tables.words import WordVectors
from dpmac.tables.words.kept import packed_vectors, unpacked_vectors

_BLOCK = 4096  # rows that are transformed at a time: what fits a cache is quicker


class TableEncoder(TransformerMixin, BaseEstimator, FeatureMap):
    """The rows of a table with a public ``schema`` as inputs within [-1, 1]; never NaN, whatever the cells are.

    A number becomes its place u in the range, clipped and scaled to [-1, 1], and ``bins`` piecewise-linear codes
    (clip(bins u - k, 0, 1) - 1/2) / 2, k = 0 .. bins - 1, of which a linear layer makes any function with that many
    pieces. (About 0 and within a quarter, so that a column's many codes weigh about as much as a category's one.) A
    range wider than 20 gives the same once more of log(1 + value - low). A date is such a number of days, without the
    logarithm, and one-hot codes of its parts. A category becomes a one-hot code with a place for any other value. A
    column that may be missing has a flag. A missing cell is zeros and its flag, if there is one.

    ``vectors`` are the word vectors of texts as a model's file has them; whoever makes an encoder leaves them out.
    """

    kind = "table"
    expensive = True

    def __init__(self, schema: Schema | Mapping[str, Any], bins: int = 12, vectors: Tensor | None = None) -> None:
        super().__init__()
        kept = unpacked_vectors(vectors)
        if not isinstance(schema, Schema | Mapping):
            raise ArgumentError("schema", schema, "give a Schema, or the dictionary of one")
        if isinstance(schema, Schema):
            self.schema = schema
        else:
            self.schema = Schema.from_dict(schema)
        if kept and any(vectors not in kept for vectors in self._word_vectors()):
            raise ArgumentError("vectors", [one.name for one in kept], "these are not the word lists of the schema")
        fix = "give the number of pieces of a numeric code, from 0 to 1000"
        self.bins = integer("bins", bins, fix, low=0, high=1000)
        self.origin = self.schema.origin

    # --- the feature map ----------------------------------------------------------------------------------------------

    def codes(self, table: Any) -> Tensor:
        """The cells of the schema's features, float64 (n, features), by each column's own ``coded``: numbers as they
        are, not yet clipped; categories as their place among the values, one past the last for any other; dates as
        days since 2000-01-01; NaN where a cell is missing.

        Each cell is read by itself. A cell that cannot be is an error naming column, row, value and fix.
        """
        features = self.schema.features
        found = cells(table, list(features))
        read = [column.coded(name, self.schema.cells.read(column, found[name])) for name, column in features.items()]
        return torch.from_numpy(side_by_side(read))

    def forward(self, rows: Tensor) -> Tensor:
        self.shape_after(tuple(rows.shape[1:]))
        return self.inputs(rows.double())

    def inputs(self, rows: Tensor) -> Tensor:
        """The inputs of rows of codes, float64, without a look at their shape: what an exported model computes."""
        made, start = list[Tensor](), 0
        for column in self.schema.features.values():
            stop = start + column.code_width
            made.append(column.inputs(rows[:, start:stop], self.bins))
            start = stop
        return torch.cat(made, dim=1)

    def shape_after(self, shape: Shape) -> Shape:
        wanted = (self.code_width,)
        if shape != wanted:
            raise ArgumentError(
                "x", f"rows of shape {shape}", f"the feature map 'table' needs rows of shape {wanted}: codes"
            )
        return (self.n_features_out,)

    def arguments(self) -> dict[str, Any]:
        found = {"schema": self.schema.portable().to_dict(), "bins": self.bins}
        lists = self._word_vectors()
        if lists:
            found["vectors"] = packed_vectors(lists)
        return found

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"the word vectors {one.name!r} (sha256 {one.digest[:12]}...), which no private text has shaped, on the "
            "word of whoever named them;"
            for one in self._word_vectors()
        )

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        every = [(kind, place, column) for kind in KINDS for place, column in enumerate(KINDS[kind].samples())]
        columns = {f"{kind} {place}": column for kind, place, column in every}
        made = cls(Schema(columns), bins=3)
        return made, (made.code_width,)

    # --- the transformer ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> TableEncoder:  # noqa: ARG002 - scikit-learn's signature
        """Look over the table, and learn nothing from it."""
        self.codes(X)
        return self

    def transform(self, X: Any) -> Array:
        """The inputs of a table's rows, float64 (n, n_features_out)."""
        codes = self.codes(X)
        inputs = torch.empty(len(codes), self.n_features_out, dtype=torch.float64)
        for start in range(0, len(codes), _BLOCK):
            inputs[start : start + _BLOCK] = self(codes[start : start + _BLOCK])
        made = np.asarray(inputs.numpy())
        remember(made, self.origin)
        return made

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Array:  # noqa: ARG002
        return self.transform(X)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return ["bins", "schema"]  # what a file adds follows from the schema

    def set_params(self, **params: Any) -> TableEncoder:
        if params:
            unknown = sorted(set(params) - {"schema", "bins"})
            if unknown:
                raise ArgumentError("parameter", unknown[0], "this encoder has schema and bins")
            fresh = TableEncoder(**{"schema": self.schema, "bins": self.bins, **params})  # checked before it is taken
            self.schema, self.bins, self.origin = fresh.schema, fresh.bins, fresh.origin
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        labels = [column.labels(name, self.bins) for name, column in self.schema.features.items()]
        return np.array([label for of_one in labels for label in of_one], dtype=object)

    @property
    def n_features_in_(self) -> int:
        return len(self.schema.features)

    @property
    def feature_names_in_(self) -> Array:
        return np.array(list(self.schema.features), dtype=object)

    @property
    def code_width(self) -> int:
        """The numbers of a row of codes: one a column, more of a text."""
        return sum(column.code_width for column in self.schema.features.values())

    @property
    def dense_share(self) -> float:
        """The share of the inputs that are texts': many directions of unlike importance."""
        columns = self.schema.features.values()
        dense = sum(len(column.labels("", self.bins)) for column in columns if column.dense)
        return dense / self.n_features_out

    def _word_vectors(self) -> list[WordVectors]:
        """The word lists of its texts, each once."""
        every = [column.word_vectors() for column in self.schema.features.values()]
        return [*dict.fromkeys(one for one in every if one is not None)]

    @property
    def n_features_out(self) -> int:
        return sum(len(column.labels("", self.bins)) for column in self.schema.features.values())

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
