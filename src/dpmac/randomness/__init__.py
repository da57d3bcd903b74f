"""Where every random number of the package comes from.

Two sources stand behind one small protocol. :class:`SystemNoise` makes uniforms and Gaussians out of a cipher that the
operating system keys; nobody can guess or replay it. :class:`SeededNoise` is a fast, replayable generator for research;
a run that uses it is *not* private against someone who knows (or can guess) the seed, and the ledger and the statement
say so. The sampler, the release and the weights' initial values all draw here and nowhere else.

    operating system -> key -> cipher (streams, chacha) -> random words -> law (gaussian) -> source (sources)

What a release adds has exactly the law of a rounded Gaussian (rounded, exact): no floating point is left in it.
"""

from __future__ import annotations

from dpmac.randomness.seeded import SeededNoise, noise_source, torch_draws_from
from dpmac.randomness.sources import NoiseSource, SystemNoise, shuffled

__all__ = ["NoiseSource", "SeededNoise", "SystemNoise", "noise_source", "shuffled", "torch_draws_from"]
