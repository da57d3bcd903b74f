"""docs/trust.md: the list of files to read: all that count, no other, and as long as it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"randomness/seeded.py"}  # named below the tables: a seeded run is not private


def listed() -> list[tuple[list[str], int]]:
    page = (ROOT / "docs" / "trust.md").read_text()
    section = page.split("## Read these files to trust it")[1].split("\n## ")[0]
    rows = [line.split("|")[2:4] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    return [(re.findall(r"`([a-z_/]+\.py)`", files), int(lines)) for files, lines in rows]


def test_the_list_has_every_file_of_the_argument_its_kernels_and_extensions():
    packages = ("privacy", "randomness", "kernels", "extensions")
    paths = [path for package in packages for path in (ROOT / "src/dpmac" / package).glob("*.py")]
    there = {f"{path.parent.name}/{path.name}" for path in paths if path.name != "__init__.py"}
    named = [file for files, _ in listed() for file in files]
    assert len(named) == len(set(named))
    assert set(named) == there - ELSEWHERE


def test_the_lines_are_those_of_the_files():
    for files, lines in listed():
        counted = sum(len((ROOT / "src/dpmac" / file).read_text().splitlines()) for file in files)
        assert abs(lines - counted) <= 0.1 * counted, (files, lines, counted)
