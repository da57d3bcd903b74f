"""Read a dataset into tensors: pixels in [0, 1], one row an image. The heavy libraries wait for the first load."""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.checks import ArgumentError
from dpmac.data.catalogue import DataError, Listing, listing_of
from dpmac.data.fetching import fetch, locate, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    Bytes = NDArray[np.uint8]
    Indices = NDArray[np.int64]

USPS_EACH = 500  # training images a digit, and as many for testing; 100 of the 1,100 are left over


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as float32 rows in [0, 1], labels 0 to 9 as int64; ``shape`` turns a row back into an image.

    ``source`` says where it was read: a folder, or scikit-learn. Two datasets are equal only if they are the same
    object: comparing tensors is for the caller.
    """

    name: str
    x_train: Tensor = field(repr=False)
    y_train: Tensor = field(repr=False)
    x_test: Tensor = field(repr=False)
    y_test: Tensor = field(repr=False)
    shape: tuple[int, ...]
    source: str


def load(name: str, path: str | Path | None = None, seed: int = 0, download: bool = False) -> Dataset:
    """Load ``digits``, ``mnist``, ``fashion-mnist`` or ``usps``; every file is checked by its digest.

    ``path`` is a folder that holds the files, or holds a folder of the dataset's name; if given, nowhere else is
    looked. ``seed`` draws the split of ``usps`` and ``digits`` (the same on every platform); the other two have a
    split of their own, and do not look at it. Nothing is downloaded unless ``download`` is true, and then only if no
    copy is there: a damaged copy is an error either way. ``digits`` comes with scikit-learn and ignores ``path``.
    """
    entry = listing_of(name)
    if entry.inside:
        raise ArgumentError("name", name, f"this is a table, not images: dpmac.data.load_table({name!r})")
    if not entry.files:
        return _digits(entry, seed)
    try:
        folder = locate(entry, path)
    except DataError:
        if not download:
            raise
        folder = fetch(name, to=path)
    contents = [read(entry, file, folder) for file in entry.files]
    if name == "usps":
        return _usps(entry, contents[0], seed, folder)
    train, train_labels, test, test_labels = (_idx(entry, content) for content in contents)
    for images, labels in ((train, train_labels), (test, test_labels)):
        if images.shape != (len(labels), *entry.shape):
            raise DataError(entry, f"{folder}: {images.shape} images for {labels.shape} labels", [])
    return _dataset(entry, train, train_labels, test, test_labels, scale=255, source=str(folder))


def _idx(entry: Listing, content: bytes) -> Bytes:
    """An array of unsigned bytes in IDX format: two zeros, type 8, number of dimensions, big-endian sizes, values."""
    import numpy as np

    dimensions = 0
    if content[:3] == b"\x00\x00\x08" and len(content) > 3:
        dimensions = content[3]
    start = 4 + 4 * dimensions
    shape: tuple[int, ...] = ()
    if 4 < start <= len(content):
        shape = struct.unpack(f">{dimensions}I", content[4:start])
    if not shape or math.prod(shape) != len(content) - start:
        raise DataError(entry, "not an IDX file of unsigned bytes, or of another length than it says", [])
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _usps(entry: Listing, content: bytes, seed: int, folder: Path) -> Dataset:
    """The 11,000 images, 1,100 a digit. The file holds pixels by column, and the digits in the order 1 to 9, 0."""
    import numpy as np
    import scipy.io

    try:
        data = np.asarray(scipy.io.loadmat(io.BytesIO(content))["data"])
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise DataError(entry, f"not a MATLAB file with the key 'data' ({error})", []) from error
    pixels, each, digits = data.shape
    if pixels != math.prod(entry.shape) or digits != 10 or each < 2 * USPS_EACH:
        raise DataError(entry, f"'data' is {data.shape}, not 256 x 1100 x 10", [])
    upright = data.reshape(*entry.shape, each * digits).transpose(2, 1, 0)  # one (each, digit) after another, by row
    labels = np.tile((np.arange(digits) + 1) % 10, each)
    quota = np.full(10, USPS_EACH)
    train, test = _split(labels, quota, quota, seed, "/usps split")
    return _dataset(entry, upright[train], labels[train], upright[test], labels[test], scale=255, source=str(folder))


def _digits(entry: Listing, seed: int) -> Dataset:
    """scikit-learn's 1,797 digits, split so that every digit has its share of the test rows, to within one."""
    import numpy as np
    import sklearn
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    counts = np.bincount(labels, minlength=10)
    share = counts * entry.test_rows / len(labels)
    test = np.floor(share).astype(np.int64)
    largest = np.argsort(test - share, kind="stable")[: entry.test_rows - int(np.sum(test))]  # largest remainders
    test[largest] += 1
    rows, test_rows = _split(labels, counts - test, test, seed, "/digits split")
    return _dataset(
        entry,
        *(images[rows], labels[rows], images[test_rows], labels[test_rows]),
        scale=16,
        source=f"scikit-learn {sklearn.__version__}",
    )


def _split(labels: Any, train: Any, test: Any, seed: int, purpose: str) -> tuple[Indices, Indices]:
    """Row numbers of a random split with ``train[c]`` and ``test[c]`` rows of every class c, in random order.

    The rows are shuffled; of each class the first ``test[c]`` are for testing and the next ``train[c]`` for training. A
    second shuffle orders them: after the first, the classes that fill up early would come first. The uniforms
    are Philox's, the same everywhere, and a stable sort leaves nothing to the platform.
    """
    import numpy as np

    from dpmac.randomness import SeededNoise

    source = SeededNoise(seed, purpose)
    first, second = (np.argsort(source.uniform(len(labels)).numpy(), kind="stable") for _ in range(2))
    role = np.zeros(len(labels), dtype=np.int64)  # 1 to train on, 2 to test on, 0 left over
    for digit in range(len(test)):
        members = first[np.asarray(labels)[first] == digit]
        role[members[: test[digit]]] = 2
        role[members[test[digit] : test[digit] + train[digit]]] = 1
    return second[role[second] == 1], second[role[second] == 2]


def _dataset(
    entry: Listing, train: Any, train_labels: Any, test: Any, test_labels: Any, scale: int, source: str
) -> Dataset:
    import numpy as np
    import torch

    def rows(images: Any) -> Tensor:
        flat = np.ascontiguousarray(images, dtype=np.float32).reshape(len(images), -1)
        return torch.from_numpy(flat / np.float32(scale))

    def whole(labels: Any) -> Tensor:
        return torch.from_numpy(np.array(labels, dtype=np.int64))

    return Dataset(entry.name, rows(train), whole(train_labels), rows(test), whole(test_labels), entry.shape, source)
