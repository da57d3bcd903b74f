"""Mutants of the reference: it is what the package is compared with, so a change of it must be noticed, too."""

from __future__ import annotations

from mutants.mutant import Mutant

REFERENCE = "tests/privacy/test_reference.py"

MUTANTS = (
    Mutant(
        "reference-rounds-before-it-measures",
        "The reference rounds a share to the grid, and measures what is left of it.",
        "The rounded numbers are what is released.",
        "privacy/reference.py",
        "    if not math.sqrt(math.fsum(x * x for x in share)) <= 1.0:\n",
        "    share = [round(x / grid.step) * grid.step for x in share]\n"
        "    if not math.sqrt(math.fsum(x * x for x in share)) <= 1.0:\n",
        (f"{REFERENCE}::test_the_reference_measures_a_share_before_it_rounds_it",),
    ),
    Mutant(
        "reference-pays-after-the-noise",
        "The reference writes to its ledger when the noise has been drawn.",
        "First the work, then the books.",
        "privacy/reference.py",
        "    ledger.append(Entry(query.label, noise_multiplier, sample_rate, source.seeded, scales))\n"
        "    (noise,) = source.steps([len(total)], grid.bits)\n",
        "    (noise,) = source.steps([len(total)], grid.bits)\n"
        "    ledger.append(Entry(query.label, noise_multiplier, sample_rate, source.seeded, scales))\n",
        (f"{REFERENCE}::test_the_reference_records_before_it_draws",),
    ),
    Mutant(
        "reference-with-less-noise",
        "The reference draws half of the noise that its ledger says.",
        "Half a step here, a factor of 2 there.",
        "privacy/reference.py",
        "grid, scales = Grid.of(noise_multiplier, ",
        "grid, scales = Grid.of(noise_multiplier / 2, ",
        (f"{REFERENCE}::test_the_package_releases_what_the_reference_does",),
    ),
    Mutant(
        "reference-without-a-scale",
        "The reference takes a missing scale for 1, and releases.",
        "None is falsy. It once gave NaN for an empty sample, and charged for it.",
        "privacy/reference.py",
        "if partition.scale is None or not 0.0 < partition.scale < math.inf:",
        "partition = partition if partition.scale else partition.promised(1.0)\n        if False:",
        (f"{REFERENCE}::test_the_reference_refuses_a_scale_that_bounds_nothing_and_records_nothing",),
    ),
    Mutant(
        "reference-loses-a-row",
        "The reference leaves out a row of its sample.",
        "An end that is taken for inclusive.",
        "privacy/reference.py",
        "    for row in rows:\n",
        "    for row in rows[1:]:\n",
        (f"{REFERENCE}::test_the_package_releases_what_the_reference_does",),
    ),
)
