"""Bounds: how every row's share is made short enough. None of this has to be trusted.

A bound scales shares and names the scales of a release. The release measures what comes out and refuses shares that are
too long (:mod:`dpmac.privacy.gaussian_release`), so a wrong bound stops a training and leaks nothing.
"""

import dpmac.privacy  # noqa: F401 - the argument first: it re-exports what is here
