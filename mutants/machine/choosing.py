"""Which tests are asked about a mutant, and in which order: those first that are likely to notice, and quick."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from mutants.machine.coverage import Coverage
from mutants.machine.mutation import Mutation
from mutants.machine.wording import hits

REMEMBERED = 6  # tests that have noticed other mutants of the same function, asked first


class Killers:
    """Which tests have noticed mutants of which function."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def note(self, mutation: Mutation, test: str) -> None:
        self._counts[mutation.file, mutation.home][test] += 1

    def of(self, mutation: Mutation) -> list[str]:
        """The most successful first."""
        return [test for test, _ in self._counts[mutation.file, mutation.home].most_common(REMEMBERED)]


def ordered(mutation: Mutation, tests: Iterable[str], known: Coverage, killers: Sequence[str]) -> list[str]:
    """Known killers, then by time: further parameters of a test count as slower, tests of the module as quicker.

    So do tests that name what is changed.
    """
    seconds = {test: known.alone(test) for test in tests}
    rank: Counter[str] = Counter()
    costs: dict[str, float] = {}
    for test in sorted(seconds, key=lambda test: seconds[test]):
        function = test.partition("[")[0]
        costs[test] = (seconds[test] + 0.01) * (1 + 0.5 * rank[function]) * _distance(mutation, test)
        costs[test] /= 1 + 2 * hits(mutation, test)
        rank[function] += 1
    first = [test for test in killers if test in costs]
    return first + sorted(costs.keys() - set(first), key=lambda test: costs[test])


def _distance(mutation: Mutation, test: str) -> float:
    """1, or less for a test in the module's own file or folder of tests."""
    mirrored, file = PurePath("tests", mutation.file), PurePath(test.partition("::")[0])
    if mirrored.stem in file.stem:
        return 0.3
    return 0.6 if mirrored.parent == file.parent else 1.0


def within(tests: Sequence[str], known: Coverage, budget: float, files: int | None = None) -> list[str]:
    """The first of the tests that take no longer than the budget together, and are in so many files at most.

    What tests share is counted once. One test is always asked, however long it takes.
    """
    chosen: list[str] = []
    seen: set[str] = set()
    ready: set[str] = set()
    total = 0.0
    for test in tests:
        file = test.partition("::")[0]
        crowded = files is not None and file not in seen and len(seen) >= files
        needs = set(known.needs.get(test, [])) - ready
        cost = known.seconds[test] + sum(known.setups[need] for need in needs)
        if chosen and (crowded or total + cost > budget):
            continue
        chosen.append(test)
        seen.add(file)
        ready |= needs
        total += cost
    return chosen
