"""``python -m mutants.machine``: plan, map, run and show. A run that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console

from mutants.machine import mapping, showing
from mutants.machine.baseline import Baseline
from mutants.machine.coverage import Coverage
from mutants.machine.earlier import unchanged_since
from mutants.machine.mutation import Mutation, mutations, read
from mutants.machine.running import Budgets, Judge, servers
from mutants.machine.scoring import Score, explanations, score
from mutants.machine.targets import chosen, group_of
from mutants.machine.verdicts import Verdict, Verdicts
from mutants.mutant import ROOT


def main() -> int:
    """Read the arguments and do what they say."""
    given = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 120)
    if given.command == "map":
        known = mapping.update(given.out, given.jobs)
        console.print(f"{len(known.seconds)} tests are mapped", highlight=False)
        return 0
    made = {file: list(mutations(read(file))) for file in chosen(given.files)}
    if given.command == "plan":
        group = group_of()
        for file, all_of in made.items():
            console.print(f"{len(all_of):5}  {group[file]:12}  {file}", highlight=False)
        console.print(f"{sum(map(len, made.values())):5}  in all", highlight=False)
        return 0
    verdicts = Verdicts(given.out / "verdicts.jsonl")
    coverage = Coverage.load(given.out / mapping.MAP)
    earlier = unchanged_since(given.asked) if given.asked else (lambda _: False)
    if given.command == "run":
        if not given.no_map:
            coverage = mapping.update(given.out, given.jobs)
        new = [mutation for all_of in made.values() for mutation in all_of if not earlier(mutation)]
        run(new, coverage, verdicts, given, console)
    scores = {
        file: score(((mutation, verdicts.of(mutation, coverage.of(mutation))) for mutation in all_of), earlier)
        for file, all_of in made.items()
    }
    showing.show(scores, console, quiet=given.command == "run")
    if given.markdown is not None:
        showing.write_page(scores, given.markdown, given.asked)
    total = sum(scores.values(), Score())
    return 1 if total.survivors or total.open else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants.machine", description=__doc__)
    add = parser.add_argument
    add("command", choices=("plan", "map", "run", "show"), help="count mutants, map lines to tests, run, or show")
    add("--files", nargs="+", metavar="GLOB", help="files under src/dpmac (privacy/*.py), or groups (ledger)")
    add("--jobs", type=int, default=os.cpu_count() or 2, help="how many at a time (as many as there are cores)")
    add("--limit-seconds", type=float, metavar="S", help="begin no further mutant after so long")
    add("--only", nargs="+", metavar="ID", help="these mutants, by the short names that `show` prints; asked anew")
    add("--survivors", action="store_true", help="ask those anew that have survived so far, explained ones too")
    add("--seconds", type=float, default=15.0, help="how long the tests of one mutant may take together (15)")
    add("--no-map", action="store_true", help="use the map as it is, though tests have changed")
    add("--out", type=Path, default=ROOT / "runs" / "mutate", help="where the map and the verdicts are kept")
    add("--asked", metavar="COMMIT", help="all were asked there: functions unchanged since are not asked about again")
    add("--markdown", type=Path, metavar="FILE", help="write the documentation's page, too")
    return parser.parse_args()


def run(
    made: list[Mutation], coverage: Coverage, verdicts: Verdicts, given: argparse.Namespace, console: Console
) -> None:
    """Ask about all mutants whose verdict is not known."""
    waiting = _open(made, coverage, verdicts, given)
    console.print(f"{len(waiting)} of {len(made)} mutants are open", highlight=False)
    if not waiting:
        return
    start, done = time.monotonic(), 0
    with servers() as where, ThreadPoolExecutor(given.jobs) as pool:
        baseline = Baseline(given.out / "baseline.jsonl")
        judge = Judge(where, coverage, baseline, Budgets(executing=given.seconds))
        _remember(judge, made, verdicts)
        running: dict[Future[Verdict], Mutation] = {}
        waiting.reverse()
        while running or waiting:
            late = given.limit_seconds is not None and time.monotonic() - start > given.limit_seconds
            while waiting and len(running) < given.jobs and not late:
                mutation = waiting.pop()
                running[pool.submit(judge.verdict, mutation)] = mutation
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                mutation, verdict = running.pop(future), future.result()
                verdicts.add(verdict)
                done += 1
                if verdict.state != "killed" or given.only:
                    console.print(f"{verdict.state} {verdict.by} {verdict.words}", highlight=False, markup=False)
                    showing.describe(mutation, console)
        spent = time.monotonic() - start
    console.print(f"{done} mutants in {spent:.0f} s, {spent / max(done, 1):.2f} s each", highlight=False)


def _open(made: list[Mutation], coverage: Coverage, verdicts: Verdicts, given: argparse.Namespace) -> list[Mutation]:
    if given.only:
        return [mutation for mutation in made if mutation.key in given.only or mutation.name in given.only]
    reasons = explanations()
    known = {mutation: verdicts.of(mutation, coverage.of(mutation)) for mutation in made}
    if given.survivors:
        return [mutation for mutation, verdict in known.items() if verdict is not None and verdict.state != "killed"]
    return [mutation for mutation, verdict in known.items() if verdict is None and mutation.name not in reasons]


def _remember(judge: Judge, made: list[Mutation], verdicts: Verdicts) -> None:
    """What earlier runs have learnt: which test notices mutants of which function."""
    for mutation in made:
        verdict = verdicts.last(mutation)
        if verdict is not None and verdict.by:
            judge.killers.note(mutation, verdict.by)


if __name__ == "__main__":
    if os.name != "posix":
        raise SystemExit("mutants run where processes can be forked")
    sys.exit(main())
