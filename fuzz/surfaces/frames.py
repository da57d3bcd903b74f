"""Tables of all kinds into estimators with a schema, and into the encoder."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from dpmac import DPMACClassifier, DPMACRegressor, Schema, TableEncoder
from fuzz.cases import Action, Case
from fuzz.surfaces.odd_values import odd_column, odd_container
from fuzz.surfaces.starts import QUICK, SCHEMA, fitted, table


def prepare(case: Case) -> Action:
    """A spoilt table, and something that reads it."""
    columns: Any = table()
    for _ in case.times():
        name = case.one_of([*SCHEMA.columns, "patient"])
        case.note(f"{name}:")
        if isinstance(columns[name], list) and columns[name]:
            columns[name] = odd_column(case, columns[name])
    found: Any = columns
    with suppress(Exception):  # these columns may make no frame
        found = _held(case, columns)
    case.ledgers.append(case.folder / "ledger")
    match case.random.randrange(5):
        case 0 | 1:
            case.note("fit")
            kind, target = case.one_of([(DPMACClassifier, "death"), (DPMACRegressor, "age"), (DPMACClassifier, "ward")])
            schema = Schema(dict(SCHEMA.columns), target=target)
            model: Any = kind(schema=schema, **QUICK, ledger=case.folder / "ledger")
            return lambda: model.fit(found)
        case 2:
            case.note("encoder")
            return lambda: _encoded(found)
        case 3:
            case.note("estimate")
            return lambda: Schema.estimate(found, epsilon=1.0, delta=1e-3, categories={"sex": ["F", "M"]})
        case _:
            name = case.one_of(["classifier", "regressor"])
            case.note(f"{name}.predict")
            return lambda: fitted(name).predict(found)


def _encoded(found: Any) -> None:
    inputs = TableEncoder(SCHEMA).transform(found)
    assert np.isfinite(inputs).all()
    assert np.abs(inputs).max(initial=0.0) <= 1.0


def _held(case: Case, columns: dict[str, Any]) -> Any:
    """The columns as a mapping, a data frame, or something near one."""
    choice = case.random.randrange(10)
    if choice < 4:
        return columns
    if choice == 4:
        name = case.one_of(list(columns))
        case.note(f"without {name}")
        return {other: cells for other, cells in columns.items() if other != name}
    if choice == 5:
        case.note("odd names")
        odd = case.one_of([0, None, ("a", 1), "", "Age", "age ", b"age", float("nan")])
        return {**columns, odd: columns["age"]}
    frame = pd.DataFrame(columns)
    if choice == 6:
        case.note("columns twice")
        return pd.concat([frame, frame[[case.one_of(list(columns))]]], axis=1)
    if choice == 7:
        case.note("MultiIndex")
        return frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1)
    if choice == 8:
        case.note("another index")
        return frame.set_index(case.one_of([["age"], ["patient"], ["age", "sex"]]), drop=case.random.random() < 0.5)
    return odd_container(case, frame.to_numpy()) if case.random.random() < 0.3 else frame
