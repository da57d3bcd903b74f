"""The report's section on pictures: what the model knew before it saw any, and what it says of drawings.

No picture that the model was trained on is on the page, or in the folder: drawings are made up by a public program.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from dpmac.estimators import DPMACImageClassifier
from dpmac.pictures.resizing import SIDES
from dpmac.priors import PicturePrior
from dpmac.report.markup import Markup, bullets, group, paragraph, section, text
from dpmac.report.run_contents import RunContents
from dpmac.tables.texts import text_of

Array = np.ndarray[Any, Any]
STYLES = ("shapes", "textures", "strokes")
EACH = 4  # drawings of a style
SEED = 7  # of these drawings: others than the features were made with
CAPTION = (
    "Drawn by the program dpmac.priors.PicturePrior: nobody is on them, and no private picture is on this page or in "
    "the model's folder."
)


def takes_pictures(run: RunContents) -> bool:
    return isinstance(run.estimator, DPMACImageClassifier)


def pictures_section(run: RunContents) -> Markup:
    """What is known of pictures without anybody's, and drawn examples."""
    estimator = run.estimator
    known = estimator.known_beforehand()
    parts = [paragraph(f"It takes {estimator.takes()}.")]
    if known:
        parts += [paragraph("What it knew before it saw a picture of anybody, at no cost of privacy:"), bullets(known)]
    drawn = [(style, picture) for style in STYLES for picture in _drawn(estimator.image_shape_, style)]
    said, more = _said(estimator, np.stack([picture for _, picture in drawn])), ""
    if said:
        more = " Under each is what the model says of it; asking a released model costs no privacy."
    shown = [
        _shown(picture, f"a drawing: {style}", "".join(said[k : k + 1])) for k, (style, picture) in enumerate(drawn)
    ]
    caption = Markup(f'<p class="soft">{text(CAPTION + more)}</p>')
    return section("pictures", "Pictures", *parts, group("drawn", *shown), caption)


def _drawn(shape: tuple[int, int, int], style: str) -> Array:
    """Drawings of the size that the model takes, if there are such; else of the size that features are made of."""
    height, width, channels = shape
    if not (16 <= height <= 64 and 16 <= width <= 64):
        height = width = SIDES[channels]
    if style == "strokes" and channels == 3:
        style = "shapes"
    rows = PicturePrior(height, width, channels, style, seed=SEED).drawn(EACH)
    greys: Array = rows.reshape(EACH, height, width, channels).numpy().round().astype(np.uint8)
    return greys


def _said(estimator: Any, pictures: Array) -> list[str]:
    """The likeliest class of each drawing; nothing of a model that cannot be asked, or that takes other sizes."""
    if pictures.shape[1:] != estimator.image_shape_ or not hasattr(estimator, "run_"):
        return []
    p, names = estimator.predict_proba(pictures), [text_of(label) for label in estimator.classes_]
    return [f"{names[place]}, {p[row, place]:.0%}" for row, place in enumerate(p.argmax(axis=1))]


def _shown(picture: Array, title: str, words: str) -> Markup:
    source = base64.b64encode(png(picture)).decode()
    image = f'<img src="data:image/png;base64,{source}" alt="{text(title)}" title="{text(title)}">'
    return Markup(f"<div>{image}<span>{text(words)}</span></div>")


def png(picture: Array) -> bytes:
    """A picture (height, width, 1 or 3) of bytes as a PNG file."""
    height, width, channels = picture.shape
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(picture))
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
