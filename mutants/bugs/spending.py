"""Mutants of what is checked before anything is spent: each lets a budget be spent on a model that nobody gets."""

from __future__ import annotations

from mutants.mutant import Mutant

PLACES, ANY = "tests/cli/test_places.py", "tests/estimators/test_any_noise.py"
RELEASED = "tests/mac/test_released.py"

MUTANTS = (
    Mutant(
        "negative-trace-ends-a-fit",
        "Where noise makes the trace of the second moments negative, the closed form ends after two of three releases.",
        "A sum of squares is positive, and a clamp keeps the division from failing.",
        "methods/closed_form.py",
        "        if kept > 0.0 and whole > 0.0:\n            share = kept / whole\n",
        "        share = kept / max(whole, 1e-300)\n",
        (f"{ANY}::test_no_fit_fails_where_noise_drowns_every_signal",),
    ),
    Mutant(
        "one-level-for-every-matrix",
        "A Cholesky factor that rounding does not allow ends the fit.",
        "The matrix was made positive semi-definite before.",
        "mac/released.py",
        "        if not bool(failed.any()):\n            return factor\n",
        "        return torch.linalg.cholesky(matrix + level * eye)\n",
        (f"{RELEASED}::test_a_factor_is_found_where_rounding_left_a_negative_eigenvalue",),
    ),
    Mutant(
        "infinite-slopes-reach-the-optimiser",
        "A slope that is not finite in single precision makes every weight a NaN, for good.",
        "Noise is finite.",
        "mac/wsteps/optimizer.py",
        "                    parameter.grad.clamp_(-WEIGHT, WEIGHT)\n",
        "                    pass\n",
        (f"{RELEASED}::test_weights_stay_finite_whatever_was_released",),
    ),
    Mutant(
        "ledger-in-the-run-folder",
        "A ledger inside the run folder is not found by a link or another spelling: the model can then never be saved.",
        "The parent of a path is its folder.",
        "cli/places.py",
        "    return any(_same(one, folder) for way in ways for one in (way, *way.parents))\n",
        "    return folder.absolute() in ways[0].parents\n",
        (f"{PLACES}::test_what_is_in_the_way_is_found_before_anything_is_spent",),
    ),
    Mutant(
        "names-beside-not-tried",
        "A folder's name is tried, but not the longer one under which it is written: nothing can be saved.",
        "What can be made can be renamed.",
        "cli/places.py",
        '        with _told("--out", folder), new_folder(where) as beside:\n'
        "            write_new(beside / JOB, TRIAL)\n",
        '        with _told("--out", folder):\n            where.mkdir(parents=True)\n',
        (f"{PLACES}::test_what_is_in_the_way_is_found_before_anything_is_spent",),
    ),
    Mutant(
        "public-labels-not-read",
        "The labels of public rows are first read when the training is paid for.",
        "A label is needed for the scores alone.",
        "cli/public_rows.py",
        "        check_scored(schema, table, job.public_test)\n",
        "        from dpmac.tables.files import need_columns\n\n"
        "        need_columns(job.public_test, table, schema.columns)\n",
        (f"{PLACES}::test_public_rows_are_looked_over_before_anything_is_spent",),
    ),
    Mutant(
        "nothing-was-spent-after-all",
        "A bad argument that is found when releases were made ends with the code that says that nothing was spent.",
        "Arguments are checked first.",
        "cli/training.py",
        "        if spent and known is not None and known[0] == NOTHING_SPENT:\n",
        "        if spent and known is None:\n",
        (f"{PLACES}::test_an_end_that_has_spent_never_says_that_nothing_was",),
    ),
    Mutant(
        "scores-end-a-finished-run",
        "Scores that fail end a run whose model is there, as if it had failed.",
        "An error is an error.",
        "cli/training.py",
        '    except Exception as error:\n        sys.stderr.write(f"dpmac: the model is in',
        '    except ArithmeticError as error:\n        sys.stderr.write(f"dpmac: the model is in',
        (f"{PLACES}::test_scores_that_fail_leave_a_finished_model",),
    ),
    Mutant(
        "metric-tried-when-an-epoch-is-paid",
        "A metric of the user's own that fails is found after the first epoch, which is paid for.",
        "It is called when it is needed.",
        "training/trainer.py",
        "        self._metrics(copy.deepcopy(self.network))",
        "        copy.deepcopy(self.network)",
        ("tests/training/test_trainer.py::test_a_metric_that_fails_is_found_before_anything_is_spent",),
    ),
)
