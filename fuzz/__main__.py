"""``python -m fuzz``: many cases, or one again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fuzz.runner import run, run_case, surface_of
from fuzz.surfaces import SURFACES


def main() -> int:
    """0 if every case succeeded or was refused as it should be, 1 if a bug was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases in all (10000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases")
    parser.add_argument("--first", type=int, help="the first case; left out: where a stopped run of this seed was")
    parser.add_argument("--case", type=int, help="this case alone, with all there is to say of it")
    parser.add_argument("--surface", choices=sorted(SURFACES), help="cases of this kind only")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="the folder for bugs (runs/fuzz)")
    given = parser.parse_args()
    if given.case is not None:
        return _one(given.seed, given.case, given.surface)
    first = given.first
    kept = given.out / f"{given.seed}.json"
    if first is None:
        first = json.loads(kept.read_text())["next"] if kept.exists() and given.surface is None else 0
    print(f"cases {first:,} to {given.cases - 1:,} of seed {given.seed}")
    tally = run(given.seed, first, given.cases, given.out, surface=given.surface, quiet=not sys.stdout.isatty())
    print("\n" + "\n".join(tally.lines()))
    if tally.bugs:
        print(f"{len(tally.bugs)} bugs, in {given.out}: cases {', '.join(map(str, tally.bugs[:50]))}")
    return 1 if tally.bugs else 0


def _one(seed: int, number: int, surface: str | None) -> int:
    case, outcome = run_case(seed, number, surface)
    print(f"case {number} of seed {seed}: {surface or surface_of(seed, number)}", *case.said, sep="\n  ")
    print(outcome.kind, outcome.said, outcome.trace, sep="\n")
    return 1 if outcome.kind == "bug" else 0


if __name__ == "__main__":
    sys.exit(main())
