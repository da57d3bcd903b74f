"""Mutants of modules and their estimators: starts nobody was told of, and rows that make themselves known."""

from __future__ import annotations

from mutants.mutant import Mutant

ESTIMATORS = "tests/estimators/test_module_estimators.py"
TOTAL = "tests/modules/test_total.py"
SAVED = "tests/saving/test_saved_modules.py"

MUTANTS = (
    Mutant(
        "start-undeclared",
        "A start that was trained on other data is used, and the statement does not say so.",
        "Everybody starts from something.",
        "estimators/module_base.py",
        "Origin.merged(origin_of(module), PUBLIC.called_public(self.public_start))",
        "origin_of(module)",
        (f"{ESTIMATORS}::test_a_start_that_was_trained_stands_in_the_statement",),
    ),
    Mutant(
        "start-washed",
        "Calling a start public drops the releases that have shaped it, and its ledger is not asked for.",
        "as_public does the same, and says so.",
        "estimators/module_base.py",
        "Origin.merged(origin_of(module), PUBLIC.called_public(self.public_start))",
        "PUBLIC.called_public(self.public_start)",
        (f"{ESTIMATORS}::test_a_start_that_private_rows_have_shaped_needs_its_ledger_whatever_it_is_called",),
    ),
    Mutant(
        "module-calibration-beyond-the-budget",
        "A module's classifier trains for the whole budget, and calibrates beside it.",
        "The calibration came later than the plan.",
        "estimators/labelled.py",
        "        return (calibration.mechanism(),)\n",
        "        return () if hasattr(self, 'module') else (calibration.mechanism(),)\n",
        (f"{ESTIMATORS}::test_one_fit_costs_its_epsilon_with_the_calibration",),
    ),
    Mutant(
        "module-calibration-off-the-books",
        "The calibration of a module is released into a ledger of its own, which nobody reads.",
        "It is a detail of the model.",
        "estimators/module_classifier.py",
        "                    done.ledger,\n",
        "                    type(done.ledger)(),\n",
        (f"{ESTIMATORS}::test_one_fit_costs_its_epsilon_with_the_calibration",),
    ),
    Mutant(
        "module-residuals-beyond-the-budget",
        "A module's regressor trains for the whole budget, and measures its residuals beside it.",
        "One more number.",
        "estimators/ranged.py",
        "        return (residuals.mechanism(),)\n",
        "        return () if hasattr(self, 'module') else (residuals.mechanism(),)\n",
        (f"{ESTIMATORS}::test_a_regression_costs_its_epsilon_with_the_residuals",),
    ),
    Mutant(
        "module-classes-read-unsaid",
        "Class labels are read from the rows, and the statement does not say so.",
        "Everybody knows the classes.",
        "estimators/module_classifier.py",
        "            notes = (CLASSES_NOTE,)\n",
        "            notes = ()\n",
        (f"{ESTIMATORS}::test_classes_that_were_read_stand_in_the_statement",),
    ),
    Mutant(
        "outside-tokens-stop-a-run",
        "A token that no table has raises inside a training: the run stops, and tells that there is such a row.",
        "torch raises, too.",
        "modules/rules/embedding.py",
        "    tokens = input.masked_fill(outside, 0).long()\n",
        "    tokens = input.long()\n",
        (f"{TOTAL}::test_a_token_that_no_table_has_makes_its_own_row_nan_and_no_other",),
    ),
    Mutant(
        "outside-tokens-stop-a-calibration",
        "The training treats a strange token as blank, and the calibration after it raises.",
        "A prediction may raise.",
        "estimators/module_base.py",
        "return RowOutputs(self.module_, self._units(), self._input_names)",
        "return RowOutputs(self.module_, self._units(), self._input_names, total=False)",
        (f"{ESTIMATORS}::test_one_bad_row_of_a_dataset_neither_stops_a_fit_nor_moves_another_row",),
    ),
    Mutant(
        "outside-tokens-stop-row-by-row",
        "Gradients that are made row after row run the module as it is, and a strange token raises.",
        "The rules are for taps.",
        "modules/gradients.py",
        "one_by_one(exact, self.whole, columns, total=True)",
        "one_by_one(exact, self.whole, columns)",
        (f"{TOTAL}::test_a_token_that_no_table_has_makes_its_own_row_nan_and_no_other",),
    ),
    Mutant(
        "strange-labels-are-the-first-class",
        "A label of a dataset that is no class counts as the first one.",
        "It must be something.",
        "estimators/module_base.py",
        "    found[torch.from_numpy(places < 0)] = torch.nan\n",
        "",
        (f"{ESTIMATORS}::test_one_bad_row_of_a_dataset_neither_stops_a_fit_nor_moves_another_row",),
    ),
    Mutant(
        "a-modules-file-forgets",
        "A module that is loaded from a folder knows nothing of the releases that have shaped it.",
        "Weights are weights.",
        "saving/module_model.py",
        '    mark(module, Origin.merged(Origin.of(ledger), said, origin_of(module, name="module")))\n',
        "",
        (f"{SAVED}::test_what_private_rows_have_shaped_is_known_after_loading",),
    ),
)
