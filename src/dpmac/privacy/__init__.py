"""The privacy core. To trust the package, read ``release``, ``bound`` and ``accounting`` here, and nothing else."""

from dpmac.privacy.accounting import Mechanism, epsilon_of
from dpmac.privacy.bound import (
    Analytic,
    Block,
    Bound,
    EqualShares,
    JointClip,
    LeastEnergy,
    Normalise,
    Partition,
    PerLayerClip,
    Unbounded,
)
from dpmac.privacy.ledger import Entry, Ledger
from dpmac.privacy.noise import NoiseSource, SeededNoise, SystemNoise, noise_source
from dpmac.privacy.parts import DensePart, GramPart, OuterPart, Part
from dpmac.privacy.plan import Plan
from dpmac.privacy.release import BrokenPromiseError, release
from dpmac.privacy.sampling import Batch, PoissonSampler, PrivateRows
from dpmac.privacy.statement import Statement
from dpmac.privacy.thresholds import AdaptiveQuantile, NormHistogram

__all__ = [
    "AdaptiveQuantile",
    "Analytic",
    "Batch",
    "Block",
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
    "NoiseSource",
    "NormHistogram",
    "Normalise",
    "OuterPart",
    "Part",
    "Partition",
    "PerLayerClip",
    "Plan",
    "PoissonSampler",
    "PrivateRows",
    "SeededNoise",
    "Statement",
    "SystemNoise",
    "Unbounded",
    "epsilon_of",
    "noise_source",
    "release",
]
