"""Finished runs on disk: one JSON file each, written whole or not at all, so that work can stop and go on anywhere.

``FOLDER/runs/KEY.json`` holds the job, its result, and what made it, under a digest of all three. A file that was cut
short, edited or put under another name does not match its digest or its name: it is *damaged*, and the run is redone.
Infinity, which JSON does not know, is written as the string "inf".
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FORMAT = 1
_STALE = 3600.0  # seconds after which a temporary file has surely lost its writer


@dataclass(frozen=True)
class Job:
    """One run: a row of a table, at one stated epsilon, with one seed."""

    table: str
    row: str
    preset: str
    epsilon: float
    seed: int

    @property
    def key(self) -> str:
        """A name for its file: unique, and safe on any disk."""
        row = "".join(c if c.isalnum() else "-" for c in self.row.lower()).strip("-")
        return f"{self.table}_{self.preset}_{row}_eps{self.epsilon:g}_seed{self.seed}"


@dataclass(frozen=True)
class Finished:
    """A run that is done: which it was, what it gave (see ``run_job``), and the versions and command that made it."""

    table: str
    row: str
    preset: str
    epsilon: float
    seed: int
    result: Mapping[str, Any] = field(repr=False)
    made_with: Mapping[str, Any] = field(repr=False, default_factory=dict)


class DamagedRunError(ValueError):
    """A file under ``runs/`` that cannot be believed. The message names the file and what is wrong with it."""

    def __init__(self, path: Path, wrong: str) -> None:
        self.path, self.wrong = path, wrong
        super().__init__(f"{path}: {wrong}")


class Store:
    """The runs below one folder. The folder is made on the first save; several processes may save at once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / "runs"

    def path(self, job: Job) -> Path:
        return self.runs / f"{job.key}.json"

    def load(self, job: Job) -> Finished | None:
        """The finished run of ``job``, or None if there is none. Raises :class:`DamagedRunError`."""
        path = self.path(job)
        if not path.is_file():
            return None
        found = _read(path)
        if _identity(found) != _identity(job):
            raise DamagedRunError(path, f"holds another run: {_identity(found)}")
        return found

    def save(self, job: Job, result: Mapping[str, Any], made_with: Mapping[str, Any] | None = None) -> Path:
        """Keep a result. Refuses one that JSON cannot hold or whose metric is no finite number: it is no result."""
        metric = result.get("metric")
        if isinstance(metric, bool) or not isinstance(metric, int | float) or not math.isfinite(metric):
            raise ValueError(f"metric={metric!r}: a run must end with a finite number; did the training diverge?")
        content = {"job": _identity(job), "result": dict(result), "made_with": dict(made_with or {})}
        content = json.loads(json.dumps(content, allow_nan=False))  # digest what a reader will see: tuples are lists
        path = self.path(job)
        write_atomically(path, json.dumps({"format": _FORMAT, "sha256": _digest(content), **content}, indent=1) + "\n")
        self.error_path(job).unlink(missing_ok=True)
        return path

    def error_path(self, job: Job) -> Path:
        """Where the traceback of a run that failed lies, until the run succeeds."""
        return self.runs / f"{job.key}.error.txt"

    def all(self) -> tuple[list[Finished], list[DamagedRunError]]:
        """Every good run of the folder, in the order of their file names, and what is wrong with the others."""
        finished, damaged = [], []
        for path in sorted(self.runs.glob("*.json")):
            try:
                finished.append(_read(path))
            except DamagedRunError as error:
                damaged.append(error)
        return finished, damaged

    def sweep(self) -> None:
        """Remove temporary files whose writer was killed long ago; those of a writer at work are left alone."""
        for path in self.runs.glob("*.tmp"):
            with suppress(FileNotFoundError):  # its writer is done, and has renamed it
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()


def write_atomically(path: Path, text: str) -> None:
    """``path`` holds all of ``text``, or what it held before: never a part, whenever the process or machine dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # the process's own: two writers do not meet
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())  # or a crash could leave the new name on an empty file
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def spelled(epsilon: float) -> float | str:
    """An epsilon as JSON can hold it."""
    return "inf" if math.isinf(epsilon) else epsilon


def provenance(command: str, device: str) -> dict[str, str]:
    """What a result depends on beside its recipe and seed. Names the kind of machine, never the machine."""
    import platform
    from importlib.metadata import version

    from dpmac import __version__

    return {
        "dpmac": __version__,
        **{name: version(name) for name in ("torch", "dp-accounting", "numpy")},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{_accelerator(device)}",
        "device": device,
        "command": command,
    }


def _accelerator(device: str) -> str:
    if not device.startswith("cuda"):
        return ""
    import torch

    return f", {torch.cuda.get_device_name(device)}" if torch.cuda.is_available() else ""


def _identity(job: Job | Finished) -> dict[str, Any]:
    return {
        "table": job.table,
        "row": job.row,
        "preset": job.preset,
        "epsilon": spelled(job.epsilon),
        "seed": job.seed,
    }


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> Finished:
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
        raise DamagedRunError(path, f"cannot be read ({error})") from error
    if not isinstance(whole, dict) or whole.get("format") != _FORMAT:
        raise DamagedRunError(path, "is no finished run of this version of the format")
    content = {name: whole.get(name) for name in ("job", "result", "made_with")}
    if _digest(content) != whole.get("sha256"):
        raise DamagedRunError(path, "does not match its digest: cut short or edited")
    try:
        job = whole["job"] | {"epsilon": float(whole["job"]["epsilon"])}
        return Finished(**job, result=whole["result"], made_with=whole["made_with"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRunError(path, f"does not name its run ({error})") from error
