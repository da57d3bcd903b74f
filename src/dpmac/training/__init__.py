"""Training: the trainer, the run it returns, and the paper's Algorithm 2."""

from dpmac.training.distributed import together
from dpmac.training.learned import costs_before, fit_with_learned_thresholds
from dpmac.training.run import Record, Run
from dpmac.training.step import Step
from dpmac.training.trainer import Trainer

__all__ = ["Record", "Run", "Step", "Trainer", "costs_before", "fit_with_learned_thresholds", "together"]
