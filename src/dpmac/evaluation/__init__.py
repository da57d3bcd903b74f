"""Private scores: what a finished model scores on private rows, by one release, with intervals for all of it."""

from dpmac.evaluation.evaluating import evaluate
from dpmac.evaluation.intervals import Figure
from dpmac.evaluation.result import Evaluation
from dpmac.evaluation.single import private_score
from dpmac.evaluation.splitting import Split, split

__all__ = ["Evaluation", "Figure", "Split", "evaluate", "private_score", "split"]
