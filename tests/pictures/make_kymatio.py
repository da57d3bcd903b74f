"""Write kymatio.json, numbers of Kymatio 0.3.0: ``python tests/pictures/make_kymatio.py`` where it is installed.

Kymatio is no dependency: it asks for a function that SciPy no longer has, and needs it for three dimensions only.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy.special
import torch

SIDES = (8, 28, 30)


def squares(side: int) -> torch.Tensor:
    """Two pictures of noise with ranges of their own."""
    draw = np.random.Generator(np.random.Philox(key=side))
    return torch.from_numpy(draw.random((2, side, side))) * torch.tensor([1.0, 0.3])[:, None, None]


def main() -> None:
    scipy.special.sph_harm = getattr(scipy.special, "sph_harm", None)
    from kymatio.torch import Scattering2D

    found = {}
    for side in SIDES:
        numbers = Scattering2D(J=2, L=8, shape=(side, side))(squares(side).float())
        kept = numbers if side == SIDES[0] else numbers[:, :, -1, 1]
        found[str(side)] = [round(float(one), 7) for one in kept.flatten()]
    Path(__file__).with_name("kymatio.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
