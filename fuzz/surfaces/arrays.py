"""Arrays of all kinds, and odd arguments, into ``fit`` and ``predict``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Machine
from fuzz.cases import Action, Case
from fuzz.surfaces.arguments import CODES, LABELS, MACHINE, ODD, TARGETS, spoil
from fuzz.surfaces.odd_values import odd_array, odd_container
from fuzz.surfaces.starts import QUICK, fitted, rows

KINDS: dict[type[Any], dict[str, tuple[Any, ...]]] = {
    DPMACClassifier: {**ODD, **LABELS},
    DPMACRegressor: {**ODD, **TARGETS},
    DPMACPCA: {**ODD, **CODES},
    DPMACAutoencoder: {**ODD, **CODES},
}
ASKED = (
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "inverse_transform",
    "reconstruction_error",
    "score",
)


def prepare(case: Case) -> Action:
    """A fit, or a question to a fitted model."""
    return _fit(case) if case.random.random() < 0.6 else _ask(case)


def _spoilt(case: Case, array: Any) -> Any:
    for _ in case.times(2):
        with suppress(Exception):  # a mutation that does not suit what an earlier one has left
            array = odd_array(case, array) if case.random.random() < 0.7 else odd_container(case, array)
    return array


def _fit(case: Case) -> Action:
    kind = case.one_of(list(KINDS))
    known = {name: values for name, values in KINDS[kind].items() if name in kind._get_param_names()}
    arguments: dict[str, Any] = {name: value for name, value in QUICK.items() if name in kind._get_param_names()}
    if "target_range" in known:
        arguments["target_range"] = (0, 1)
    path = case.folder / "ledger"
    arguments["ledger"] = path
    x, y = rows()
    labels: Any = y
    machine: dict[str, Any] = {}
    case.note(kind.__name__)
    for _ in case.times():
        match case.random.randrange(4):
            case 0:
                spoil(case, arguments, known)
            case 1:
                spoil(case, machine, MACHINE)
            case 2:
                x = _spoilt(case, x)
            case _:
                case.note("y:")
                labels = _spoilt(case, labels)
    case.ledgers.append(path)

    def action() -> None:
        chosen = {"machine": Machine(**{"threads": 1, "progress": False} | machine)} if machine else {}
        model = kind(**arguments | chosen)
        model.fit(x, labels)
        assert model.privacy_.epsilon >= 0
        model.privacy_.statement().sentences()

    return action


def _ask(case: Case) -> Action:
    name = case.one_of(["array", "pca", "autoencoder"])
    model = fitted(name)
    method = case.one_of([one for one in ASKED if hasattr(model, one)])
    case.note(f"{name}.{method}")
    x, y = rows()
    width = 2 if method == "inverse_transform" else 3
    given = _spoilt(case, x[:, :width])
    more = (y,) if method == "score" else ()
    return lambda: getattr(model, method)(given, *more)
