"""Write docs/drawings.png, a gallery of drawings: ``python docs/making/gallery.py`` (needs dpmac and matplotlib)."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np

from dpmac.priors import PicturePrior

PLACE = Path(__file__).resolve().parent.parent / "drawings.png"
SIDE, ACROSS, ZOOM = 28, 20, 2
ROWS = (
    *(("shapes", 1), ("textures", 1), ("strokes", 1)),
    *(("shapes", 3), ("textures", 3)),
)


def row(style: str, channels: int) -> np.ndarray:
    """Drawings of one style beside each other, with grey lines around them."""
    drawn = PicturePrior(SIDE, SIDE, channels, style, white=255.0).drawn(ACROSS).numpy()
    pictures = (
        drawn.reshape(ACROSS, SIDE, SIDE, channels)
        .repeat(3 // channels, axis=3)
        .astype(np.uint8)
    )
    framed = [
        np.pad(one, ((1, 1), (1, 1), (0, 0)), constant_values=128) for one in pictures
    ]
    return np.concatenate(framed, axis=1)


def main() -> None:
    whole = np.concatenate([row(*one) for one in ROWS])
    matplotlib.image.imsave(PLACE, whole.repeat(ZOOM, axis=0).repeat(ZOOM, axis=1))


if __name__ == "__main__":
    main()
