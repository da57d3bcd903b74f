"""Pictures as the commands take them: a folder with a folder of files for each class, or files without classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.cli.watching import work_shown
from dpmac.estimators.ids import warn_of_ids
from dpmac.estimators.picture_tables import PictureTable
from dpmac.pictures.folders import files_under, labelled_files, read_picture, read_pictures
from dpmac.tables.files import need_columns
from dpmac.tables.texts import text_of

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job
    from dpmac.extensions.world import World
    from dpmac.privacy import Ledger
    from dpmac.training.checkpoint import Checkpoints

Array = np.ndarray[Any, Any]
AT_ONCE = 256  # pictures that are read and predicted at a time
CLASSES = 1_000  # folders beyond that are a mistake, such as one for each person


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures (n, height, width, channels), all of one size, the label of each and, where a column says so, whose they
    are."""

    pixels: Array
    labels: Array
    ids: Sequence[Any] | None = None

    def __len__(self) -> int:
        """The number of pictures, or of persons."""
        if self.ids is None:
            return len(self.labels)
        return len(set(self.ids))

    def part(self, rank: int, size: int) -> Pictures:
        """Those of one of several processes: a run of them, or all of every so many-th person."""
        mine = range(len(self.labels) * rank // size, len(self.labels) * (rank + 1) // size)
        if self.ids is None:
            return Pictures(self.pixels[mine], self.labels[mine])
        number = {one: place for place, one in enumerate(dict.fromkeys(self.ids))}
        rows = [row for row, one in enumerate(self.ids) if number[one] % size == rank]
        return Pictures(self.pixels[rows], self.labels[rows], [self.ids[row] for row in rows])


def takes_pictures(estimator: Any) -> bool:
    """Whether a fitted model takes pictures."""
    return hasattr(estimator, "image_shape_")


# --- to train on ------------------------------------------------------------------------------------------------------


def training_pictures(job: Job, *, quiet: bool) -> Pictures:
    """All pictures of a job, each read and looked over."""
    asked = _asked(job)
    with named("file"):
        files, labels, ids = _listed(job, job.file)
        classes = sorted(set(map(text_of, labels)))
        if asked["classes"] is not None:
            _check_known(labels, asked["classes"], job.file)
        elif not 2 <= len(classes) <= CLASSES:
            fix = f"it has {len(classes):,} classes: give 2 to {CLASSES:,}, in a folder each or in the column of labels"
            raise ArgumentError("file", job.file, fix)
        with work_shown(show=not quiet):
            pixels = read_pictures(files, asked["size"], asked["channels"])
    return Pictures(pixels, np.array(labels), ids)


def public_pictures(job: Job, table: Pictures, *, quiet: bool) -> Pictures | None:
    """The pictures of ``--public-test``: of the classes and the size of those that are trained on."""
    if job.public_test is None:
        return None
    height, width, channels = table.pixels.shape[1:]
    with named("--public-test"):
        files, labels, _ = _listed(job, job.public_test)
        _check_known(labels, _asked(job)["classes"] or sorted(set(table.labels.tolist())), job.public_test)
        with work_shown(show=not quiet):
            pixels = read_pictures(files, _asked(job)["size"], channels)
    if pixels.shape[1:3] != (height, width):
        there = f"its pictures have {pixels.shape[1]} x {pixels.shape[2]} pixels"
        fix = f"{there}, and those to train on {height} x {width}: bring all to one size, --size {height}x{width}"
        raise ArgumentError("--public-test", job.public_test, fix)
    return Pictures(pixels, np.array(labels))


def written_at(job: Job) -> int | None:
    """When a table, or any picture that it names, was written last; of a folder as of any other."""
    from dpmac.cli.jobs import Job

    times = [Job.written_at(job.file)]
    if _asked(job)["images"] is not None:
        with named("file"):
            times += [Job.written_at(file) for file in _listed(job, job.file)[0]]
    return max((one for one in times if one is not None), default=None)


def _listed(job: Job, place: str) -> tuple[list[Path], list[str], Sequence[Any] | None]:
    """The files of a folder or of a table, unread; their labels, as texts; and whose they are, if a column says so."""
    asked = _asked(job)
    if asked["images"] is None:
        return *labelled_files(place), None
    table = PictureTable.of(place)
    if table is None:
        fix = "--images names a column of a table: give a CSV or a Parquet file (.csv, .parquet)"
        raise ArgumentError("file", place, fix)
    files = table.files(asked["images"])
    labels = [text_of(label) for label in table.cells(asked["target"])]
    if place != job.file:
        return files, labels, None
    if job.groups is None:
        warn_of_ids(table.table)  # once: the same words from the same place are not repeated
        return files, labels, None
    return files, labels, table.cells(job.groups)


def estimator_of(job: Job, ledger: Ledger, checkpoint: Checkpoints | None, world: World | None) -> Any:
    """The classifier that a job asks for."""
    from dpmac.estimators import DPMACImageClassifier, Machine

    asked = _asked(job)
    return DPMACImageClassifier(
        hidden_layer_sizes="auto" if job.hidden is None else tuple(job.hidden),
        epsilon=job.epsilon,
        delta=job.delta,
        classes=asked["classes"],
        max_rows=job.max_rows,
        size=asked["size"],
        channels=asked["channels"],
        batch_size=job.batch_size,
        epochs=job.epochs,
        ledger=ledger,
        total_epsilon=job.total_epsilon,
        random_state=job.seed,
        machine=Machine(threads=job.threads, progress=False, checkpoint=checkpoint, world=world),
    )


def fit(estimator: Any, job: Job, table: Pictures, public: Pictures | None) -> None:
    """Train, and remember which columns had what."""
    validation = None
    if public is not None:
        validation = (public.pixels, public.labels)
    estimator.fit(table.pixels, table.labels, public_validation=validation, groups=table.ids)
    asked = _asked(job)
    if asked["images"] is not None:
        estimator.table_columns_ = (asked["images"], asked["target"])


def introduced(job: Job, table: Pictures) -> str:
    """What is trained, in a line; the classes are public, and named."""
    height, width, channels = table.pixels.shape[1:]
    kind = {1: "grey", 3: "colour"}[channels]
    names = _asked(job)["classes"] or sorted(set(table.labels.tolist()))
    shown = ", ".join(map(str, names[:8]))
    if len(names) > 8:
        shown += f" and {len(names) - 8} more"
    whose = ""
    if table.ids is not None:
        whose = f" of {job.rows:,} persons"
    what = f"training a classifier of {len(table.labels):,} {kind} pictures{whose} of {height} x {width} pixels"
    return f"{what}, epsilon {job.epsilon:g}; {len(names)} classes, whose names are public: {shown}"


def _asked(job: Job) -> dict[str, Any]:
    assert job.pictures is not None
    found = dict(job.pictures)
    if found["size"] is not None:
        found["size"] = tuple(found["size"])
    return found


def _check_known(labels: Sequence[str], classes: Sequence[str], where: str | Path) -> None:
    strange = sorted(set(labels) - set(classes))
    if strange:
        listed = ", ".join(map(str, classes[:20]))
        raise ArgumentError(
            "X", str(where), f"it has pictures of {strange[0]!r}, which is none of the classes {listed}"
        )


# --- to predict -------------------------------------------------------------------------------------------------------


def predicted(
    estimator: Any, place: Path, images: str | None, ids: Sequence[str], *, resize: bool
) -> tuple[Sequence[Any], Array, Any]:
    """The pictures' names, the probability of each class, and the table, where one names them; it must have ``ids``.

    ``place`` is a table, one picture, or a folder: pictures in the folders within count, too.
    """
    with named("file"):
        table = PictureTable.of(place)
        if table is not None:
            need_columns(place, table.table, ids)
            column = _column(estimator, table, images)
            return table.cells(column), _said(estimator, table.files(column), resize), table.table
        if ids:
            raise ArgumentError("--id", ids[0], "pictures have no columns, and files' names are written: leave it out")
        if place.is_file():
            files, root = [place], place.parent
        else:
            files, root = files_under(place), place
        names = [file.relative_to(root).as_posix() for file in files]
        return names, _said(estimator, files, resize), None


def judged(
    estimator: Any, place: Path, images: str | None, target: str | None, *, resize: bool
) -> tuple[Array, list[str]]:
    """The probabilities for each picture of a folder with a folder for each class, or of a table; and the labels."""
    with named("file"):
        files, labels, _ = _to_judge(estimator, place, images, target)
        return _said(estimator, files, resize), labels


def labelled(
    estimator: Any, place: Path, images: str | None, target: str | None, *others: str | None, resize: bool
) -> tuple[Array, list[Any], PictureTable | None]:
    """The same pictures, all in memory, and their labels as the model's classes are; and the table, if there is one."""
    classes = {text_of(label): label for label in estimator.classes_.tolist()}
    with named("file"):
        files, labels, table = _to_judge(estimator, place, images, target, *others)
        with work_shown():
            pixels = np.stack([_of_its_size(estimator, file, resize) for file in files])
        return pixels, [classes[label] for label in labels], table


def _to_judge(
    estimator: Any, place: Path, images: str | None, target: str | None, *others: str | None
) -> tuple[list[Path], list[str], PictureTable | None]:
    """Files with known labels, in a folder for each class or in a table that may have ``others`` as columns."""
    table = PictureTable.of(place)
    if table is None:
        files, labels = labelled_files(place)
    else:
        known = target or (estimator.table_columns_ or ("", None))[1]
        if known is None:
            raise ArgumentError("--target", None, "name the column of the labels")
        files = table.files(_column(estimator, table, images, known, *others))
        labels = [text_of(label) for label in table.cells(known)]
    _check_known(labels, [text_of(label) for label in estimator.classes_], place)
    return files, labels, table


def _column(estimator: Any, table: PictureTable, images: str | None, *others: str | None) -> str:
    """The column of paths: the one that was named, or the one that the model was trained on, or all but the others."""
    known = images or (estimator.table_columns_ or (None, None))[0]
    return table.columns(known, *(others or (None,)))[0]


def _said(estimator: Any, files: Sequence[Path], resize: bool) -> Array:
    """The probabilities, some pictures at a time: all of them need not fit into memory."""
    from dpmac.showing import shown

    found = list[Array]()
    with work_shown(), shown("predicting") as tell:
        for first in range(0, len(files), AT_ONCE):
            some = [_of_its_size(estimator, file, resize) for file in files[first : first + AT_ONCE]]
            found.append(estimator.predict_proba(np.stack(some)))
            tell(first + len(some), len(files))
    return np.concatenate(found)


def _of_its_size(estimator: Any, file: Path, resize: bool) -> Array:
    """A picture as the model takes it."""
    height, width, channels = estimator.image_shape_
    size = None
    if resize or estimator.size is not None:
        size = (height, width)
    pixels = read_picture(file, size, channels)
    if pixels.shape != (height, width, channels):
        there = f"it has {pixels.shape[0]} x {pixels.shape[1]} pixels"
        fix = f"{there}, and the model takes {height} x {width}: --resize brings all pictures to that size"
        raise ArgumentError("file", str(file), fix)
    return pixels


@contextmanager
def named(option: str) -> Iterator[None]:
    """What is wrong with a picture or a folder, by the option that named it."""
    try:
        yield
    except ArgumentError as error:
        known = {"X": option, "files": option, "images": "--images"}
        if error.name not in known:
            raise
        raise ArgumentError(known[error.name], error.value, error.fix) from None
