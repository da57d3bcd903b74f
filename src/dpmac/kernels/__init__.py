"""Kernels: the code that does the arithmetic of a release and of its account.

The privacy core (:mod:`dpmac.privacy`) decides what is released and what is charged. It is short because it relies on
five properties of the code here, which must be trusted as much as the core itself. Each file states at its top which of
them it must have, and why it has them. Tests check them: K1 and K2 against shares that are built one by one, K3 by an
extreme change to one row, K4 against exact probabilities, K5 against dp-accounting and exact curves.

- **K1** A norm is below the true norm by at most a relative (d + 32) u, where d numbers are measured and u = 2**-53.
  (That is below 2e-7 for up to 10^9 numbers; ``parts.KEPT`` sets 9e-6 aside. Norms in single precision are rounded up.)
- **K2** The error of a sum is at most the margin that is set aside for rounding.
- **K3** The numbers at one spot do not depend on values at other spots.
- **K4** Random draws have the stated distribution, if the cipher's words are independent and uniform: noise and gaps
  exactly, and a place is sampled with a probability that is off by less than 2**-69.
- **K5** The accounted cost is not below the true cost, as dp-accounting's pessimistic rounding has it, up to the
  rounding of doubles (measured, not proved; ``accounting.ROUNDOFF`` is set aside for it).

Kernels import each other, and nothing from the privacy core.
"""
