"""Kernels: the code that does the arithmetic of a release and of its account.

The privacy core (:mod:`dpmac.privacy`) decides what is released and what is recorded. It is short because it relies on
five properties of the code here, which must be trusted as much as the core itself. Each file states at its top which of
them it must have, and why it has them. Tests check them: K1 and K2 against shares that are built one by one, K3 by an
extreme change to one row, K4 against exact probabilities, K5 against dp-accounting and exact curves.

- **K1** A computed norm is at least (1 - (d + 32) u) times the true one, for d numbers and u = 2**-53. (It lacks less
  than 2e-7 for up to 10^9 numbers; ``parts.KEPT`` sets 9e-6 aside. Norms in single precision are rounded up.)
- **K2** The sum of a block of m rows is off by at most m (m + 2) u scales in double precision, or, for two neighbours
  together, by the 0.9 % of ``chunks.SINGLE_MARGIN``, by which norms are increased, in single precision.
- **K3** The numbers at one spot do not depend on values at other spots.
- **K4** Random draws have exactly the stated distribution, if the cipher's words are independent and uniform: the
  noise, and which places are sampled.
- **K5** The computed epsilon is not below the true one, because dp-accounting rounds pessimistically. This excepts the
  rounding of doubles, for which ``accounting.ROUNDOFF`` of delta is set aside per release (measured, not proved).

Kernels import each other, and nothing from the privacy core.
"""
