"""A table that is larger than the memory a process may have, with a limit that the system keeps."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

ROWS, COLUMNS, FILES = 1_000_000, 30, 4
ROOM = 215 * 2**20  # bytes that a child may take beside what it has when all is imported; the table takes 232 MB

CHILD = """
import resource, sys, warnings
from pathlib import Path
import torch
from dpmac import DPMACRegressor
from dpmac.tables import Files, Number, Schema
torch.set_num_threads(1)
folder, memory, scratch = sys.argv[1], int(sys.argv[2]), sys.argv[3]
columns = {f"c{k}": Number(-3, 3) for k in range(%d)}
model = DPMACRegressor((4,), schema=Schema(columns, target="c0"), epsilon=1, batch_size=500, epochs=0.001)  # steps: 3
few = {name: [0.5] * 500 for name in columns}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    model.fit(few)  # whatever is loaded at first is there
    Files(folder).part(0, 1000)["c0"]
    taken = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    limit = int(taken.split()[1]) * 1024 + %d
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    model.fit(Files(folder, memory=memory, scratch=None if scratch == "none" else scratch))
print("fitted", model.plan_.n)
"""


@pytest.fixture
def disk():
    """A folder on the disk, not ``tmp_path``: that may lie in memory."""
    with tempfile.TemporaryDirectory(prefix="dpmac-large-") as folder:
        yield Path(folder)


@pytest.fixture
def folder(disk):
    where = disk / "table"
    where.mkdir()
    draw = np.random.RandomState(0)
    for part in range(FILES):
        columns = {f"c{k}": draw.normal(size=ROWS // FILES).astype(np.float32) for k in range(COLUMNS)}
        parquet.write_table(pa.table(columns), where / f"{part}.parquet", row_group_size=32768, use_dictionary=False)
    return where


def child(folder, memory, scratch):
    words = [sys.executable, "-c", CHILD % (COLUMNS, ROOM), folder, memory, scratch]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    alone["MALLOC_MMAP_THRESHOLD_"] = str(2**20)  # what is freed goes back: the limit is on what is in use
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900, check=False, env=alone)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_table_larger_than_memory_is_fitted_within_it(folder, disk):
    in_memory = child(folder, 2**40, disk)
    assert in_memory.returncode != 0  # else the limit is none
    assert "memory" in in_memory.stderr.lower()
    on_disk = child(folder, 2**24, disk)
    assert on_disk.stdout == f"fitted {ROWS}\n", on_disk.stderr
    in_parquet = child(folder, 2**25, "none")
    assert in_parquet.stdout == f"fitted {ROWS}\n", in_parquet.stderr
