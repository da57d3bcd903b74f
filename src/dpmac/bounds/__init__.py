"""Bounds: how every row's share is made short enough. None of this has to be trusted.

A bound scales shares and names the scales of a release. The release measures what comes out and refuses shares that are
too long (:mod:`dpmac.privacy.door`), so a wrong bound stops a training and leaks nothing.
"""

import dpmac.privacy  # noqa: F401 - the argument first: it re-exports what is here

# isort: split
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
"""Every bound under a name, with its usual arguments. A new one is a file and a line here."""
