"""Public datasets to try the package on: ``dpmac.data.load("mnist")``, ``dpmac.data.load_table("adult")``.

Nothing is downloaded unless asked.
"""

from __future__ import annotations

from dpmac.data.catalogue import CATALOGUE, DataError
from dpmac.data.fetching import fetch, find
from dpmac.data.loading import Dataset, load
from dpmac.data.people import TableOfPeople, load_table

__all__ = ["CATALOGUE", "DataError", "Dataset", "TableOfPeople", "fetch", "find", "load", "load_table"]
