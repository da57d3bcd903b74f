"""A small MNIST that stands in for the real one, with the catalogue's digests exchanged; and no network."""

from __future__ import annotations

import gzip
import hashlib
import socket
import struct
from dataclasses import replace

import numpy as np

from dpmac.data import CATALOGUE, fetching
from dpmac.data.catalogue import DataFile

IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = NAMES = [file.name for file in CATALOGUE["mnist"].files]


def idx(array):
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def sha(content):
    return hashlib.sha256(content).hexdigest()


def contents(offset=0):
    """A small MNIST: 12 + 5 images of 2x3."""
    values = (np.arange(17 * 6) * 7 + offset) % 256
    pixels, labels = values.astype(np.uint8).reshape(17, 2, 3), (np.arange(17) + offset).astype(np.uint8) % 10
    return dict(zip(NAMES, map(idx, (pixels[:12], labels[:12], pixels[12:], labels[12:])), strict=True))


SMALL = contents()


def write(folder, files, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return folder


def no_other_network(monkeypatch):
    """Every connection but those to this machine is refused."""
    real = socket.create_connection

    def guarded(address, *rest, **more):
        assert address[0] == "127.0.0.1", f"a test tried to reach {address}"
        return real(address, *rest, **more)

    monkeypatch.setattr(socket, "create_connection", guarded)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def stand_in(monkeypatch, tmp_path):
    """``mnist`` becomes the small one, with no way to fetch it yet; every place is under ``tmp_path``."""
    files = tuple(DataFile(name, sha(content), len(content)) for name, content in SMALL.items())
    listing = replace(CATALOGUE["mnist"], shape=(2, 3), files=files, mirrors=(), npm=None, debian="dataset-mnist")
    monkeypatch.setitem(CATALOGUE, "mnist", listing)
    monkeypatch.delenv("DPMAC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "DEBIAN", tmp_path / "debian")
    return listing


def everything_under(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*")) if folder.exists() else []


def flip(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
