"""The score: killed / (all - explained), for a file, a group and everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mutants.machine.mutation import Mutation
from mutants.machine.verdicts import Verdict

EXPLAINED = Path(__file__).with_name("explained")  # a file for each group


def explanations() -> dict[str, str]:
    """Why a mutant that no test notices changes nothing that matters: a sentence, by the mutant's name."""
    return {
        name: reason
        for file in sorted(EXPLAINED.glob("*.json"))
        for name, reason in json.loads(file.read_text(encoding="utf-8")).items()
    }


@dataclass
class Score:
    """Mutants by what became of them."""

    killed: list[Mutation] = field(default_factory=list)
    alive: list[Mutation] = field(default_factory=list)  # asked, and not noticed
    uncovered: list[Mutation] = field(default_factory=list)  # in lines that no test executes
    explained: list[Mutation] = field(default_factory=list)
    earlier: list[Mutation] = field(default_factory=list)  # asked on an earlier commit, in code that is as it was
    open: list[Mutation] = field(default_factory=list)  # not asked yet

    @property
    def total(self) -> int:
        return sum(map(len, (self.killed, self.survivors, self.explained, self.earlier, self.open)))

    @property
    def survivors(self) -> list[Mutation]:
        return [*self.alive, *self.uncovered]

    @property
    def share(self) -> float | None:
        """Of those decided and not explained; None if there are none."""
        decided = len(self.killed) + len(self.survivors)
        return len(self.killed) / decided if decided else None

    def words(self) -> str:
        """The share in percent, rounded down: 100 % means all."""
        return "-" if self.share is None else f"{int(1000 * self.share) / 10:.1f} %"

    def __add__(self, other: Score) -> Score:
        return Score(
            self.killed + other.killed,
            self.alive + other.alive,
            self.uncovered + other.uncovered,
            self.explained + other.explained,
            self.earlier + other.earlier,
            self.open + other.open,
        )


def score(
    known: Iterable[tuple[Mutation, Verdict | None]], is_earlier: Callable[[Mutation], bool] = lambda _: False
) -> Score:
    """Sort mutants by their verdicts. One that is killed after all needs no explanation.

    Where there is no verdict, ``is_earlier`` says whether an earlier commit's holds (:mod:`mutants.machine.earlier`).
    """
    reasons, found = explanations(), Score()
    for mutation, verdict in known:
        if verdict is not None and verdict.state == "killed":
            found.killed.append(mutation)
        elif mutation.name in reasons:
            found.explained.append(mutation)
        elif verdict is None and is_earlier(mutation):
            found.earlier.append(mutation)
        elif verdict is None:
            found.open.append(mutation)
        elif verdict.state == "survived":
            found.alive.append(mutation)
        else:
            found.uncovered.append(mutation)
    return found
