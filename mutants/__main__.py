"""``python -m mutants``: every mutant, two at a time; 0 if all were killed, else 1."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mutants.bugs import MUTANTS
from mutants.copies import all_tests, snapshot
from mutants.mutant import ROOT, Mutant
from mutants.results import Results
from mutants.running import BrokenError, Verdict, first_failure, judge
from mutants.showing import show, summary, write_page


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--only", metavar="NAME", action="append", help="this one (may be given again), asked anew")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--again", action="store_true", help="ask all anew, whatever is known already")
    parser.add_argument("--no-baseline", action="store_true", help="take on trust that the tests pass without a mutant")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "mutants", help="where verdicts and logs are kept")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the documentation's page, too")
    given = parser.parse_args()
    console = Console()
    if given.list:
        for mutant in MUTANTS:
            console.print(f"[bold]{mutant.name}[/]  {mutant.file}\n    {mutant.bug}\n    {mutant.why}", highlight=False)
        return 0
    unknown = set(given.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}: see --list")
    chosen = [mutant for mutant in MUTANTS if given.only is None or mutant.name in given.only]
    anew = given.again or given.only is not None
    verdicts = run(chosen, given.out, jobs=given.jobs, anew=anew, baseline=not given.no_baseline, console=console)
    show(verdicts, console)
    if given.markdown is not None:
        write_page(verdicts, given.markdown)
    return 0 if all(verdict.state == "killed" for verdict in verdicts.values()) else 1


def run(
    chosen: list[Mutant], out: Path, *, jobs: int, anew: bool, baseline: bool, console: Console
) -> dict[Mutant, Verdict]:
    """The verdict on each; what is known of an unchanged mutant is not asked again, unless ``anew``."""
    results = Results(out / "verdicts.json")
    out.mkdir(parents=True, exist_ok=True)
    with snapshot() as whole:
        known = {mutant: None if anew else results.of(mutant, whole) for mutant in chosen}
        open_ = [mutant for mutant, verdict in known.items() if verdict is None]
        if open_ and baseline:
            check_baseline(whole, open_, out, console)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        found = {mutant: verdict for mutant, verdict in known.items() if verdict is not None}
        with Progress(*columns, console=console, transient=True) as bar, ThreadPoolExecutor(max(1, jobs)) as pool:
            task = bar.add_task("mutants", total=len(open_))
            waiting = {pool.submit(judge, whole, mutant, out): mutant for mutant in open_}
            for done in as_completed(waiting):
                mutant, verdict = waiting[done], done.result()
                found[mutant] = verdict
                results.keep(mutant, whole, verdict)
                bar.advance(task)
                bar.update(task, description=summary(found.values()))
                if verdict.state != "killed" or not console.is_terminal:
                    console.print(
                        f"{mutant.name}: {verdict.state} {verdict.by}", highlight=False, markup=False, soft_wrap=True
                    )
    return {mutant: found[mutant] for mutant in chosen}


def check_baseline(whole: Path, chosen: list[Mutant], out: Path, console: Console) -> None:
    """End the command unless all tests that mutants ask pass where there is no mutant: else a kill says nothing."""
    log = out / "baseline.log"
    log.unlink(missing_ok=True)
    console.print(f"without a mutant: {len(all_tests(chosen))} tests must pass", highlight=False)
    try:
        failure = first_failure(whole, all_tests(chosen), log)
    except BrokenError as error:
        failure = str(error)
    if failure is not None:
        sys.stdout.flush()
        console.print(f"[bold red]without any mutant[/] {failure}: see {log}")
        raise SystemExit(1)


if __name__ == "__main__":
    if os.name != "posix":
        raise SystemExit("mutants run where there are POSIX processes")
    sys.exit(main())
