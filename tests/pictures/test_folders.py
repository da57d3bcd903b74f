"""Folders of picture files: what is read, and what a damaged, hostile or misplaced file is called."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from dpmac import ArgumentError
from dpmac.pictures.folders import read_flat, read_folder, read_pictures

Image = pytest.importorskip("PIL.Image")
DRAW = np.random.RandomState(0)


def picture(path, shape=(6, 8), kind="PNG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = DRAW.randint(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path, kind)
    return pixels


@pytest.fixture
def folder(tmp_path):
    """Two classes of grey pictures, and the pixels by name."""
    root = tmp_path / "images"
    pixels = {name: picture(root / name) for name in ("cat/1.png", "cat/2.png", "dog/1.png")}
    return root, pixels


def test_a_folder_a_class(folder):
    root, pixels = folder
    (root / ".hidden").touch()
    (root / "cat" / ".DS_Store").touch()
    x, y = read_folder(root)
    assert y.tolist() == ["cat", "cat", "dog"]
    assert x.dtype == np.uint8
    assert np.array_equal(x[..., 0], np.stack(list(pixels.values())))
    assert np.array_equal(read_flat(root / "cat"), x[:2])
    assert read_folder(str(root), channels=3)[0].shape == (3, 6, 8, 3)
    assert read_folder(root, size=(4, 5))[0].shape == (3, 4, 5, 1)


def test_jpeg_colours_palettes_and_16_bits(tmp_path):
    picture(tmp_path / "a.jpg", (6, 8, 3), "JPEG")
    rgba = picture(tmp_path / "b.png", (6, 8, 4))
    Image.fromarray(rgba[..., :3]).quantize(16).save(tmp_path / "c.png")
    x = read_flat(tmp_path)
    assert x.shape == (3, 6, 8, 3)
    assert np.array_equal(x[1], rgba[..., :3])
    deep = DRAW.randint(0, 2**16, (6, 8)).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert np.array_equal(read_pictures([tmp_path / "deep.png"])[0, ..., 0], deep >> 8)


def bomb(path, side=50_000):
    """A PNG of a hundred bytes that says it has side x side pixels."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"0")),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


SPOILED = {
    "a text": (lambda root: (root / "cat" / "3.png").write_text("no picture"), "3.png.*cannot be read.*it is none"),
    "an empty file": (lambda root: (root / "cat" / "3.png").touch(), "3.png.*cannot be read"),
    "cut off": (
        lambda root: (root / "cat" / "1.png").write_bytes((root / "cat" / "1.png").read_bytes()[:60]),
        "1.png.*cannot be read",
    ),
    "another format": (lambda root: picture(root / "cat" / "3.gif", kind="GIF"), "3.gif.*cannot be read.*it is none"),
    "another size": (lambda root: picture(root / "dog" / "2.png", (5, 8)), r"2.png.*5 x 8 pixels.*size=\(6, 8\)"),
    "in colour": (lambda root: picture(root / "dog" / "2.png", (6, 8, 3)), "2.png.*in colour.*channels=1"),
    "a bomb": (lambda root: bomb(root / "dog" / "2.png"), "2.png.*cannot be read"),
    "a large head": (lambda root: bomb(root / "dog" / "2.png", 5_000), "2.png.*5000 x 5000 pixels"),
    "an empty class": (lambda root: (root / "eel").mkdir(), "eel.*no picture in this folder"),
    "a file beside": (lambda root: picture(root / "3.png"), "3.png.*beside the folders"),
    "a folder within": (lambda root: (root / "cat" / "more").mkdir(), "more.*it is none"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_cannot_be_read_is_named(name, folder):
    spoil, said = SPOILED[name]
    spoil(folder[0])
    with pytest.raises(ArgumentError, match=said):
        read_folder(folder[0])


def test_what_is_no_folder_and_odd_arguments(tmp_path, folder):
    with pytest.raises(ArgumentError, match="no such folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArgumentError, match="it is empty"):
        read_folder(tmp_path / "empty")
    for odd in (5, (5,), (3, 9), (9, 5_000), "ab"):
        with pytest.raises(ArgumentError, match="size="):
            read_folder(folder[0], size=odd)
    with pytest.raises(ArgumentError, match="channels=2"):
        read_folder(folder[0], channels=2)
    with pytest.raises(ArgumentError, match="files='none'"):
        read_pictures([])
