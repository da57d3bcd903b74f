"""Kernels: what makes a release fast. None of them decides anything about privacy.

The argument (:mod:`dpmac.privacy`) is short because it asks five things of the code that does its arithmetic. Each file
here says at its top which of them it owes, and tests hold it to them, against :mod:`dpmac.privacy.reference` where
there is something to compare (K5 is held against dp-accounting):

- **K1** A norm is never below the true norm.
- **K2** A sum is off by no more than what is set aside for rounding.
- **K3** The numbers at one spot do not depend on values at other spots.
- **K4** Draws have exactly the stated law.
- **K5** An account is never below the true cost.

Kernels import each other and nothing of the argument.
"""
