"""A model's folder: written whole, opened with every file checked, and read back piece by piece or as an estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dpmac
from dpmac.checks import ArgumentError
from dpmac.disclosure import Declared, declared_notes, details_of, spent_by
from dpmac.disclosure.code import code_digest
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.rows import OnRows
from dpmac.files import write_new
from dpmac.limits import check_values
from dpmac.nets import Activation
from dpmac.privacy import Ledger, Plan
from dpmac.saving.arguments import arguments_of
from dpmac.saving.card import card, written
from dpmac.saving.manifest import FORMAT, NAME, check_files, digest_of, read_json, read_manifest, reading, sealed
from dpmac.saving.mapping import check_frozen, frozen_modules
from dpmac.saving.module_model import check_handed_in
from dpmac.saving.states import (
    check_whole,
    history_from,
    history_of,
    kind_named,
    plain_state,
    plan_from,
    restored,
    run_of,
    write_model,
)
from dpmac.saving.writing import whole_folder, write_json, write_text
from dpmac.tables import Schema
from dpmac.training.run import Record

_STATEMENT: dict[str, Any] = {
    "private": bool,
    "seeded": bool,
    "epsilon": int | float | None,
    "delta": int | float,
    "not_covered": list,
    "unit": str,
}


def save(
    estimator: Any,
    folder: str | Path,
    *,
    extra: Mapping[str, Any] | None = None,
    searched: str | None = None,
    ranges_from: str | None = None,
) -> Path:
    """Write a fitted estimator to a new ``folder``, from which :func:`load` gives it back, bit for bit.

    The folder is there whole or not at all. One that exists must be empty, but for ``job.json`` and ``checkpoint...``
    of a running train. ``extra``, plain values for JSON, goes into ``result.json``. What is written is public or was
    released. A seed (``random_state``) is kept as well, and the model card then warns of it; an argument that is an
    object of your own, or the path of a ledger, is kept by its name alone, and an activation of your own must be handed
    to :func:`load`. Of the :class:`dpmac.Machine` its processes and the places of files are not kept. What a module's
    class is called with (``module__...``) is kept as it is: a path in it is in the folder.

    ``searched`` answers whether hyper-parameters were searched: "no"; "public", on public rows or other people's;
    "ledger", on these rows with every trial in this ledger; "private", on these rows and not in the ledger.
    ``ranges_from`` names where public ranges and values came from, such as a code book. Statement, card and report say
    both, and say so where nobody has answered.
    """
    check_whole(estimator)
    declared = Declared(searched, ranges_from)
    where = Path(folder).absolute()
    if where.exists():
        where = where.resolve()
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "dpmac": dpmac.__version__,
        "created": datetime.now(UTC).date().isoformat(),  # no finer: how long a fit took may depend on its rows
        "name": where.name or None,
        "estimator": type(estimator).__name__,
        "arguments": arguments_of(estimator),
        "fitted": plain_state(estimator),
    }
    check_readable(manifest)
    run, privacy, schema = run_of(estimator), estimator.privacy_, _schema_of(estimator)
    notes = declared_notes(declared, schema, privacy.ledger, getattr(estimator, "feature_range", None))
    statement = privacy.ledger.statement(privacy.delta, (*notes, *privacy.notes))
    plan = None
    if run is not None:
        plan = run.plan
    spent = spent_by(estimator, privacy.ledger, privacy.delta, plan)
    details = details_of(estimator, privacy.ledger, plan, spent, dpmac.__version__, code_digest())
    with whole_folder(where) as beside:
        write_model(estimator, beside)
        estimator.privacy_.ledger.save(beside / "ledger.jsonl")
        if run is not None:
            write_json(beside / "plan.json", run.plan.to_dict())
            write_json(beside / "history.json", history_of(run))
        if schema is not None:
            schema.portable().save(beside / "schema.json")
        said = {"spent": spent.to_dict(), "details": {one.key: one.text for one in details}}
        said["code"] = {"dpmac": dpmac.__version__, "sha256": code_digest()}
        write_json(beside / "statement.json", statement.to_dict() | said)
        write_text(beside / "statement.txt", written(statement, details))
        if declared:
            write_json(beside / "declared.json", declared.to_dict())
        if extra is not None:
            write_json(beside / "result.json", dict(extra))
        manifest["files"] = {path.name: digest_of(path) for path in sorted(beside.iterdir())}
        write_text(beside / "README.md", card(estimator, manifest, statement, plan, schema, details))
        manifest["files"]["README.md"] = digest_of(beside / "README.md")
        write_new(beside / NAME, sealed(manifest))
    return Path(folder)


def load(folder: str | Path, *, activations: Sequence[Activation] = (), module: Any = None) -> Any:
    """The estimator that was saved to ``folder``: it predicts as the fitted one did, bit for bit.

    Nothing is executed from the files. One that is missing, cut short, edited or another's is a FileNotFoundError or a
    ValueError that names it. ``activations`` of your own are in a file by their names alone: hand them in. So is the
    torch ``module`` of a :class:`dpmac.DPMACModuleClassifier` or ``Regressor``: hand in its class, which is built with
    the arguments that were saved (once without memory, to compare shapes: a class that cannot be made so must be handed
    in as an instance), or an instance of the same shapes, of which a copy gets the weights. And so is the
    encoder of a :class:`dpmac.modules.FrozenModule`: hand in an instance (several in a list). A folder names no place
    on the machine of whoever saved it: ``ledger`` is a copy to look at, which refuses to record anything. To fit again,
    name the ledger of the rows: ``model.set_params(ledger="a/path")``.
    """
    return open_folder(folder).estimator(activations=activations, module=module)


def open_folder(folder: str | Path) -> RunFolder:
    """A model's folder whose format is known and whose every listed file is the one that was written."""
    where = Path(folder)
    manifest = read_manifest(where)
    check_files(where, manifest["files"])
    return RunFolder(where, manifest)


