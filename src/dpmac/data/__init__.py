"""Public datasets to try the package on: ``dpmac.data.load("mnist")``. Nothing is downloaded unless asked.

The functions :func:`load` and :func:`fetch` stand here under the names of the modules that hold them.
"""

from __future__ import annotations

from dpmac.data.catalogue import CATALOGUE, DataError
from dpmac.data.fetch import fetch, find
from dpmac.data.load import Dataset, load

__all__ = ["CATALOGUE", "DataError", "Dataset", "fetch", "find", "load"]
