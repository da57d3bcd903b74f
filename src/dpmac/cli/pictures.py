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
from dpmac.pictures.folders import files_under, labelled_files, read_picture, read_pictures
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
    """Pictures (n, height, width, channels), all of one size, and the label of each."""

    pixels: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rank: int, size: int) -> Pictures:
        """Those of one of several processes."""
        mine = slice(len(self) * rank // size, len(self) * (rank + 1) // size)
        return Pictures(self.pixels[mine], self.labels[mine])


def takes_pictures(estimator: Any) -> bool:
    """Whether a fitted model takes pictures."""
    return hasattr(estimator, "image_shape_")


# --- to train on ------------------------------------------------------------------------------------------------------


def training_pictures(job: Job, *, quiet: bool) -> Pictures:
    """All pictures of a job, each read and looked over."""
    asked = _asked(job)
    with named("file"):
        files, labels = labelled_files(job.file)
        classes = sorted(set(labels))
        if asked["classes"] is not None:
            _check_known(classes, asked["classes"], job.file)
        elif not 2 <= len(classes) <= CLASSES:
            fix = f"it has {len(classes):,} folders: give one for each class, 2 to {CLASSES:,} of them"
            raise ArgumentError("file", job.file, fix)
        with work_shown(show=not quiet):
            pixels = read_pictures(files, asked["size"], asked["channels"])
    return Pictures(pixels, np.array(labels))


def public_pictures(job: Job, table: Pictures, *, quiet: bool) -> Pictures | None:
    """The pictures of ``--public-test``: of the classes and the size of those that are trained on."""
    if job.public_test is None:
        return None
    height, width, channels = table.pixels.shape[1:]
    with named("--public-test"):
        files, labels = labelled_files(job.public_test)
        _check_known(sorted(set(labels)), _asked(job)["classes"] or sorted(set(table.labels)), job.public_test)
        with work_shown(show=not quiet):
            pixels = read_pictures(files, _asked(job)["size"], channels)
    if pixels.shape[1:3] != (height, width):
        there = f"its pictures have {pixels.shape[1]} x {pixels.shape[2]} pixels"
        fix = f"{there}, and those to train on {height} x {width}: bring all to one size, --size {height}x{width}"
        raise ArgumentError("--public-test", job.public_test, fix)
    return Pictures(pixels, np.array(labels))


def estimator_of(job: Job, ledger: Ledger, checkpoint: Checkpoints | None, world: World | None) -> Any:
    """The classifier that a job asks for."""
    from dpmac.estimators import DPMACImageClassifier, Machine

    asked = _asked(job)
    return DPMACImageClassifier(
        hidden_layer_sizes="auto" if job.hidden is None else tuple(job.hidden),
        epsilon=job.epsilon,
        delta=job.delta,
        classes=asked["classes"],
        size=asked["size"],
        channels=asked["channels"],
        batch_size=job.batch_size,
        epochs=job.epochs,
        ledger=ledger,
        total_epsilon=job.total_epsilon,
        random_state=job.seed,
        machine=Machine(threads=job.threads, progress=False, checkpoint=checkpoint, world=world),
    )


def fit(estimator: Any, table: Pictures, public: Pictures | None) -> None:
    validation = None
    if public is not None:
        validation = (public.pixels, public.labels)
    estimator.fit(table.pixels, table.labels, public_validation=validation)


def introduced(job: Job, table: Pictures) -> str:
    """What is trained, in a line; the classes are public, and named."""
    height, width, channels = table.pixels.shape[1:]
    kind = {1: "grey", 3: "colour"}[channels]
    names = _asked(job)["classes"] or sorted(set(table.labels))
    shown = ", ".join(map(str, names[:8]))
    if len(names) > 8:
        shown += f" and {len(names) - 8} more"
    what = f"training a classifier of {job.rows:,} {kind} pictures of {height} x {width} pixels"
    return f"{what}, epsilon {job.epsilon:g}; {len(names)} classes, whose names are public: {shown}"


def _asked(job: Job) -> dict[str, Any]:
    assert job.pictures is not None
    found = dict(job.pictures)
    if found["size"] is not None:
        found["size"] = tuple(found["size"])
    return found


def _check_known(found: Sequence[str], classes: Sequence[str], where: str) -> None:
    strange = [name for name in found if name not in classes]
    if strange:
        listed = ", ".join(map(str, classes[:20]))
        raise ArgumentError("X", str(Path(where) / strange[0]), f"this folder is of none of the classes {listed}")


# --- to predict -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicted:
    """The files, by the names under which they are shown, and the probability of each class."""

    names: list[str]
    p: Array


def predicted(estimator: Any, folder: Path, *, resize: bool) -> Predicted:
    """What a model says of each picture in a folder, and in the folders within; or of one picture."""
    with named("file"):
        if folder.is_file():
            files, root = [folder], folder.parent
        else:
            files, root = files_under(folder), folder
        return Predicted([file.relative_to(root).as_posix() for file in files], _said(estimator, files, resize))


def judged(estimator: Any, folder: Path, *, resize: bool) -> tuple[Array, Array]:
    """The probabilities for each picture of a folder with a folder for each class, and the places of the classes."""
    names = [text_of(label) for label in estimator.classes_]
    with named("file"):
        files, labels = labelled_files(folder)
        _check_known(sorted(set(labels)), names, str(folder))
        return _said(estimator, files, resize), np.array([names.index(label) for label in labels])


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
        if error.name not in ("X", "files"):
            raise
        raise ArgumentError(option, error.value, error.fix) from None
