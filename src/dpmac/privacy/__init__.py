"""The privacy core: everything that turns private rows into public numbers, and releases into an epsilon.

Read :mod:`~dpmac.privacy.reference` first, then follow a row through the files: ``private_rows``, ``sampling``,
``query``, ``parts``, ``gaussian_release``, ``noise``, ``entry``, ``ledger``, ``accounting`` and ``statement``.
docs/proof.md walks through them.
"""

from dpmac.kernels.built import BuiltPart
from dpmac.kernels.dense import DensePart
from dpmac.kernels.gram import GramPart
from dpmac.kernels.outer import OuterPart
from dpmac.kernels.positions import PositionPart
from dpmac.kernels.tokens import TokenPart
from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.entry import Entry
from dpmac.privacy.gaussian_release import BrokenPromiseError, release
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import Part
from dpmac.privacy.private_rows import PrivateRows
from dpmac.privacy.query import Answer, Query
from dpmac.privacy.sampling import Batch, PoissonSampler
from dpmac.privacy.statement import Statement

# isort: split
# what builds on the core comes after it
from dpmac.bounds.adaptive import AdaptiveQuantile
from dpmac.bounds.allocation import EqualShares, LeastEnergy
from dpmac.bounds.clipping import Analytic, Bound, JointClip, Normalise, PerLayerClip, Unbounded
from dpmac.bounds.registry import BOUNDS
from dpmac.extensions.ledgers import Ledger
from dpmac.extensions.persons import Persons
from dpmac.extensions.provenance import Origin, check_origin, origin_of
from dpmac.planning.plan import Plan

__all__ = [
    "BOUNDS",
    "AdaptiveQuantile",
    "Analytic",
    "Answer",
    "Batch",
    "Bound",
    "BrokenPromiseError",
    "BuiltPart",
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
    "TokenPart",
    "Unbounded",
    "check_origin",
    "epsilon_of",
    "origin_of",
    "release",
]
