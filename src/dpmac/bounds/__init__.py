"""Bounds: how the norm of every row's share is limited. None of this has to be trusted.

A bound scales shares and defines the scales of a release. The release measures the result and rejects shares that are
too long (:mod:`dpmac.privacy.gaussian_release`), so a wrong bound stops a training and leaks nothing.
"""

import dpmac.privacy  # noqa: F401 - the privacy core first: it re-exports these names
