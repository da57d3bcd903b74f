"""What is tried: a module for each, whose ``prepare(case)`` gives something to run. To add one: a file and a line."""

from __future__ import annotations

from fuzz.cases import Prepare
from fuzz.surfaces import (
    arrays,
    commands,
    csv_files,
    folders,
    frames,
    jobs,
    ledgers,
    parquet_files,
    schemas,
    tensors,
    words,
)

SURFACES: dict[str, tuple[Prepare, int]] = {  # and how many of a hundred cases are of it
    "arrays": (arrays.prepare, 14),
    "frames": (frames.prepare, 14),
    "schemas": (schemas.prepare, 11),
    "csv": (csv_files.prepare, 13),
    "parquet": (parquet_files.prepare, 4),
    "folders": (folders.prepare, 12),
    "ledgers": (ledgers.prepare, 8),
    "tensors": (tensors.prepare, 7),
    "commands": (commands.prepare, 8),
    "jobs": (jobs.prepare, 5),
    "words": (words.prepare, 4),
}
