"""Keys to sign with: made, written for their owner alone, and read back. Ed25519, by ``cryptography``."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpmac.checks import ArgumentError
from dpmac.files import created, write_new
from dpmac.limits import read_bytes

PUBLIC = ".pub"  # of the public half, beside the private one
_MOST = 10_000  # bytes of a key's file
_MAKE = "make one with  dpmac key FILE"


class EncryptedKeyError(ArgumentError):
    """A key that needs a passphrase, or another one than was given."""


def new_key(path: Path, passphrase: bytes | None = None) -> Path:
    """Make a key: the private half at ``path``, which only its owner can read, the public half at ``path.pub``.

    Nothing is written over. Gives the path of the public half.
    """
    public = path.with_name(path.name + PUBLIC)
    for one in (path, public):
        if one.exists() or one.is_symlink():
            raise ArgumentError(
                "key", str(one), "there is a file already, which is not written over: give another name"
            )
    if not path.absolute().parent.is_dir():
        raise ArgumentError("key", str(path), f"there is no folder {path.parent}: make it first")
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        locked = serialization.BestAvailableEncryption(passphrase)
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked)
    with created(path, permissions=0o600) as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    write_new(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return public


def private_key(path: Path, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """The key in a PEM file; :class:`EncryptedKeyError` where a passphrase is needed, or is not this one."""
    raw = _read(path)
    try:
        found = serialization.load_pem_private_key(raw, passphrase)
    except TypeError:  # encrypted without a passphrase, or a passphrase where none is needed
        if passphrase is None:
            raise EncryptedKeyError("key", str(path), "it is locked: give its passphrase") from None
        return private_key(path)
    except (ValueError, UnsupportedAlgorithm):
        if b"ENCRYPTED" in raw and passphrase is not None:
            raise EncryptedKeyError("key", str(path), "this is not its passphrase") from None
        raise ArgumentError("key", str(path), f"it holds no private key: {_MAKE}") from None
    if not isinstance(found, Ed25519PrivateKey):
        raise ArgumentError("key", str(path), f"its key is of another kind than Ed25519: {_MAKE}")
    return found


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file."""
    try:
        found = serialization.load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm):
        fix = "it holds no public key: give the .pub file that dpmac key wrote, not the private key"
        raise ArgumentError("by", str(path), fix) from None
    if not isinstance(found, Ed25519PublicKey):
        raise ArgumentError("by", str(path), "its key is of another kind than Ed25519")
    return found


def fingerprint(key: Ed25519PublicKey) -> str:
    """A short name of a public key, to be compared by eye or read over a telephone; as ``ssh-keygen`` writes such."""
    digest = hashlib.sha256(key.public_bytes_raw()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def readable_by_others(path: Path) -> bool:
    """Whether the system lets anybody but the owner read a private key."""
    return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ArgumentError("key", str(path), f"there is no such file: {_MAKE}")
    try:
        return read_bytes(path, _MOST)
    except ValueError:
        raise ArgumentError("key", str(path), f"it is too long for a key: {_MAKE}") from None
