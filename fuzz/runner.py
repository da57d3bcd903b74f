"""Runs cases one after another, shows how far it is, and writes every bug to a file of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.cases import Case
from fuzz.oracle import Outcome, judged
from fuzz.surfaces import SURFACES


@dataclass
class Tally:
    """How many cases ended how, by surface; and the numbers of those that found a bug."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    bugs: list[int] = field(default_factory=list)

    def add(self, surface: str, number: int, outcome: Outcome, seconds: float) -> None:
        self.ends[surface, outcome.kind] += 1
        self.seconds[surface] += seconds  # type: ignore[assignment]
        if outcome.kind == "bug":
            self.bugs.append(number)

    def lines(self) -> list[str]:
        """A table in plain text."""
        kinds = ("done", "refused", "bug")
        rows = [f"{'':10}" + "".join(f"{kind:>9}" for kind in kinds) + f"{'seconds':>9}"]
        for surface in SURFACES:
            ends = "".join(f"{self.ends[surface, kind]:>9,}" for kind in kinds)
            rows.append(f"{surface:10}{ends}{self.seconds[surface]:>9.1f}")
        return rows


def surface_of(seed: int, number: int) -> str:
    """Which surface a case is of: in turn, so that any stretch of cases has its share of each."""
    names = [name for name, (_, share) in SURFACES.items() for _ in range(share)]
    return names[(number * 37 + seed) % len(names)]  # 37 and 100 have no common factor


def run_case(seed: int, number: int, surface: str | None = None) -> tuple[Case, Outcome]:
    """One case, in a folder that goes afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="dpmac-case-"))
    case = Case(number, seed, folder / "in")
    case.folder.mkdir()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action = SURFACES[surface or surface_of(seed, number)][0](case)
            return case, judged(case, action)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def written(out: Path, surface: str, case: Case, outcome: Outcome) -> Path:
    """The file that tells of a bug."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{case.seed}-{case.number}.txt"
    again = f"python -m fuzz --seed {case.seed} --case {case.number}"
    text = "\n".join([f"{again}   ({surface})", *case.said, "", outcome.said, "", outcome.trace])
    path.write_text(text, "utf-8", "backslashreplace")
    return path


def run(seed: int, first: int, cases: int, out: Path, *, surface: str | None = None, quiet: bool = False) -> Tally:
    """All cases from ``first`` on. The number of the next one is kept, so that a run that was stopped goes on."""
    tally, kept = Tally(), out / f"{seed}.json"
    shown = time.monotonic()
    for number in range(first, cases):
        name = surface or surface_of(seed, number)
        start = time.process_time()
        case, outcome = run_case(seed, number, name)
        tally.add(name, number, outcome, time.process_time() - start)
        if outcome.kind == "bug":
            print(f"\ncase {number} ({name}): {outcome.said}\n  {written(out, name, case, outcome)}", flush=True)
        if not quiet and time.monotonic() - shown > 1.0:
            shown = time.monotonic()
            part = (number + 1) / cases
            bar = "#" * round(30 * part)
            print(f"\r[{bar:30}] {number + 1:,} of {cases:,}, {len(tally.bugs)} bugs", end="", flush=True)
            out.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"next": number + 1}))
    if first < cases and kept.exists():
        kept.unlink()
    return tally
