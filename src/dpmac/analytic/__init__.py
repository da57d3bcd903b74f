"""The paper's analytic route: certified sups, proven sensitivities, and the expansion that uses them."""

from dpmac.analytic.projected import Projected
from dpmac.analytic.proofs import layer_sensitivity
from dpmac.analytic.sensitivity import Sensitivity
from dpmac.mac.expansions import Expansion

EXPANSIONS: dict[str, Expansion] = {
    "projected": Projected(1.0),
    "projected-with-constant": Projected(1.0, constant=True),
}
"""The expansions of this package by name, for the contract tests."""

__all__ = ["EXPANSIONS", "Projected", "Sensitivity", "layer_sensitivity"]
