"""All bounds by name."""

from __future__ import annotations

from dpmac.bounds.adaptive import AdaptiveQuantile
from dpmac.bounds.clipping import Analytic, Bound, JointClip, Normalise, PerLayerClip, Unbounded

BOUNDS: dict[str, Bound] = {
    "normalise": Normalise(),
    "clip": PerLayerClip(1.0),
    "joint": JointClip(1.0),
    "adaptive": AdaptiveQuantile(),
    "analytic": Analytic(),
    "none": Unbounded(),
}
"""All bounds by name, with default arguments. A new bound is a file and a line here."""
