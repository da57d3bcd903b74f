"""Made ``tests/saving/written_by_0_2`` with dpmac 0.2, once: ``python tests/saving/make_written_by_0_2.py FOLDER``.

Every later version must read those folders and answer as they did (test_written_by_0_2.py), so they are never made
again; a new format gets a folder of its own beside them. The rows are made up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from dpmac import DPMACPCA, DPMACClassifier, DPMACRegressor, Ledger, Schema
from dpmac.tables import Category, Number

SCHEMA = Schema(
    {
        "age": Number(18, 90),
        "dose": Number(0, 5, missing=True),
        "sex": Category(["F", "M"]),
        "weight": Number(40, 120),
    },
    target="weight",
    name="made-up people",
)
USUAL = {"epsilon": 2.0, "epochs": 3, "batch_size": 30}
ASKED = ("predict", "predict_proba", "decision_function", "transform", "reconstruction_error")


def arrays(seed: int, n: int = 30) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, (n, 3)).astype(np.float32)


def people(seed: int, n: int = 30) -> dict[str, list]:
    draw = np.random.RandomState(seed)
    sex, dose = draw.choice(["F", "M"], n).tolist(), draw.uniform(0, 5, n).tolist()
    dose[::5] = [None] * len(dose[::5])
    return {
        "age": draw.uniform(10, 95, n).tolist(),
        "dose": dose,
        "sex": sex,
        "weight": draw.uniform(30, 130, n).tolist(),
    }


def answers(model, rows) -> dict[str, list]:
    found = {name: getattr(model, name)(rows).tolist() for name in ASKED if hasattr(model, name)}
    if "transform" in found:
        found["inverse_transform"] = model.inverse_transform(found["transform"]).tolist()
    if hasattr(model, "residual_std_"):
        found["std"] = model.predict(rows, return_std=True)[1].tolist()
    return found


def main(folder: Path) -> None:
    x = arrays(0)
    ledger = Ledger(data_set="made-up rows")
    with ledger.noting(purpose="a fixture", model="classifier"):
        labels = np.array(["no", "perhaps", "yes"])[np.argmax(x, axis=1)]
        classifier = DPMACClassifier(
            (4,), feature_range=(-1, 1), classes=("no", "perhaps", "yes"), ledger=ledger, **USUAL
        )
        classifier.fit(x, labels)
    models = {
        "classifier": (classifier, arrays(1, 6)),
        "regressor": (DPMACRegressor((3,), schema=SCHEMA, **{**USUAL, "epsilon": 20.0}).fit(people(2)), people(3, 6)),
        "components": (DPMACPCA(2, feature_range=([-1, -2, -3], [1, 2, 3])).fit(arrays(4)), arrays(5, 6)),
    }
    asked = {}
    for name, (model, rows) in models.items():
        model.save(folder / name)
        as_json = rows if isinstance(rows, dict) else rows.tolist()
        asked[name] = {"rows": as_json, "epsilon": model.privacy_.epsilon, "answers": answers(model, rows)}
    (folder / "asked.json").write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
