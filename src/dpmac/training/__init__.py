"""Training: the trainer and the run it returns."""

from dpmac.training.run import Record, Run
from dpmac.training.trainer import Trainer

__all__ = ["Record", "Run", "Trainer"]
