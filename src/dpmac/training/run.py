"""A finished run: the model, its history, the ledger and the plan; and the folder they are written to."""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.files import write_new
from dpmac.modules.files import save_weights
from dpmac.modules.task import device_of, dtype_of
from dpmac.nets import Network
from dpmac.nets.feature_maps import FeatureMap, save_feature_map
from dpmac.old_names import OldAttribute
from dpmac.privacy import Ledger, Plan, Statement
from dpmac.training.step import inputs_of


@dataclass(frozen=True)
class Record:
    """One epoch of the history. All of it is public: released slopes, and metrics on data the user calls public."""

    step: int
    epoch: float
    lr: float
    released_norms: list[float]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """For JSON, which cannot represent numbers that are not finite: these become strings."""

        def number(value: float) -> float | str:
            if not math.isfinite(value):
                return str(float(value))
            return float(value)

        norms = [number(norm) for norm in self.released_norms]
        return {**asdict(self), "released_norms": norms, "metrics": {k: number(v) for k, v in self.metrics.items()}}


@dataclass(frozen=True)
class Run:
    """What :meth:`Trainer.fit` returns."""

    model: Any  # a Network, or a copy of the module that was given
    history: list[Record]
    ledger: Ledger
    plan: Plan
    notes: tuple[str, ...] = ()
    feature_map: FeatureMap | None = None
    front = OldAttribute("feature_map")

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """The network's outputs for raw rows like those given to ``fit``, feature map included. In double precision, so
        that a row's output does not depend on the other rows. Of a module that is no Network: what it gives for ``x``.
        """
        if not isinstance(self.model, Network):
            given = x.to(device_of(self.model))
            if self.feature_map is not None:
                given = self.feature_map(given).to(dtype_of(self.model))
            found: Tensor = self.model(given)
            return found
        inputs = x.to(self.model.device)
        if self.feature_map is not None:
            inputs = inputs_of(self.feature_map, self.model, inputs)
        return self.outputs_of_inputs(inputs)

    @torch.no_grad()
    def outputs_of_inputs(self, inputs: Tensor) -> Tensor:
        """The same of a network's inputs, which are rows behind the feature map."""
        result: Tensor = copy.deepcopy(self.model).double()(inputs.double())
        return result

    def statement(self) -> Statement:
        """The guarantee of this run, composed from the ledger."""
        return self.ledger.statement(self.plan.delta, self.notes)

    def save(self, folder: str | Path, extra: Mapping[str, Any] | None = None) -> Path:
        """Write ``model.safetensors``, ``front.safetensors`` (if there is a feature map), ``plan.json``,
        ``ledger.jsonl``, ``history.json``, ``statement.txt`` and ``statement.json`` into a new folder. ``extra`` goes
        into ``result.json``."""
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=False)
        statement = self.statement()
        if isinstance(self.model, Network):
            self.model.save(where / "model.safetensors")
        else:
            save_weights(self.model, where / "model.safetensors")
        if self.feature_map is not None:
            save_feature_map(self.feature_map, where / "front.safetensors")
        self.ledger.save(where / "ledger.jsonl")
        _write_json(where / "plan.json", self.plan.to_dict())
        _write_json(where / "history.json", [record.plain() for record in self.history])
        _write_json(where / "statement.json", statement.to_dict())
        write_new(where / "statement.txt", f"{statement}\n".encode())
        if extra is not None:
            _write_json(where / "result.json", dict(extra))
        return where


def new_folder(parent: str | Path, name: str) -> Path:
    """A path under ``parent`` that does not exist yet: the name, the time, and a count if necessary."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    first = Path(parent) / f"{name}-{stamp}"
    for count in itertools.count(2):
        if not first.exists():
            return first
        first = Path(parent) / f"{name}-{stamp}-{count}"
    raise AssertionError("unreachable")


def _write_json(path: Path, content: Any) -> None:
    write_new(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
