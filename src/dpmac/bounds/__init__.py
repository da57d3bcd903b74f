"""Bounds: how the norm of every row's share is limited.

A bound scales shares and defines the scales of a release. It is not trusted with lengths: the release measures the
result and refuses shares that are too long (:mod:`dpmac.privacy.gaussian_release`). It is trusted, like all code that
runs inside a query, to decide by each row alone, to use public scales, and to hold for every possible row, because a
refusal can be seen (docs/proof.md, "What a query and its caller owe").
"""

import dpmac.privacy  # noqa: F401 - the privacy core first: it re-exports these names
