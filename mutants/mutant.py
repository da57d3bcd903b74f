"""What a mutant is: a file of the package, a piece of its text, what a bug would have there, and who should notice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src", "dpmac")


class StaleError(ValueError):
    """A mutant that does not fit the code any more: what it replaces is not there, or there more than once."""


@dataclass(frozen=True)
class Mutant:
    """A bug of one to three lines. ``old`` must stand in ``file`` (under src/dpmac) exactly once; ``new`` comes there.

    ``also`` are further such pairs, for a line that moves.
    ``tests`` should kill it; ``further`` are asked only if none of those does. ``audit`` has words of the audit's cases
    (``dpmac audit --only``) that must find it as well, without any test. ``bug`` says what it does, and ``why`` how
    anyone could come to write it.
    """

    name: str
    bug: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    further: tuple[str, ...] = ()
    audit: str = ""
    also: tuple[tuple[str, str], ...] = ()

    def path(self, root: Path = ROOT) -> Path:
        return root / PACKAGE / self.file

    def applied(self, root: Path = ROOT) -> str:
        """The file's text with the bug in it; raises :class:`StaleError` where that cannot be done."""
        if not self.path(root).is_file():
            raise StaleError(f"{self.name}: there is no {PACKAGE / self.file}")
        text = self.path(root).read_text(encoding="utf-8")
        for old, new in ((self.old, self.new), *self.also):
            if text.count(old) != 1:
                raise StaleError(f"{self.name}: {old!r} is {text.count(old)} times in {PACKAGE / self.file}")
            text = text.replace(old, new)
        return text

    def asked(self) -> tuple[str, ...]:
        """All tests that may be asked, in order."""
        return (*self.tests, *self.further)

    def digest(self, root: Path = ROOT) -> str:
        """Of the mutant and of all files that decide what becomes of it: the one it changes, its tests, their help."""
        found = hashlib.sha256(repr(self).encode())
        for path in [self.path(root), *sorted(_files_of(self.asked(), root))]:
            found.update(path.read_bytes() if path.is_file() else b"gone")
        return found.hexdigest()


def _files_of(tests: tuple[str, ...], root: Path) -> set[Path]:
    """The files of tests, and those beside and above them that they may import."""
    files = {root / test.partition("::")[0] for test in tests}
    homes = {root / "tests", *(file.parent for file in files)}
    return files | {help_ for home in homes for help_ in home.glob("*.py") if not help_.name.startswith("test_")}
