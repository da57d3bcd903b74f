"""Folders of drawn pictures, for commands that take pictures."""

from __future__ import annotations

import functools

import pytest

from cli.commands import Server, serve
from dpmac.estimators import images
from dpmac.pictures import Scattering
from dpmac.priors import PicturePrior, whitened_pictures, whitening
from processes import forked

SIDE = 16
KINDS = ("strokes", "textures")


def few_drawings(monkeypatch):
    """Features that take no time: a small scattering, whitened by twenty drawings in place of 20,000."""
    exact = whitening.WhiteningOptions
    monkeypatch.setattr(
        whitened_pictures, "WhiteningOptions", lambda **more: exact(**{**more, "rows": 20, "directions": 12})
    )
    for module in (whitened_pictures, images):
        monkeypatch.setattr(module, "maps_of", lambda _, *size: Scattering(*size, side=8))


@functools.cache
def drawn(kind, count, seed, side=SIDE):
    """Grey pictures (count, side, side): drawn once for all tests, which leave them as they are."""
    pictures = PicturePrior(side, side, 1, kind, seed=seed).drawn(count).numpy().reshape(count, side, side)
    pictures = pictures.astype("uint8")
    pictures.setflags(write=False)
    return pictures


def write_pictures(folder, pictures):
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(pictures):
        image.fromarray(pixels).save(folder / f"{number:03}.png")


def write_album(folder, count=20):
    """images/ and test-images/ with a folder for each kind, and new-images/ with a folder in it."""
    for kind in KINDS:
        write_pictures(folder / "images" / kind, drawn(kind, count, 1))
        write_pictures(folder / "test-images" / kind, drawn(kind, 10, 2))
    write_pictures(folder / "new-images", drawn("strokes", 3, 3))
    write_pictures(folder / "new-images" / "more", drawn("textures", 2, 3))
    rows = [(f"images/{kind}/{number:03}.png", kind) for kind in KINDS for number in range(count)]
    (folder / "pictures.csv").write_text("\n".join(map(",".join, [("path", "kind"), *rows])) + "\n")
    return folder


class DrawingServer(Server):
    """Commands in processes of their own that need few drawings."""

    def _forked(self):
        return forked(serve_with_few_drawings)


def serve_with_few_drawings(jobs):
    with pytest.MonkeyPatch.context() as patch:
        few_drawings(patch)
        serve(jobs)
