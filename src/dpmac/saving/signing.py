"""A signature over a model's folder: who signs, and the digest of every file that lies there, the manifest's included.

What is signed is the list itself, as it stands in ``signature.json``. So whoever verifies sees exactly what was signed,
and a file that was changed, added or taken away since is named. A signature says that the holder of a key signed these
bytes. It does not say that what stands in them is true, nor whose the key is: that must reach the reader another way.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpmac.checks import ArgumentError, one_line, public_text
from dpmac.disclosure.answers import read_answers
from dpmac.disclosure.declared import SEARCHED
from dpmac.files import whole_file
from dpmac.limits import read_json
from dpmac.saving.folder import RunFolder, open_folder
from dpmac.saving.keys import fingerprint
from dpmac.saving.manifest import NAME as MANIFEST
from dpmac.saving.manifest import check_plain, digest_of

FORMAT = "dpmac-signature-1"
NAME = "signature.json"
SAYS = (
    "The holder of this key signed these files, byte for byte. That says nothing about whether what they state is "
    "true, and nothing about files that are not listed."
)
_KEYS = {"format", "says", "signed", "key", "signature"}
_SIGNED = {"run", "by", "date", "files"}
_BEGUN = ("job.json", "checkpoint", "checkpoint.ledger")  # of a training that has not ended


class NotAsSignedError(ValueError):
    """A folder that is not what was signed: ``findings`` say what differs, one line each."""

    def __init__(self, folder: Path, findings: list[str]) -> None:
        self.findings = tuple(findings)
        super().__init__(f"{folder} is NOT as it was signed: " + "; ".join(findings))


@dataclass(frozen=True)
class Signature:
    """What a folder's signature says, once it is verified; ``key`` is the public key that made it."""

    run: str
    by: str
    date: str
    files: Mapping[str, Mapping[str, Any]]
    key: Ed25519PublicKey

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)


def sign(folder: str | Path, key: Ed25519PrivateKey, by: str, *, again: bool = False) -> Signature:
    """Sign every file of a model's folder as it is now, after checking all that the manifest lists.

    ``by`` says in words who signs; it is signed too. Where a signature is already, ``again`` replaces it.
    """
    who = public_text("by", by, "say who signs, such as 'A. Mills, privacy officer'")
    found = open_folder(folder)
    _check_whole(found)
    where = found.path / NAME
    if (where.exists() or where.is_symlink()) and not again:
        fix = "it is signed already: to replace that signature say again=True (--force)"
        raise ArgumentError("folder", str(where), fix)
    signed: dict[str, Any] = {
        "run": str(found.manifest["name"] or ""),
        "by": who,
        "date": datetime.now(UTC).date().isoformat(),
        "files": _digests(found.path),
    }
    content = {
        "format": FORMAT,
        "says": SAYS,
        "signed": signed,
        "key": _text(key.public_key().public_bytes_raw()),
        "signature": _text(key.sign(_message(signed))),
    }
    with whole_file(where) as handle:
        handle.write(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n")
    return Signature(**signed, key=key.public_key())


def check_answered(folder: str | Path) -> None:
    """Raise unless somebody has answered whether hyper-parameters were searched, which no signature should leave open.

    The answer is kept by ``save(searched=)``, or stands in the folder's ``answers.toml``.
    """
    found = open_folder(folder)
    answer = read_answers(found.path).declared.over(found.declared()).searched
    if answer is None:
        fix = (
            f"nobody has said whether hyper-parameters were searched: write the file of questions with  dpmac "
            f"statement init {folder}  and answer there (one of {', '.join(SEARCHED)}), then sign"
        )
        raise ArgumentError("searched", None, fix)


def verify(folder: str | Path, by: Ed25519PublicKey | None = None) -> Signature:
    """What the signature of a folder says, if the folder is what was signed; else :class:`NotAsSignedError`.

    With ``by`` it must be that key's. Without, it may be anybody's: compare the fingerprint.
    """
    where = Path(folder)
    path = where / NAME
    if not path.exists() and not path.is_symlink():
        raise FileNotFoundError(f"{path}: there is no such file: nobody has signed this folder")
    check_plain(path)
    signature, proof = _read(path)
    if by is not None and by.public_bytes_raw() != signature.key.public_bytes_raw():
        said = f"the key that signed it is {signature.fingerprint}, and {fingerprint(by)} was asked for"
        raise NotAsSignedError(where, [said])
    signed = {"run": signature.run, "by": signature.by, "date": signature.date, "files": signature.files}
    try:
        signature.key.verify(proof, _message(signed))
    except InvalidSignature:
        raise NotAsSignedError(where, [f"{NAME} was changed: the signature is not of what it lists"]) from None
    findings = _compared(where, signature.files)
    if findings:
        raise NotAsSignedError(where, findings)
    open_folder(where)  # and the manifest speaks for its files, as in any whole folder
    return signature


def _check_whole(found: RunFolder) -> None:
    """Raise unless the folder holds nothing but files, and no training is under way in it."""
    for name in _names(found.path):
        if name in _BEGUN:
            fix = "a training has not ended there: finish it with  dpmac resume, and sign then"
            raise ArgumentError("folder", str(found.path / name), fix)
        if name != NAME:
            check_plain(found.path / name)


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def _digests(folder: Path) -> dict[str, dict[str, Any]]:
    return {name: digest_of(folder / name) for name in _names(folder) if name != NAME}


def _compared(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What differs between a folder and a signed list, file by file."""
    there, findings = {name for name in _names(folder) if name != NAME}, []
    for name in sorted(there | set(files)):
        path = folder / name
        if name not in there:
            findings.append(f"{one_line(name)} is missing")
        elif name not in files:
            findings.append(f"{one_line(name)} was added")
        elif path.is_symlink() or not path.is_file():
            findings.append(f"{one_line(name)} is no file any more")
        elif digest_of(path) != files[name]:
            findings.append(f"{one_line(name)} was changed")
    return findings


def _message(signed: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: one form of the list, whatever way its file is laid out."""
    text = json.dumps(signed, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"{FORMAT}\n{text}".encode()


def _read(path: Path) -> tuple[Signature, bytes]:
    try:
        raw = read_json(path)
        if not isinstance(raw, dict) or set(raw) != _KEYS or raw["format"] != FORMAT or raw["says"] != SAYS:
            raise ValueError(f"it is not of the format {FORMAT}")
        signed = raw["signed"]
        if set(signed) != _SIGNED or not all(isinstance(signed[name], str) for name in _SIGNED - {"files"}):
            raise ValueError("what was signed is not a run, a name, a date and files")
        _check_list(signed["files"])
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(raw["key"], validate=True))
        return Signature(**signed, key=key), base64.b64decode(raw["signature"], validate=True)
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no signature that can be read ({error})") from None


def _check_list(files: Any) -> None:
    """Raise unless these are names of one folder with length and digest, the manifest's among them."""
    if not isinstance(files, dict) or MANIFEST not in files:
        raise ValueError(f"it lists no {MANIFEST}")
    for name, found in files.items():
        plain = name == os.path.basename(name) and name not in ("", ".", "..", NAME)
        if not plain or not isinstance(found, dict) or set(found) != {"sha256", "bytes"}:
            raise ValueError(f"its entry for {name!r:.60} is not that of a file")


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
