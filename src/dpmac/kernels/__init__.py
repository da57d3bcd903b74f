"""Kernels: the code that makes a release fast. None of it decides anything about privacy.

The privacy core (:mod:`dpmac.privacy`) is short because it relies on five properties of the code that does its
arithmetic. Each file here states at its top which of them it must have. Tests check them against
:mod:`dpmac.privacy.reference`, and K5 against dp-accounting:

- **K1** A norm is never below the true norm.
- **K2** The error of a sum is at most the margin that is set aside for rounding.
- **K3** The numbers at one spot do not depend on values at other spots.
- **K4** Random draws have exactly the stated distribution.
- **K5** The accounted cost is never below the true cost.

Kernels import each other, and nothing from the privacy core.
"""
