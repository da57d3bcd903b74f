"""The privacy core. To trust the package, read ``door``, ``bounds``, ``parts`` and ``accounting``; docs/guarantee.md
walks through them."""

from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.adaptive import AdaptiveQuantile
from dpmac.privacy.allocation import EqualShares, LeastEnergy
from dpmac.privacy.bounds import Analytic, Bound, JointClip, Normalise, PerLayerClip, Unbounded
from dpmac.privacy.door import BrokenPromiseError, release
from dpmac.privacy.groups import Persons
from dpmac.privacy.ledger import Entry, Ledger
from dpmac.privacy.origin import Origin, check_origin, origin_of
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import DensePart, GramPart, OuterPart, Part
from dpmac.privacy.plan import Plan
from dpmac.privacy.positions import PositionPart
from dpmac.privacy.private_rows import PrivateRows
from dpmac.privacy.query import Answer, Query
from dpmac.privacy.sampling import Batch, PoissonSampler
from dpmac.privacy.statement import Statement

BOUNDS: dict[str, Bound] = {
    "normalise": Normalise(),
    "clip": PerLayerClip(1.0),
    "joint": JointClip(1.0),
    "adaptive": AdaptiveQuantile(),
    "analytic": Analytic(),
    "none": Unbounded(),
}
"""Every bound under a name, with its usual arguments. A new one is a file and a line here."""

__all__ = [
    "BOUNDS",
    "AdaptiveQuantile",
    "Analytic",
    "Answer",
    "Batch",
    "Bound",
    "BrokenPromiseError",
    "DensePart",
    "Entry",
    "EqualShares",
    "GramPart",
    "JointClip",
    "LeastEnergy",
    "Ledger",
    "Mechanism",
    "Normalise",
    "Origin",
    "OuterPart",
    "Part",
    "Partition",
    "PerLayerClip",
    "Persons",
    "Plan",
    "PoissonSampler",
    "PositionPart",
    "PrivateRows",
    "Query",
    "Statement",
    "Unbounded",
    "check_origin",
    "epsilon_of",
    "origin_of",
    "release",
]