@dataclass(frozen=True)
class RunFolder:
    """What :func:`open_folder` found. Pieces are read when they are asked for."""

    path: Path
    manifest: dict[str, Any]

    def estimator(self, *, activations: Sequence[Activation] = (), module: Any = None) -> Any:
        """The fitted estimator; a torch ``module`` in it, which is code, is handed in: see :func:`load`."""
        frozen = frozen_modules(self.path, self.manifest["files"])
        if self.of_module:
            check_handed_in(self.module_name, module)
        elif frozen:
            check_frozen(frozen, module)
        elif module is not None:
            raise ArgumentError("module", module, f"a {self.manifest['estimator']} has none: leave it out")
        return self._restored(activations, module)

    def without_module(self) -> Any:
        """What is known of the fitted estimator without a module's code; of a model without modules all of it."""
        return self._restored((), None)

    @property
    def of_module(self) -> bool:
        """Whether the model is a torch module, whose code is not in the folder."""
        with reading(self.path / NAME):
            return issubclass(kind_named(self.manifest["estimator"]), ModuleEstimator)

    @property
    def module_name(self) -> str:
        """The class of the torch module that was saved."""
        with reading(self.path / NAME):
            return str(self.manifest["arguments"]["module"]["own"])

    def _restored(self, activations: Sequence[Activation], module: Any) -> Any:
        ledger, plan, history = self.ledger(), self.plan(), self.history()
        with reading(self.path / NAME):
            return restored(self.manifest, self.path, ledger, plan, history, activations, module)

    def plan(self) -> Plan | None:
        """The training's plan; None of a model in closed form."""
        found = self._json("plan.json")
        if found is None:
            return None
        with reading(self.path / "plan.json"):
            return plan_from(found)

    def ledger(self) -> Ledger:
        """Every release that the statement composes, in memory and read only."""
        with reading(self.path / "ledger.jsonl"):
            return Ledger.read(self.path / "ledger.jsonl")

    def history(self) -> list[Record]:
        """One public record an epoch; empty for a model in closed form."""
        found = self._json("history.json")
        with reading(self.path / "history.json"):
            if found is None:
                return []
            return history_from(found)

    def statement(self) -> dict[str, Any]:
        """The guarantee, as ``statement.json`` has it."""
        found: dict[str, Any] = read_json(self.path / "statement.json")
        with reading(self.path / "statement.json"):
            for key, kinds in _STATEMENT.items():
                if isinstance(found[key], bool) is not (kinds is bool) or not isinstance(found[key], kinds):
                    raise ValueError(f"its {key} is {found[key]!r:.60}")
        return found

    def declared(self) -> Declared:
        """What whoever trained the model answered; no answers in a folder without them."""
        found = self._json("declared.json")
        if found is None:
            return Declared()
        with reading(self.path / "declared.json"):
            return Declared.from_dict(found)

    def result(self) -> dict[str, Any] | None:
        """What the writer of the folder added; None where that is nothing."""
        found = self._json("result.json")
        if found is not None and not isinstance(found, dict):
            raise ValueError(f"{self.path / 'result.json'} holds no object")
        return found

    def schema(self) -> Schema | None:
        """What is publicly known of the table; None of a model of arrays."""
        found = self._json("schema.json")
        if found is None:
            return None
        with reading(self.path / "schema.json"):
            return Schema.from_dict(found)

    def evaluation(self) -> dict[str, Any] | None:
        """Scores on rows that the user called public, if ``evaluation.json`` is there; no digest speaks for it."""
        path = self.path / "evaluation.json"
        if not path.exists() and not path.is_symlink():
            return None
        found = read_json(path)
        with reading(path):
            if not isinstance(found, dict):
                raise ValueError("it is no object")
            if not isinstance(found.get("scores", {}), dict):
                raise ValueError("its scores have no names")
        return found

    def _json(self, name: str) -> Any:
        if name in self.manifest["files"]:
            return read_json(self.path / name)
        return None


def check_readable(manifest: Mapping[str, Any]) -> None:
    """Raise :class:`ArgumentError` for a manifest that :func:`load` would refuse: a label or a name without end."""
    try:
        check_values(manifest)
    except ValueError as error:
        fix = "no file of a model may hold that: give shorter names and labels"
        raise ArgumentError("estimator", str(error), fix) from None


def _schema_of(estimator: OnRows) -> Schema | None:
    given = estimator.schema
    if given is None or isinstance(given, Schema):
        return given
    return Schema.from_dict(given)
