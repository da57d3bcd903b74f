"""Mutants of private scores: tallies that are bounded wrongly, and intervals that are too narrow."""

from __future__ import annotations

from mutants.mutant import Mutant

SCORES, CURVES = "tests/methods/test_scores.py", "tests/evaluation/test_curves_of_scores.py"

MUTANTS = (
    Mutant(
        "tallies-each-for-the-whole",
        "Every tally is released as if the whole release were its own: the bound cuts rows, sums are too small.",
        "Each has length 1.",
        "methods/scores.py",
        "tuple(self._scale(tally) for tally in self.tallies)",
        "tuple(1.0 for tally in self.tallies)",
        (f"{SCORES}::test_without_noise_the_sums_are_plain_sums",),
    ),
    Mutant(
        "intervals-of-noise-alone",
        "Intervals cover the noise of the release, and not the chance of sampling.",
        "The rows are what they are.",
        "evaluation/intervals.py",
        "n * p + math.sqrt(n) *",
        "n * p + 0.0 *",
        (f"{CURVES}::test_intervals_hold_the_truth_about_as_often_as_they_say",),
    ),
    Mutant(
        "intervals-of-sampling-alone",
        "Intervals cover the chance of sampling, and not the noise of the release.",
        "A bootstrap draws rows.",
        "evaluation/classes.py",
        "exact + deviation * source",
        "exact + 0.0 * source",
        (f"{CURVES}::test_intervals_hold_the_truth_about_as_often_as_they_say",),
    ),
    Mutant(
        "numbers-not-clipped",
        "A number beyond 1 is summed as it is: the bound cuts its whole row.",
        "A probability is one.",
        "methods/scores.py",
        "found.clamp(0.0, 1.0)",
        "found",
        (f"{SCORES}::test_numbers_beyond_their_ends_count_as_these",),
    ),
)
