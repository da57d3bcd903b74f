"""Other private methods, in the same engine and through the same door."""

from dpmac.baselines.dpsgd import Gradients, dp_sgd

__all__ = ["Gradients", "dp_sgd"]
