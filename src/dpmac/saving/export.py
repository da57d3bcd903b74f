"""Exports that need nothing of dpmac: a ``torch.export`` program (.pt2), and ONNX. What goes in and comes out stands
in a JSON beside the file, and in the file itself.

A .pt2 is read by ``torch.export.load(path).module()``. It holds a graph of torch's own operators and the weights; it
computes in double precision and gives the estimator's own numbers. An .onnx is in single precision behind the feature
map, which other runtimes are made for, and agrees to about six digits. Reading a file of the one kind or the other is
the business of torch and of ONNX runtimes, not of this package.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import dpmac
from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACClassifier, DPMACRegressor
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.rows import OnRows, raw_width
from dpmac.files import part_of
from dpmac.nets.feature_maps import ToRange, first_of
from dpmac.saving.folder import load
from dpmac.saving.modules import plain_module
from dpmac.saving.states import check_whole
from dpmac.saving.writing import write_json
from dpmac.tables import ColumnKind, TableEncoder

FORMAT = "dpmac-export-1"


def export_torch(folder_or_estimator: Any, path: str | Path) -> Path:
    """Write the model with its feature map as a ``torch.export`` program to a new file ``path`` (.pt2).

    ``torch.export.load(path).module()(rows)`` gives probabilities, targets, or (codes, reconstructions); beside it lies
    ``path``.json, which says what the rows' columns are: for a table the codes of its cells.
    """
    estimator = _given(folder_or_estimator)
    where = _new(path, ".pt2")
    module, about = plain_module(estimator), described(estimator, "torch.export, double precision")

    def write(beside: Path) -> None:
        torch.export.save(_program(module, estimator), beside, extra_files={"dpmac.json": json.dumps(about)})

    return _written(where, about, write)


def export_onnx(folder_or_estimator: Any, path: str | Path) -> Path:
    """Write the model with its feature map as an ONNX graph to a new file ``path`` (.onnx); needs ``pip install
    'dpmac[onnx]'``. As :func:`export_torch`, in single precision behind the feature map."""
    for needed in ("onnx", "onnxscript"):
        if find_spec(needed) is None:
            raise ArgumentError("path", str(path), f"ONNX needs the package {needed}: pip install 'dpmac[onnx]'")
    estimator = _given(folder_or_estimator)
    where = _new(path, ".onnx")
    module, about = (
        plain_module(estimator, single=True),
        described(estimator, "ONNX, single precision behind the feature map"),
    )

    def write(beside: Path) -> None:
        names: list[str] = [one["name"] for one in about["outputs"]]
        with _quiet():
            found = torch.onnx.export(
                _program(module, estimator),
                dynamo=True,
                input_names=["rows"],
                output_names=names,
                verbose=False,
                optimize=False,  # onnxscript 0.7 makes a graph of months and weekdays that no runtime can read
            )
        assert found is not None
        for node in found.model.graph:
            node.metadata_props.clear()
        found.model.metadata_props["dpmac"] = json.dumps(about)
        found.save(str(beside))

    return _written(where, about, write)


def described(estimator: OnRows, kind: str) -> dict[str, Any]:
    """What an exported file takes and gives, in plain values."""
    statement = estimator.privacy_.statement().to_dict()
    return {
        "format": FORMAT,
        "dpmac": dpmac.__version__,
        "estimator": type(estimator).__name__,
        "kind": kind,
        "input": {
            "name": "rows",
            "dtype": _dtype(estimator),
            "shape": ["rows", raw_width(estimator)],
            **_columns(estimator),
        },
        "outputs": _outputs(estimator),
        "privacy": {key: statement[key] for key in ("private", "epsilon", "delta", "unit", "seeded")},
    }


def _outputs(estimator: Any) -> list[dict[str, Any]]:
    if isinstance(estimator, DPMACClassifier):
        classes = estimator.classes_.tolist()
        meaning = "each class"
        if estimator._indicator is not None:
            meaning = "each label being on"
        return [{"name": "probabilities", "of": meaning, "classes": [_plain(one) for one in classes]}]
    if isinstance(estimator, DPMACRegressor):
        return [{"name": "target", "range": [float(end) for end in estimator.target_range_]}]
    feature_map = first_of(estimator.feature_map_)
    of = {"of": "the rows, in their units"}
    if isinstance(feature_map, TableEncoder):
        of = {"of": "the feature map's inputs", "columns": feature_map.get_feature_names_out().tolist()}
    return [{"name": "codes", "size": int(estimator._n_features_out)}, {"name": "reconstruction", **of}]


def _columns(estimator: OnRows) -> dict[str, Any]:
    feature_map = first_of(estimator.feature_map_)
    if isinstance(feature_map, TableEncoder):
        return {"columns": [_column(name, column) for name, column in feature_map.schema.features.items()]}
    names = getattr(estimator, "feature_names_in_", None)
    found: dict[str, Any] = {}
    if names is not None:
        found["columns"] = [{"name": str(name)} for name in names]
    if isinstance(feature_map, ToRange):
        found["clipped to"] = [feature_map.low.tolist(), feature_map.high.tolist()]
    return found


def _column(name: str, column: ColumnKind) -> dict[str, Any]:
    missing = "not allowed"
    if column.missing:
        missing = "NaN"
    return {"name": name, "kind": column.kind, **column.as_input(), "missing": missing}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _dtype(estimator: OnRows) -> str:
    if isinstance(first_of(estimator.feature_map_), TableEncoder):
        return "float64"
    return "float32"


def _program(module: torch.nn.Module, estimator: OnRows) -> torch.export.ExportedProgram:
    example = torch.zeros(3, raw_width(estimator), dtype=getattr(torch, _dtype(estimator)))
    rows = torch.export.Dim("rows")
    with torch.no_grad():
        program = torch.export.export(module, (example,), dynamic_shapes=({0: rows},), strict=False)
    for node in program.graph.nodes:  # where on this machine each line stood is nobody's business
        node.meta.pop("stack_trace", None)
    return program


def _given(what: Any) -> OnRows:
    estimator = what
    if isinstance(estimator, str | Path):
        estimator = load(estimator)
    check_whole(estimator)
    if isinstance(estimator, ModuleEstimator):
        fix = "a module of your own is exported by torch itself: torch.export.export(estimator.module_, (rows,))"
        raise ArgumentError("estimator", type(estimator).__name__, fix)
    assert isinstance(estimator, OnRows)
    return estimator


def _new(path: str | Path, ending: str) -> Path:
    where = Path(path)
    if where.suffix != ending:
        raise ArgumentError("path", str(path), f"give the name of a new file that ends in {ending}")
    for one in (where, _beside(where)):
        if one.exists() or one.is_symlink():
            raise ArgumentError("path", str(one), "there is a file already, and nothing is written over it")
    return where


def _beside(where: Path) -> Path:
    return where.with_name(f"{where.name}.json")


def _written(where: Path, about: dict[str, Any] | None, write: Callable[[Path], None]) -> Path:
    """The file and, if there is something to say ``about`` it, its JSON, each there whole or not at all: made in a new
    folder that only this user can enter."""
    where.parent.mkdir(parents=True, exist_ok=True)
    folder = part_of(where)
    folder.mkdir(mode=0o700)
    try:
        write(folder / where.name)
        if about is not None:
            write_json(folder / _beside(where).name, about)
            (folder / _beside(where).name).replace(_beside(where))
        (folder / where.name).replace(where)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return where


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporter warns of its own insides and of packages that it could use."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
