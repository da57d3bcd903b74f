"""Mutants of estimators: budgets that pay for less than is released, and rows that are prepared by other rows."""

from __future__ import annotations

from mutants.mutant import Mutant

SHARED = "tests/estimators/test_shared_ledgers.py"
ATTACKED = "tests/training/test_resume_attacked.py"
CLASSIFIER, REGRESSOR = "tests/estimators/test_classifier.py", "tests/estimators/test_regressor.py"

MUTANTS = (
    Mutant(
        "calibration-beyond-the-budget",
        "A classifier trains for the whole budget, and calibrates beside it.",
        "The calibration came later than the plan.",
        "estimators/labelled.py",
        "        return (calibration.mechanism(),)\n",
        "        return ()\n",
        (f"{SHARED}::test_one_fit_costs_its_epsilon_with_the_calibration",),
    ),
    Mutant(
        "residuals-beyond-the-budget",
        "A regressor trains for the whole budget, and measures its residuals beside it.",
        "One more number.",
        "estimators/ranged.py",
        "        return (residuals.mechanism(),)\n",
        "        return ()\n",
        (f"{REGRESSOR}::test_its_budget_covers_training_and_residuals",),
    ),
    Mutant(
        "total-without-the-ledger",
        "total_epsilon is compared with this fit alone.",
        "A budget is a fit's.",
        "estimators/budget.py",
        "check_totals(totals, ledger.mechanisms(), own_at, float(self.epsilon))",
        "check_totals(totals, (), own_at, float(self.epsilon))",
        (f"{SHARED}::test_total_epsilon_refuses_before_anything_is_released",),
    ),
    Mutant(
        "others-forgotten-on-resuming",
        "What others released since a run began does not count against its total.",
        "The ledger as the run found it.",
        "estimators/base.py",
        "others = ledger.of_others(checkpoints.run)",
        "others = found",
        (f"{ATTACKED}::test_what_others_released_since_counts_against_a_total",),
    ),
    Mutant(
        "calibration-paid-twice",
        "A fit that was killed in its calibration releases all of it once more, beyond the budget.",
        "What is not finished is begun again.",
        "training/post_training.py",
        "made = sum(entry.label != STEP",
        "made = 0 and sum(entry.label != STEP",
        ("tests/training/test_post_training.py::test_a_seeded_calibration_that_was_killed_ends_as_if_it_had_not_been",),
    ),
    Mutant(
        "groups-ignored",
        "fit takes the persons' ids, and protects single rows.",
        "scikit-learn hands groups to whoever has the argument, and most do nothing with it.",
        "estimators/rows.py",
        "given = Given(rows, self._persons(table, groups, len(rows), ids), more=more)",
        "given = Given(rows, more=more)",
        ("tests/estimators/test_persons.py::test_everything_follows_from_the_number_of_persons",),
    ),
    Mutant(
        "a-seed-by-default",
        "Without a random_state the seed is 0: everybody knows the noise.",
        "Reproducible by default.",
        "estimators/budget.py",
        "        seed: int | None = None\n",
        "        seed: int | None = 0\n",
        (f"{CLASSIFIER}::test_seeds",),
    ),
    Mutant(
        "range-of-the-targets",
        "A regressor scales its targets by the smallest and the largest there are.",
        "Who knows the range of a target?",
        "estimators/ranged.py",
        "unit = np.clip(2 * (numbers - low) / (high - low) - 1, -1, 1)",
        "low, high = float(numbers.min()), float(numbers.max())\n"
        "    unit = np.clip(2 * (numbers - low) / (high - low) - 1, -1, 1)",
        (f"{REGRESSOR}::test_targets_outside_the_range_are_clipped_to_it",),
    ),
    Mutant(
        "classes-read-unsaid",
        "Class labels are read from the rows, and the statement does not say so.",
        "Everybody knows the classes.",
        "estimators/classifier.py",
        "            notes = (CLASSES_NOTE,)\n",
        "            notes = ()\n",
        ("tests/estimators/test_classifier.py::test_known_classes_are_not_read_from_the_data",),
    ),
    Mutant(
        "pca-shares-upside-down",
        "DPMACPCA's mean, for a twentieth of the budget, has a twentieth of the noise.",
        "times for over.",
        "estimators/pca.py",
        "first, second = (sigma / math.sqrt(share) for _, share in SHARES)",
        "first, second = (sigma * math.sqrt(share) for _, share in SHARES)",
        ("tests/estimators/test_pca_estimator.py::test_the_budget_is_spent_on_two_releases_and_no_more",),
    ),
    Mutant(
        "mean-beyond-the-budget",
        "The autoencoder's mean has the noise of the whole budget, and its price is that of a twentieth.",
        "A mean is cheap.",
        "estimators/autoencoder.py",
        "DPMean(sigma / math.sqrt(MEAN),",
        "DPMean(sigma,",
        ("tests/estimators/test_autoencoder.py::test_the_budget_is_spent_on_three_releases",),
    ),
)
