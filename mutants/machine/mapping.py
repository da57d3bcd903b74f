"""Making the map: the default suite runs once, traced; later only the test files that have changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from mutants.machine.asking import QUIET
from mutants.machine.coverage import Coverage
from mutants.machine.environment import environment
from mutants.machine.tracing import NOBODY
from mutants.mutant import ROOT

MAP = Path("map.json.gz")
Seen = dict[str, dict[str, set[int]]]


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
    seen, seconds = _read(folder)
    coverage.add(seen, seconds)
    coverage.digests.update({file: digests[file] for file in files})


def _read(folder: Path) -> tuple[Seen, dict[str, float]]:
    """The lines that each test has executed ("" for imports), and how long it took."""
    tests: dict[tuple[str, int], dict[str, object]] = {}
    for table in sorted(folder.glob("table-*.jsonl")):
        for raw in table.read_text(encoding="utf-8").splitlines():
            line = json.loads(raw)
            tests[line["worker"], line["number"]] = line
    by_number: defaultdict[tuple[str, int], defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(folder.glob("lines-*.txt")):
        for raw in path.read_text(encoding="utf-8").splitlines():
            worker, number, file, at = raw.split()
            by_number[worker, int(number)][file].add(int(at))
    seen: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    fixtures: defaultdict[str, list[tuple[str, dict[str, set[int]]]]] = defaultdict(list)
    for key, known in tests.items():
        if "fixture" in known:
            fixtures[str(known["fixture"])].append((str(known["below"]), by_number[key]))
    for key, known in tests.items():
        if "test" not in known or not known["passed"]:
            continue
        test, names = str(known["test"]), known["fixtures"]
        assert isinstance(names, list)
        seconds[test] = float(str(known["seconds"]))
        shared = [lines for name in names for below, lines in fixtures[name] if test.startswith(below)]
        for files in (by_number[key], *shared):
            for file, lines in files.items():
                seen[test][file] |= lines
    for (_, current), files in by_number.items():
        if current == NOBODY:
            for file, lines in files.items():
                seen[""][file] |= lines
    return {test: dict(files) for test, files in seen.items()}, seconds
