"""Priors: what a model can know before it sees anybody, drawn by public programs.

A prior draws rows; :func:`whitened` makes a feature map of a feature map and a prior, and
:class:`DrawnStart` is a start for an autoencoder. Nothing here touches a private row, so nothing of it costs privacy;
the statement names the prior.
"""

from dpmac.priors.base import Prior
from dpmac.priors.drawings import PicturePrior
from dpmac.priors.pretraining import DrawnStart, Pretraining
from dpmac.priors.public_rows import PublicRows
from dpmac.priors.ranges import RangePrior
from dpmac.priors.schema import SchemaPrior
from dpmac.priors.whitened_pictures import picture_features
from dpmac.priors.whitening import WhiteningOptions, whitened
from dpmac.priors.words import WordsPrior

PRIORS: dict[str, type[Prior]] = {
    kind.kind: kind for kind in (SchemaPrior, RangePrior, WordsPrior, PicturePrior, PublicRows)
}
"""Every kind of prior under its name. A new one is a file and a line here."""

__all__ = [
    "PRIORS",
    "DrawnStart",
    "PicturePrior",
    "Pretraining",
    "Prior",
    "PublicRows",
    "RangePrior",
    "SchemaPrior",
    "WhiteningOptions",
    "WordsPrior",
    "picture_features",
    "whitened",
]
