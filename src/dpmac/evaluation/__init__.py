"""Private scores: what a finished model scores on private rows, by one release, with intervals for all of it."""

from dpmac.evaluation.evaluating import evaluate
from dpmac.evaluation.intervals import Figure
from dpmac.evaluation.result import Evaluation
from dpmac.evaluation.single import private_score

__all__ = ["Evaluation", "Figure", "evaluate", "private_score"]
