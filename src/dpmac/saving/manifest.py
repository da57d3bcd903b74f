"""The manifest of a model's folder, ``dpmac.json``: what the folder is, and the digest of every file in it.

A digest finds accidents: a copy that was cut short, a disk that forgot, a file of another model, a hand that edited.
It is no signature: whoever can write the folder can write a manifest that fits. What holds against such a hand is that
nothing in a folder is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.limits import JSON_BYTES, LEDGER_BYTES, TENSOR_BYTES, parsed, read_bytes

FORMAT = "dpmac-model-1"
NAME = "dpmac.json"
JOB = "job.json"  # of a training that has not ended: what it was asked
FILES = (
    "model.safetensors",
    "front.safetensors",
    "schema.json",
    "plan.json",
    "ledger.jsonl",
    "history.json",
    "statement.json",
    "statement.txt",
    "declared.json",
    "result.json",
    "README.md",
)
"""What a folder may list. Anything else that lies there (evaluation.json, report.html, job.json, checkpoint) is not
part of the model, and no digest speaks for it."""
NEEDED = ("model.safetensors", "ledger.jsonl", "statement.json", "statement.txt", "README.md")
_KEYS = {"format", "dpmac", "created", "name", "estimator", "arguments", "fitted", "files", "seal"}
_NO_SEAL = "0" * 64
_TENSORS = ("model.safetensors", "front.safetensors")
_MOST = {"ledger.jsonl": LEDGER_BYTES, **dict.fromkeys(_TENSORS, TENSOR_BYTES)}  # bytes; of any other file JSON_BYTES
DAMAGED = "it is damaged, cut short or edited: restore the folder from where it was copied"


def digest_of(path: Path) -> dict[str, Any]:
    """Length and SHA-256 of a file."""
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
        return {"sha256": found, "bytes": handle.tell()}


def sealed(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as a file: its seal is the digest of the file itself, with zeros in the seal's place."""
    text = json.dumps({**manifest, "seal": _NO_SEAL}, indent=1, allow_nan=False) + "\n"
    seal = hashlib.sha256(text.encode()).hexdigest()
    return text.replace(f'"seal": "{_NO_SEAL}"', f'"seal": "{seal}"').encode()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of ``folder``, looked over. Errors are FileNotFoundError or ValueError, and name the file."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: there is no such folder; give the path of a model that was saved")
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: give the folder that save wrote, not a file of it")
    path = folder / NAME
    if not path.exists() and not path.is_symlink():
        if (folder / JOB).exists():
            raise FileNotFoundError(
                f"{folder} is no model yet: its training was interrupted, or is still running. dpmac resume {folder}  "
                f"continues it; dpmac inspect {folder}  shows what it has spent"
            )
        what = "no model's folder"
        if (folder / "plan.json").exists():
            what = "a run of Run.save, which keeps no model"
        raise FileNotFoundError(f"{path}: there is no such file: {folder} is {what}, or its writing was interrupted")
    with reading(path):
        raw = plain_bytes(path)
        found = _parsed(raw)
        if not isinstance(found, dict) or "format" not in found:
            raise ValueError("it has no format")
    if found["format"] != FORMAT:
        fix = f"this version reads {FORMAT}: install the dpmac that wrote it ({found.get('dpmac')!r}), or a newer one"
        raise ValueError(f"{path} is of format {found['format']!r}, and {fix}")
    with reading(path):
        seal = found["seal"].encode()
        if set(found) != _KEYS or raw.count(seal) != 1 or len(seal) != len(_NO_SEAL):
            raise ValueError("its keys are not those of its format")
        if hashlib.sha256(raw.replace(seal, _NO_SEAL.encode())).hexdigest().encode() != seal:
            raise ValueError("its seal is broken")
        if not isinstance(found["files"], dict) or not set(found["files"]) <= set(FILES):
            raise ValueError(f"it lists files that {FORMAT} does not have")
        if not set(NEEDED) <= set(found["files"]):
            raise ValueError(f"it does not list {', '.join(sorted(set(NEEDED) - set(found['files'])))}")
    return found


def check_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise unless every listed file is there, is a file of this folder, and is what was written."""
    for name, expected in files.items():
        path = folder / name
        if not path.exists() and not path.is_symlink():
            raise FileNotFoundError(f"{path}: there is no such file, and {NAME} lists it: {DAMAGED}")
        check_plain(path)
        there, most = path.stat().st_size, _MOST.get(name, JSON_BYTES)
        if there > most:
            raise ValueError(f"{path} has {there:,} bytes, and {most:,} are the most of such a file: it is not read")
        size = None
        if isinstance(expected, Mapping):
            size = expected.get("bytes")
        try:
            same = there == size and digest_of(path) == expected
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror})") from None
        if not same:
            raise ValueError(f"{path} is not what was saved ({there} bytes, {size} were written): {DAMAGED}")


def check_plain(path: Path) -> None:
    """Raise for a link (it may lead out of the folder) and for what is no file."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link: a model's folder holds its own files; copy what it points to")
    if not path.is_file():
        raise ValueError(f"{path} is not a file: {DAMAGED}")


def plain_bytes(path: Path) -> bytes:
    check_plain(path)
    try:
        return read_bytes(path, JSON_BYTES)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around the reading of a file: whatever is wrong with what it holds becomes a ValueError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (
        *(ValueError, KeyError, TypeError, AttributeError, IndexError, OSError),
        *(ArithmeticError, RuntimeError, MemoryError),  # RuntimeError: torch's, and nesting too deep for JSON
    ) as error:
        known = (path.name, NAME, *FILES)
        if isinstance(error, ValueError) and any(str(path.parent / name) in str(error) for name in known):
            raise  # it names this file already, or another one, and perhaps asks for something (ArgumentError)
        said = (str(error).splitlines() or [""])[0]
        if not isinstance(error, ArgumentError | ValueError):
            said = f"{type(error).__name__}: {said}"
        raise ValueError(f"{path} does not hold what it should ({said[:300]}): {DAMAGED}") from None


def read_json(path: Path) -> Any:
    with reading(path):
        return _parsed(plain_bytes(path))


def _parsed(raw: bytes) -> Any:
    """What JSON says; half a character (a lone surrogate) is refused, since nothing that shows it could be written."""
    found = parsed(raw)
    json.dumps(found, ensure_ascii=False).encode()
    return found
