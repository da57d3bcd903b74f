"""The guarantee's list of files to read: all that count, no other, and as long as it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"planning/search.py"}  # named below the table, with why


def listed() -> list[tuple[list[str], int]]:
    page = (ROOT / "docs" / "guarantee.md").read_text()
    section = page.split("## Read these files to trust it")[1].split("\n## ")[0]
    rows = [line.split("|")[2:4] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    return [(re.findall(r"`([a-z_/]+\.py)`", files), int(lines)) for files, lines in rows]


def test_the_list_has_every_file_of_both_rooms():
    rooms = [path for room in ("privacy", "randomness") for path in (ROOT / "src/dpmac" / room).glob("*.py")]
    there = {f"{path.parent.name}/{path.name}" for path in rooms if path.name != "__init__.py"}
    named = [file for files, _ in listed() for file in files]
    assert len(named) == len(set(named))
    assert set(named) == there - LEFT_OUT


def test_the_lines_are_those_of_the_files():
    for files, lines in listed():
        counted = sum(len((ROOT / "src/dpmac" / file).read_text().splitlines()) for file in files)
        assert abs(lines - counted) <= 0.1 * counted, (files, lines, counted)
