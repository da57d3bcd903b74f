"""``dpmac train``: from a file and its public schema to a private model in a folder."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.additive_options import Additive, Monotone, Pair, additive_wanted
from dpmac.cli.agreement import STRICT, strictly
from dpmac.cli.cell_options import Censored, Decimal, Na, Thousands, with_cells
from dpmac.cli.fit_options import (
    AsJson,
    DataSet,
    Delta,
    Groups,
    MaxRows,
    Name,
    NewLedger,
    OutFolder,
    Purpose,
    RangesFrom,
    SchemaFile,
    Target,
    Threads,
    TotalEpsilon,
    check_names,
)

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job
    from dpmac.extensions.world import World


def train(
    file: Annotated[
        Path, typer.Argument(help="The rows: CSV, Parquet, or a folder of Parquet; or pictures.", metavar="FILE")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this model; 0.5 to 8 is usual.")],
    out: OutFolder,
    schema: SchemaFile = None,
    target: Target = None,
    autoencoder: Annotated[bool, typer.Option("--autoencoder", help="No target: learn codes of whole rows.")] = False,
    groups: Groups = None,
    max_rows: MaxRows = 4,
    delta: Delta = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger of this data set, shared by all that is released from it.")
    ] = None,
    total_epsilon: TotalEpsilon = None,
    new_ledger: NewLedger = False,
    split: Annotated[
        str | None, typer.Option(help="The split of the ledger's data set that FILE is (dpmac split).", metavar="NAME")
    ] = None,
    data_set: DataSet = "",
    purpose: Purpose = "",
    name: Name = "",
    public_test: Annotated[
        Path | None, typer.Option(help="Rows that are public, to score the model on; kept beside it.", metavar="FILE")
    ] = None,
    searched: Annotated[
        str | None,
        typer.Option(
            help="Were hyper-parameters searched? no; public: on public or other people's rows; ledger: on these, "
            "every trial in this ledger; private: on these, and not in it. Statement and report say the answer.",
            metavar="ANSWER",
        ),
    ] = None,
    ranges_from: RangesFrom = None,
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the rows. Left out: the default.")] = None,
    batch_size: Annotated[float | None, typer.Option(help="Expected size of a batch. Left out: the default.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Units of the hidden layers, 64,32; or none. Left out: the default.")
    ] = None,
    additive: Additive = False,
    pair: Pair = None,
    monotone: Monotone = None,
    images: Annotated[
        str | None, typer.Option(help="The column of a table that has the paths of pictures.", metavar="COLUMN")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Bring pictures to this size, such as 64x48: height, width.", metavar="HxW")
    ] = None,
    channels: Annotated[int | None, typer.Option(help="Make all pictures grey, 1, or coloured, 3.")] = None,
    classes: Annotated[
        str | None, typer.Option(help="Classes of pictures that are public: cat,dog. Left out: the folders' names.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the run repeatable. It is then not private against anyone who knows the seed."),
    ] = None,
    threads: Threads = None,
    memory: Annotated[
        int | None, typer.Option(help="MiB that the rows of a large table may take. Default: 1024.", metavar="MIB")
    ] = None,
    scratch: Annotated[
        str | None,
        typer.Option(help="Folder for rows that do not fit; none: read the Parquet again, slower.", metavar="FOLDER"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help=STRICT)] = False,
    na: Na = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a private model on a table or on pictures, and write it into a new folder.

    A target that is a category gives a classifier, a number a regressor, and no target an autoencoder. Every cell,
    label and path is checked before any privacy is spent. However it ends, every release is counted, and
    [bold]dpmac resume RUN[/bold] continues. Ctrl-C loses no step; a crash or a kill loses those since the last
    checkpoint, usually two seconds at most.

    If nearly all cells of a column are clipped, "other" or missing, a warning shows the counts; with
    [bold]--strict[/bold] the training does not begin. These counts are shown to you alone.

    Rows that do not fit into [bold]--memory[/bold] are kept in a nameless file in the system's temporary folder or in
    [bold]--scratch[/bold]. It disappears when the process ends, however it ends.

    Without [bold]--ledger[/bold] the run has a ledger of its own. It is better to share one ledger among everything
    that is ever released from these rows, so that it counts all of it. A ledger that was opened by
    [bold]dpmac ledger init[/bold] has a total, which no training exceeds.

    If a person may have several rows, [bold]--groups[/bold] names the column of persons. The guarantee is then for one
    person with all their rows, at the same noise; that column is not an input of the model.

    [bold]Pictures[/bold] (PNG, JPEG) need no schema. Give a folder with one folder for each class, whose name is the
    label; or a table, with [bold]--images[/bold] for the column of paths, relative to the table's folder, and
    [bold]--target[/bold] for the column of labels. All pictures have one size, or [bold]--size[/bold] brings them to
    one. The number of pictures, their size and the names of the classes are public. The features come from drawings.

    With [bold]--additive[/bold] the model is a sum of one function for each column, which you can read;
    [bold]--pair[/bold] adds a function of two columns. The report draws these terms, [bold]dpmac edit[/bold] changes
    them, and [bold]dpmac export --json[/bold] exports them.

    Started by [bold]torchrun --nproc-per-node 4 -m dpmac train ...[/bold], four processes share the rows and the work.

    [bold]Examples[/bold]

      dpmac train patients.csv --schema patients.schema.json --target death --epsilon 2 --out runs/first --ledger hospital.ledger --searched no

      dpmac train patients.csv --schema patients.schema.json --target weight --epsilon 1 --out runs/weight --ledger hospital.ledger --total-epsilon 5 --purpose "a dose for every weight"

      dpmac train patients.csv --schema patients.schema.json --target death --groups patient --epsilon 2 --out runs/persons

      dpmac train patients.csv --schema patients.schema.json --autoencoder --epsilon 1 --out runs/codes --json

      dpmac train patients.csv --schema patients.schema.json --target death --epsilon 2 --out runs/readable --additive --monotone age=+1

      dpmac train patients-train.csv --schema patients.schema.json --target death --epsilon 2 --out runs/divided --ledger divided.ledger --split train

      dpmac train images --epsilon 2 --delta 1e-5 --out runs/pictures --ledger images.ledger

      dpmac train pictures.csv --images path --target kind --epsilon 2 --out runs/named --quiet
    """  # noqa: E501
    from dpmac.cli.aims import aimed, unseen
    from dpmac.cli.jobs import Job, absolute, counted, scratch_folder
    from dpmac.cli.places import check_places
    from dpmac.cli.several import check_same, said_once, several
    from dpmac.cli.wanted import no_pictures, pictured, pictures_wanted, read_schema, units
    from dpmac.tables.lines import at_lines

    with several() as world:
        with said_once(world):
            of_pictures: dict[str, Any] = {"size": size, "channels": channels, "classes": classes}
            of_cells: dict[str, Any] = {"na": na, "decimal": decimal, "thousands": thousands, "censored": censored}
            chosen, known, pictures = None, dict[str, Any](), None
            if pictured(file, schema, images):
                others = {"images": images, "target": target, "groups": groups, "autoencoder": autoencoder}
                pictures = pictures_wanted(
                    file, schema, **of_pictures, **of_cells, **others, memory=memory, scratch=scratch
                )
            else:
                no_pictures(**of_pictures)
                chosen = with_cells(unseen(aimed(read_schema(file, schema), target, autoencoder), groups), **of_cells)
                known = chosen.to_dict()
            layers = units(hidden)
            if world.leads:  # who writes
                inputs = {"file": file, "--schema": schema, "--public-test": public_test}
                check_places(out, ledger, inputs, scratch_folder(scratch), new_ledger=new_ledger)
            job = Job(
                file=str(file.absolute()),
                schema=known,
                pictures=pictures,
                ledger=absolute(ledger) or "",
                epsilon=epsilon,
                delta=delta,
                total_epsilon=total_epsilon,
                epochs=epochs,
                batch_size=batch_size,
                hidden=layers,
                additive=additive_wanted(chosen, additive, pair, monotone),
                seed=seed,
                threads=threads,
                name=name or out.name,
                purpose=purpose,
                data_set=data_set,
                public_test=absolute(public_test),
                groups=groups,
                max_rows=max_rows,
                memory=memory,
                scratch=absolute(scratch_folder(scratch)) or scratch,
                searched=searched,
                ranges_from=ranges_from,
                split=split,
            )
            job = replace(job, written=job.written_now())  # before it is read: a change meanwhile is then noticed, too
            table = job.opened(quiet=quiet or as_json or not world.leads)
            with at_lines(file):
                job = replace(job, rows=counted(table, groups))
        check_same(world, job.file, pictures=job.pictures is not None)
        with strictly(strict):
            begin(job, out, table, quiet=quiet, as_json=as_json, world=world)


