"""What ``dpmac train`` was asked, as a file in the run folder: all that ``dpmac resume`` needs to ask for it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.extensions.world import World
    from dpmac.privacy import Ledger
    from dpmac.tables import Schema
    from dpmac.training.checkpoint import Checkpoints

FORMAT = "dpmac-job-1"
JOB = "job.json"
CHECKPOINT = "checkpoint"
MIB = 2**20
OWN_LEDGER = "checkpoint.ledger"  # of a run that was given none, while it trains; then it is RUN/ledger.jsonl


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("file", "ledger", "name", "purpose", "data_set"), str),
    **dict.fromkeys(("delta", "total_epsilon", "epochs", "batch_size"), int | float | None),
    **dict.fromkeys(("seed", "threads", "written", "memory"), int | None),
    **dict.fromkeys(("public_test", "groups", "scratch", "searched", "ranges_from", "split"), str | None),
    **dict.fromkeys(("rows", "before", "max_rows"), int),
    **{"schema": dict, "epsilon": int | float, "hidden": list | None, "pictures": dict | None, "additive": dict | None},
}


@dataclass(frozen=True)
class Job:
    """One training: public choices and the paths of files, which are absolute; ``schema`` is the whole of it.

    ``rows`` is the number of rows or, with ``groups`` (the column that says whose a row is), of persons, and ``before``
    the number of releases that the ledger held before the first step. ``written`` is when the file was written last
    (nanoseconds, by the disk's clock), so that another file in its place is noticed. No digest and no length of it is
    kept: those are functions of private rows, and whoever knows all rows but one could try them out. ``memory`` is in
    MiB and ``scratch`` a folder or "none", of a table in files (:class:`dpmac.tables.Files`); None is the default.
    ``pictures`` says what becomes of a folder of pictures, which has no schema (:mod:`dpmac.cli.pictures`).
    ``additive`` has the pairs and directions of a sum of terms, None of any other model. ``searched`` and
    ``ranges_from`` are the caller's answers (:class:`dpmac.disclosure.Declared`). ``split`` is the split of the
    ledger's data set that the rows are.
    """

    file: str
    schema: dict[str, Any]
    ledger: str
    epsilon: float
    delta: float | None = None
    total_epsilon: float | None = None
    epochs: float | None = None
    batch_size: float | None = None
    hidden: list[int] | None = None
    seed: int | None = None
    threads: int | None = None
    name: str = ""
    purpose: str = ""
    data_set: str = ""
    public_test: str | None = None
    rows: int = 0
    before: int = 0
    groups: str | None = None
    max_rows: int = 4
    written: int | None = None
    memory: int | None = None
    scratch: str | None = None
    pictures: dict[str, Any] | None = None
    searched: str | None = None
    ranges_from: str | None = None
    additive: dict[str, Any] | None = None
    split: str | None = None

    @staticmethod
    def written_at(file: str | Path) -> int | None:
        """When a file was written last, or any file of a folder, or the folder; None if there is none."""
        where = Path(file)
        try:
            paths = [where]
            if where.is_dir():
                paths += where.rglob("*")
            return max(int(path.stat().st_mtime_ns) for path in paths)
        except OSError:
            return None

    def table(self, schema: Schema, *, quiet: bool) -> Any:
        """The rows: a small CSV file in memory, any other table as it lies in its files."""
        from dpmac.checks import integer
        from dpmac.tables.stored import MEMORY, open_table

        memory, progress = MEMORY, not quiet and "auto"
        if self.memory is not None:
            fix = "give the MiB that rows may take, a whole number from 1 on"
            memory = integer("--memory", self.memory, fix, low=1) * MIB
        return open_table(
            self.file,
            schema,
            memory=memory,
            scratch={None: "auto", "none": None}.get(self.scratch, self.scratch),
            progress=progress,
        )

    def written_now(self) -> int | None:
        """When the rows were written last, pictures that a table names included."""
        if self.pictures is None:
            return self.written_at(self.file)
        from dpmac.cli.pictures import written_at

        return written_at(self)

    def opened(self, *, quiet: bool) -> Any:
        """The rows, which have the columns that are needed; or the pictures, each of them read."""
        from dpmac.tables.files import need_columns

        if self.pictures is not None:
            from dpmac.cli.pictures import training_pictures

            return training_pictures(self, quiet=quiet)
        schema = self.read_schema()
        table = self.table(schema, quiet=quiet)
        need_columns(self.file, table, [*schema.columns, *filter(None, [self.groups])])
        return table

    def begin(self, folder: Path) -> None:
        """Make the run folder: it is there with its job, or not at all, and it is nobody else's."""
        from dpmac.saving.writing import new_folder

        try:
            with new_folder(folder.absolute()) as beside:
                self.save(beside)
        except FileExistsError:
            fix = "another process has begun a run there meanwhile: give a folder that is not there yet"
            raise ArgumentError("--out", str(folder), fix) from None

    def save(self, folder: Path) -> None:
        """Write ``job.json``."""
        from dpmac.files import whole_file

        with whole_file(folder / JOB) as handle:
            handle.write(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Job:
        """Read ``job.json``; a ValueError names the file if it is damaged, or if a file of the run is a link."""
        from dpmac.disclosure import Declared
        from dpmac.limits import read_json

        path = folder / JOB
        for own in (path, folder / OWN_LEDGER, folder / CHECKPOINT, *(folder / CHECKPOINT).glob("*")):
            if own.is_symlink():
                raise ValueError(f"{own} is a link: a run's folder holds its own files; copy what it points to")
        try:
            raw = read_json(path)
            # 0.2 knew rows alone, all of them in memory, and no date
            later = (
                "groups",
                "written",
                "memory",
                "scratch",
                "pictures",
                "searched",
                "ranges_from",
                "additive",
                "split",
            )
            raw = {**dict.fromkeys(later), "max_rows": 4, **raw}
            if raw.pop("format") != FORMAT or set(raw) != {field.name for field in fields(cls)}:
                raise ValueError("its keys are not those of this version")
            for name, value in raw.items():
                if isinstance(value, bool) or not isinstance(value, _KINDS[name]):
                    raise ValueError(f"its {name} is {value!r:.60}")
            Declared(raw["searched"], raw["ranges_from"])  # read now: they are saved when all is paid for
            return cls(**raw)
        except FileNotFoundError:
            raise
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{path}: damaged, or of another version ({error})") from None

    def read_schema(self) -> Schema:
        from dpmac.tables import Schema

        return Schema.from_dict(self.schema)

    @property
    def unit(self) -> str:
        """What ``rows`` counts."""
        if self.groups is None:
            return "rows"
        return "persons"

    def estimator(self, ledger: Ledger, checkpoint: Checkpoints | None, world: World | None = None) -> Any:
        """The estimator that the schema's target asks for: classifier, regressor, or autoencoder without one."""
        if self.pictures is not None:
            from dpmac.cli.pictures import estimator_of

            return estimator_of(self, ledger, checkpoint, world)
        from dpmac.cli.additive_options import arguments
        from dpmac.estimators import DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Machine

        schema = self.read_schema()
        kinds: dict[str | None, Any] = {"classification": DPMACClassifier, "regression": DPMACRegressor}
        return kinds.get(schema.task, DPMACAutoencoder)(
            hidden_layer_sizes="auto" if self.hidden is None else tuple(self.hidden),
            epsilon=self.epsilon,
            delta=self.delta,
            schema=schema,
            max_rows=self.max_rows,
            batch_size=self.batch_size,
            epochs=self.epochs,
            ledger=ledger,
            total_epsilon=self.total_epsilon,
            random_state=self.seed,
            machine=Machine(threads=self.threads, progress=False, checkpoint=checkpoint, world=world),
            **arguments(self.additive),
        )


def absolute(path: Path | None) -> str | None:
    """A path as a job keeps it: it holds in any working directory."""
    if path is None:
        return None
    return str(path.absolute())


def scratch_folder(given: str | None) -> Path | None:
    """The folder that ``--scratch`` names; None if it was left out, or is "none"."""
    if given in (None, "none"):
        return None
    return Path(given)


def counted(table: Any, groups: str | None) -> int:
    """The number of rows or, with ``groups``, of persons; a row that is nobody's is an error that names it."""
    if not isinstance(table, Mapping):
        return len(table)  # pictures
    from dpmac.privacy import Persons
    from dpmac.tables import Files
    from dpmac.tables.files import rows_in
    from dpmac.tables.ids import persons_in

    if groups is not None and isinstance(table, Files):
        return persons_in(table.batches([groups]), groups)
    if groups is None:
        return rows_in(table)
    return len(Persons.of(table[groups]))
