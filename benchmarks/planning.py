"""How long `Plan.for_budget` takes, and how much tighter a slow account would be: the worst of a sweep of questions.

Every question is asked once, with nothing kept from before. Seconds are of processor time (set OMP_NUM_THREADS=1): what
it takes on a machine that has nothing else to do. "looser" is how far the plan's own epsilon lies above that
of dp-accounting's PLD accountant at its default interval of 1e-4 (or, where the plan's interval is finer than that, at
a third of the plan's), as a share. With --points, the questions are compared whose grids then have at most so many
points for one step, and four times as many for all.

    python benchmarks/planning.py [--cases 300] [--points 200000] [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass

from dp_accounting import pld
from rich.console import Console
from rich.table import Table

from dpmac.checks import ArgumentError
from dpmac.kernels.loss_distributions import DEFAULT_INTERVAL, Effort, interval
from dpmac.kernels.moments import event_of
from dpmac.privacy import Mechanism, Plan
from dpmac.privacy.accounting import trusted

ROWS = (300, 10_000, 1_000_000, 10_000_000)
STEPS = (1, 30, 500, 10_000, 100_000, 1_000_000)
RATES = (1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)
EPSILONS = (0.01, 0.1, 1.0, 3.0, 10.0, 100.0)
DELTAS = (1e-5, 1e-6, 1e-8, 1e-10)


@dataclass
class Case:
    """One question, how long its answer took and what it was."""

    n: int
    steps: int
    rate: float
    epsilon: float
    delta: float
    before: bool
    seconds: float = 0.0
    answer: str = ""
    accountant: str = ""
    looser: float | None = None

    def ask(self, points: int) -> None:
        before = [Mechanism(40.0 / self.epsilon**0.75 + 1.0), Mechanism(50.0 / self.epsilon**0.75 + 1.0)]
        given = before if self.before else []
        begin = time.process_time()
        try:
            plan = Plan.for_budget(
                epsilon=self.epsilon,
                delta=self.delta,
                n=self.n,
                batch_size=self.rate * self.n,
                steps=self.steps,
                before=given,
            )
        except ArgumentError as error:
            self.seconds = time.process_time() - begin
            self.answer = str(error).split(": ")[-1][:40]
            return
        self.seconds = time.process_time() - begin
        self.answer = f"{plan.noise_multiplier:.5g}"
        self.accountant, asked = trusted(plan.mechanisms(), self.delta)
        if points and self.accountant == "pld" and self.rate < 1:
            self.looser = looser(plan, asked, points)


def looser(plan: Plan, asked: float, points: int) -> float | None:
    """How far the plan's epsilon lies above that of a slow account (a share of it); None if that is not feasible."""
    slow = min(DEFAULT_INTERVAL, interval(plan.mechanisms()) / 3)
    if interval(plan.mechanisms(), Effort(points, 4 * points, 0.0)) > max(slow, DEFAULT_INTERVAL):
        return None
    accountant = pld.PLDAccountant(value_discretization_interval=slow)
    accountant.compose(event_of(plan.mechanisms()))
    return plan.epsilon() / float(accountant.get_epsilon(asked)) - 1


def sweep(count: int, seed: int) -> list[Case]:
    """``count`` cases drawn from all, each at least possible: delta below 1/n."""
    every = [
        Case(n, steps, rate, epsilon, delta, before)
        for n in ROWS
        for steps in STEPS
        for rate in RATES
        for epsilon in EPSILONS
        for delta in DELTAS
        for before in (False, True)
        if delta < 1 / n and rate >= 1e-6
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def show(title: str, cases: list[Case]) -> None:
    table = Table(title=title)
    for name in ("n", "steps", "rate", "epsilon", "delta", "before", "noise", "by", "seconds", "looser"):
        table.add_column(name, justify="right")
    for c in cases:
        loose = "" if c.looser is None else f"{100 * c.looser:.3f} %"
        numbers = (f"{c.n:,}", f"{c.steps:,}", f"{c.rate:g}", f"{c.epsilon:g}", f"{c.delta:g}")
        table.add_row(*numbers, "yes" if c.before else "", c.answer, c.accountant, f"{c.seconds:.2f}", loose)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--points", type=int, default=0, help="0: no comparison with the slow account")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    Case(1000, 10, 0.1, 1.0, 1e-5, False).ask(0)  # what is imported on first use is not in anyone's time
    cases = sweep(args.cases, args.seed)
    for case in cases:
        case.ask(args.points)
    show(f"the slowest of {len(cases)}", sorted(cases, key=lambda c: -c.seconds)[:15])
    compared = sorted((c for c in cases if c.looser is not None), key=lambda c: -(c.looser or 0.0))
    if compared:
        show(f"the loosest of {len(compared)} compared", compared[:10])
    seconds = sorted(c.seconds for c in cases)
    print(f"median {seconds[len(seconds) // 2]:.2f} s, 95 % below {seconds[int(0.95 * len(seconds))]:.2f} s")


if __name__ == "__main__":
    main()
