"""Words that readers stumbled over do not come back: CONTRIBUTING has what to write in their place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACES = (
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "mutants" / "bugs").glob("*.py"),
)
TEXTS = {
    path: path.read_text(encoding="utf-8") for path in PLACES if path.name not in ("CONTRIBUTING.md", "CHANGELOG.md")
}


def listed() -> dict[str, str]:
    """The table "Words to avoid": each word, and what to write."""
    table = CONTRIBUTING.split("### Words to avoid")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, flags=re.MULTILINE)
    return {word: better for word, better in rows if word not in ("avoid", "---")}


@pytest.mark.parametrize("word", listed())
def test_a_word_to_avoid_is_nowhere(word):
    wanted = re.compile(rf"\b{re.escape(word)}\b", flags=re.IGNORECASE)
    found = {str(path.relative_to(ROOT)): wanted.search(" ".join(text.split())) for path, text in TEXTS.items()}
    assert not [path for path, match in found.items() if match], listed()[word]


def test_the_list_is_found():
    assert len(listed()) >= 12
    assert "docs/guarantee.md" in {str(path.relative_to(ROOT)) for path in TEXTS}
