"""Pictures in files: a folder of PNG and JPEG files, or one with a folder of them for each class.

Files may come from anywhere, so each is looked over before its pixels are unpacked: its format, its size, its channels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError, integer
from dpmac.pictures.arrays import SMALLEST, Array
from dpmac.pictures.resizing import LARGEST, SIDES
from dpmac.showing import shown

FORMATS = ("PNG", "JPEG")
GREY = ("1", "L", "LA", "I", "I;16", "F")  # Pillow's names for pixels without colour
MOST_BYTES = 2**28  # of one file


def is_path(X: Any) -> bool:
    """Whether ``X`` names a file or a folder."""
    return isinstance(X, str | os.PathLike)


def read_folder(
    folder: str | Path, size: tuple[int, int] | None = None, channels: int | None = None
) -> tuple[Array, Array]:
    """Pictures (n, height, width, channels) of bytes, and labels (n,): the names of the folders they lie in.

    Each class has a folder of its own in ``folder``, with PNG or JPEG files and nothing else; files whose names begin
    with a dot are left out. All pictures must have one size, or are brought to ``size`` (height, width), and all must
    be grey or all in colour, or are made so by ``channels``, 1 or 3. Reading needs Pillow (``dpmac[images]``).
    """
    files, labels = labelled_files(folder)
    return read_pictures(files, size, channels), np.array(labels)


def labelled_files(folder: str | Path) -> tuple[list[Path], list[str]]:
    """The files of a folder with one folder for each class, and the names of the folders they lie in, unread."""
    root = _folder(folder)
    classes = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    for path in classes:
        if not path.is_dir():
            fix = "it lies beside the folders of the classes: give a folder that holds one folder for each class"
            raise ArgumentError("X", str(path), fix)
    if not classes:
        raise ArgumentError("X", str(root), "it is empty: give a folder that holds one folder for each class")
    files, labels = list[Path](), list[str]()
    for path in classes:
        inside = _files_in(path)
        files += inside
        labels += [path.name] * len(inside)
    return files, labels


def files_under(folder: str | Path) -> list[Path]:
    """All files in a folder and in the folders within, by name; names that begin with a dot are left out."""
    root = _folder(folder)
    found = list[Path]()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place) / name for name in names if not name.startswith(".")]
    if not found:
        raise ArgumentError("X", str(folder), "there is no picture in this folder: add some, or give another")
    return sorted(found)


def read_flat(folder: str | Path, size: tuple[int, int] | None = None, channels: int | None = None) -> Array:
    """The pictures of a folder without classes, in the order of their names, as :func:`read_folder` reads them."""
    return read_pictures(_files_in(_folder(folder)), size, channels)


def read_pictures(
    files: Sequence[str | Path], size: tuple[int, int] | None = None, channels: int | None = None
) -> Array:
    """Pictures from files of the formats PNG and JPEG, (n, height, width, channels) bytes; see :func:`read_folder`."""
    check_wanted(size, channels)
    if not files:
        raise ArgumentError("files", "none", "give at least one file")
    found: Array | None = None
    with shown("reading pictures") as tell:
        for number, file in enumerate(files):
            pixels = read_picture(Path(file), size, channels)
            if found is None:
                found = np.empty((len(files), *pixels.shape), dtype=np.uint8)
            if pixels.shape != found.shape[1:]:
                raise ArgumentError("X", str(file), _differs(pixels.shape, found.shape[1:], str(files[0])))
            found[number] = pixels
            tell(number + 1, len(files))
    assert found is not None
    return found


def check_wanted(size: Any, channels: Any) -> None:
    """Raise unless files can be brought to this size, and to so many channels; None leaves them as they are."""
    if size is not None:
        fix = f"give (height, width), pixels from {SMALLEST} to {LARGEST:,}, or None"
        if not isinstance(size, tuple | list) or len(size) != 2:
            raise ArgumentError("size", size, fix)
        for side in size:
            integer("size", side, fix, low=SMALLEST, high=LARGEST)
    if channels is not None and channels not in SIDES:
        raise ArgumentError("channels", channels, "give 1 for grey pictures, 3 for colours, or None")


def _differs(shape: tuple[int, ...], first: tuple[int, ...], name: str) -> str:
    if shape[:2] != first[:2]:
        there = f"it has {shape[0]} x {shape[1]} pixels, and {name} has {first[0]} x {first[1]}"
        given = f"size=({first[0]}, {first[1]})"
        return f"{there}: bring all to one size, {given} (dpmac train --size {first[0]}x{first[1]})"
    what = {1: "grey", 3: "in colour"}
    made = "channels=1, or 3, makes all so (dpmac train --channels 1)"
    return f"it is {what[shape[2]]}, and {name} is {what[first[2]]}: {made}"


def _folder(folder: str | Path) -> Path:
    path = Path(folder)
    if not path.is_dir():
        raise ArgumentError("X", str(folder), "there is no such folder")
    return path


def _files_in(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in found:
        if not path.is_file():
            raise ArgumentError("X", str(path), "give PNG or JPEG files here: it is none")
    if not found:
        raise ArgumentError("X", str(folder), "there is no picture in this folder: add some, or remove the folder")
    return found


def read_picture(path: Path, size: tuple[int, int] | None = None, channels: int | None = None) -> Array:
    """One picture's bytes (height, width, channels)."""
    with _said(path):
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file may have {MOST_BYTES:,} bytes")
        from PIL import Image

        with Image.open(path, formats=FORMATS) as picture:  # reads the head alone
            width, height = picture.size
            if not (SMALLEST <= width <= LARGEST and SMALLEST <= height <= LARGEST):
                raise ValueError(f"{height} x {width} pixels, and {SMALLEST} to {LARGEST:,} a side can be read")
            if channels is None:
                channels = 3 - 2 * int(picture.mode in GREY)
            pixels = _eight_bits(picture).convert({1: "L", 3: "RGB"}[channels])
            if size is not None and tuple(size) != (height, width):
                pixels = pixels.resize((int(size[1]), int(size[0])), Image.Resampling.BILINEAR)
            return np.asarray(pixels, dtype=np.uint8).reshape(pixels.height, pixels.width, channels)


def _eight_bits(picture: Any) -> Any:
    """A picture of 16 bits with the upper 8, which Pillow would cut off at 255; any other as it is."""
    if not picture.mode.startswith("I"):
        return picture
    from PIL import Image

    upper = np.clip(np.asarray(picture, dtype=np.int64), 0, 2**16 - 1) >> 8
    return Image.fromarray(upper.astype(np.uint8))


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What goes wrong with a file, in words that name it."""
    try:
        yield
    except ImportError:
        raise ArgumentError("X", str(path), "reading pictures needs Pillow: install dpmac[images]") from None
    except ArgumentError:
        raise
    except Exception as error:  # a damaged file makes Pillow raise whatever it ran into
        fix = f"it cannot be read as a {' or '.join(FORMATS)} picture ({_first_line(error)}): repair or remove it"
        raise ArgumentError("X", str(path), fix) from None


def _first_line(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":
        return "it is none"
    return (str(error).splitlines() or [type(error).__name__])[0]
