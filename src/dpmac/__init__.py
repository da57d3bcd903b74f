"""dpmac: differentially private deep learning by the method of auxiliary coordinates.

>>> from dpmac import DPMACClassifier
>>> model = DPMACClassifier(epsilon=2.0).fit(X, y)          # doctest: +SKIP
>>> print(model.privacy_.statement())                        # doctest: +SKIP

Names are loaded on first use, so that ``import dpmac`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmac.checks import ArgumentError
    from dpmac.estimators import (
        DPMACPCA,
        DPMACAutoencoder,
        DPMACClassifier,
        DPMACImageClassifier,
        DPMACModuleClassifier,
        DPMACModuleRegressor,
        DPMACRegressor,
        DPMACSearch,
        Machine,
        PrivacyWarning,
    )
    from dpmac.evaluation import evaluate, split
    from dpmac.extensions.ledgers import Ledger
    from dpmac.nets.network import DenseNetwork, Network
    from dpmac.planning.plan import Plan
    from dpmac.saving import load, save
    from dpmac.tables import Schema, TableEncoder
    from dpmac.training.run import Run
    from dpmac.training.trainer import Trainer

__version__ = "0.3.0"

_HOMES = {
    "ArgumentError": "dpmac.checks",
    "DPMACAutoencoder": "dpmac.estimators",
    "DPMACClassifier": "dpmac.estimators",
    "DPMACImageClassifier": "dpmac.estimators",
    "DPMACModuleClassifier": "dpmac.estimators",
    "DPMACModuleRegressor": "dpmac.estimators",
    "DPMACPCA": "dpmac.estimators",
    "DPMACRegressor": "dpmac.estimators",
    "DPMACSearch": "dpmac.estimators",
    "DenseNetwork": "dpmac.nets.network",
    "Network": "dpmac.nets.network",
    "Ledger": "dpmac.extensions.ledgers",
    "Machine": "dpmac.estimators",
    "Plan": "dpmac.planning.plan",
    "PrivacyWarning": "dpmac.estimators",
    "Run": "dpmac.training.run",
    "Schema": "dpmac.tables",
    "TableEncoder": "dpmac.tables",
    "Trainer": "dpmac.training.trainer",
    "evaluate": "dpmac.evaluation",
    "load": "dpmac.saving",
    "save": "dpmac.saving",
    "split": "dpmac.evaluation",
}

__all__ = [
    "DPMACPCA",
    "ArgumentError",
    "DPMACAutoencoder",
    "DPMACClassifier",
    "DPMACImageClassifier",
    "DPMACModuleClassifier",
    "DPMACModuleRegressor",
    "DPMACRegressor",
    "DPMACSearch",
    "DenseNetwork",
    "Ledger",
    "Machine",
    "Network",
    "Plan",
    "PrivacyWarning",
    "Run",
    "Schema",
    "TableEncoder",
    "Trainer",
    "__version__",
    "evaluate",
    "load",
    "save",
    "split",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpmac' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
