"""Public datasets to try the package on: ``dpmac.data.load("mnist")``. Nothing is downloaded unless asked."""

from __future__ import annotations

from dpmac.data.catalogue import CATALOGUE, DataError
from dpmac.data.fetching import fetch, find
from dpmac.data.loading import Dataset, load

__all__ = ["CATALOGUE", "DataError", "Dataset", "fetch", "find", "load"]
