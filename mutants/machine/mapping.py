"""Making the map: the default suite runs once, traced; later only the test files that have changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from mutants.machine.asking import QUIET
from mutants.machine.coverage import Coverage
from mutants.machine.environment import environment
from mutants.machine.traced import Traced
from mutants.mutant import ROOT

MAP = Path("map.json.gz")


def test_files() -> dict[str, str]:
    """Every file of tests, with a digest of its text."""
    paths = sorted([*(ROOT / "tests").rglob("test_*.py"), ROOT / "tests" / "contracts.py"])
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths}


def changed(coverage: Coverage) -> list[str]:
    """The test files that the map does not know as they are."""
    return [file for file, digest in test_files().items() if coverage.digests.get(file) != digest]


def update(out: Path, jobs: int) -> Coverage:
    """The map as it is on the disk, with the tests traced that are new or have changed."""
    coverage = Coverage.load(out / MAP)
    files = changed(coverage)
    if files:
        trace(files, out / "trace", jobs)
        take_in(coverage, files, out / "trace")
        coverage.save(out / MAP)
        shutil.rmtree(out / "trace")  # large
    return coverage


def trace(files: list[str], folder: Path, jobs: int) -> None:
    """Run the tests of these files, and leave what each executes in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workers = ["-n", str(jobs)] if jobs > 1 else []
    plugin = ["-p", "mutants.machine.tracing_plugin"]
    command = [sys.executable, "-m", "pytest", *QUIET, *plugin, *workers, *files]
    subprocess.run(command, cwd=ROOT, env=environment(MUTATE_TRACE=str(folder)), check=False)


def take_in(coverage: Coverage, files: list[str], folder: Path) -> None:
    """Add what was traced; tests that failed, with nothing changed, are of no use."""
    digests = test_files()
    coverage.without([*files, *(set(coverage.digests) - set(digests))])
    traced = Traced.read(folder)
    coverage.add(traced.lines(), traced.seconds(), traced.needs())
    coverage.setups.update(traced.setups())
    coverage.digests.update({file: digests[file] for file in files})