def begin(job: Job, folder: Path, table: Any, *, quiet: bool, as_json: bool, world: World) -> None:
    """Make the run folder and train."""
    from dpmac.cli.accounts import held
    from dpmac.cli.jobs import OWN_LEDGER
    from dpmac.cli.public_rows import public_rows
    from dpmac.cli.several import said_once
    from dpmac.cli.split import check_split
    from dpmac.cli.training import follow

    shared = bool(job.ledger)
    with said_once(world):
        _check_numbers(job)
        check_kept(job)
        public = public_rows(job, table)
        if job.split is not None and world.leads:
            check_split(job.split, job.ledger, table)
        if not shared:
            job = replace(job, ledger=str(folder.absolute() / OWN_LEDGER))
    if not world.leads:
        follow(job, folder, table, public, world)
        return
    with held(Path(job.ledger), shared):  # who writes to it is asked before anything is made
        _begin(job, folder, table, public, shared=shared, quiet=quiet, as_json=as_json, world=world)


def _begin(
    job: Job, folder: Path, table: Any, public: Any, *, shared: bool, quiet: bool, as_json: bool, world: World
) -> None:
    """The same with the ledger in hand: what it holds now is what it holds when the training begins."""
    from dpmac.cli.jobs import CHECKPOINT
    from dpmac.cli.telling import introduce, tell
    from dpmac.cli.training import discard, train
    from dpmac.privacy import Ledger

    if shared and Path(job.ledger).exists():
        job = replace(job, before=len(Ledger.at(job.ledger, job.data_set)))
    job.begin(folder)
    started = time.monotonic()
    try:
        if not (quiet or as_json):
            introduce(job, shared, table)
        done = train(job, folder, table, public, quiet=quiet, world=world)
    except BaseException:
        if not Path(job.ledger).exists() and not (folder / CHECKPOINT).exists():
            discard(folder)  # it had not begun
        raise
    tell(job, done, time.monotonic() - started, as_json=as_json)


def check_kept(job: Job) -> None:
    """Raise unless all that a finished run keeps of what was asked can be written: tried, and thrown away."""
    from dpmac.disclosure import Declared
    from dpmac.privacy import Ledger
    from dpmac.saving.arguments import arguments_of

    check_names(job.name, job.purpose, job.data_set)
    Declared(job.searched, job.ranges_from)
    json.dumps([arguments_of(job.estimator(Ledger(), None)), job.schema], allow_nan=False)


def _check_numbers(job: Job) -> None:
    """What would otherwise be noticed only after the folder is made."""
    from dpmac.checks import integer, number
    from dpmac.cli.training import steps_of
    from dpmac.extensions.persons import MOST
    from dpmac.planning.plan import check_delta

    number("--epsilon", job.epsilon, "give a number above 0 (0.5 to 8 is usual), or inf for no privacy", low=5e-324)
    if job.rows < 2:
        raise ArgumentError("file", job.file, f"it has {job.rows} {job.unit}: a guarantee needs a crowd")
    integer("--max-rows", job.max_rows, f"give a whole number from 1 to {MOST}", low=1, high=MOST)
    if job.delta is not None:
        check_delta(job.delta, job.rows)
    steps_of(job)
