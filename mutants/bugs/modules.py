"""Mutants of modules: gradients that are another row's, measured otherwise than they are summed, or half missing."""

from __future__ import annotations

from mutants.mutant import Mutant

TOKENS, ROWS = "tests/kernels/test_built_and_tokens.py", "tests/modules/test_row_gradients.py"
POSITIONS, REFUSED = "tests/kernels/test_positions.py", "tests/modules/test_refusals.py"
ALONE = f"{ROWS}::test_every_row_s_gradient_is_autograd_s_of_that_row_alone"
RIGHT = (
    f"{ROWS}::test_only_what_no_rule_covers_is_differentiated_row_by_row"  # a wrong rule is not used, and that shows
)
TRAINING = "tests/modules/test_training_modules.py"

MUTANTS = (
    Mutant(
        "equal-tokens-apart",
        "A token that comes up twice in a row is measured as two vectors at right angles, and summed as one.",
        "Sorting takes time, and most tokens come up once.",
        "kernels/tokens.py",
        "new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).long()",
        "new[:, 1:] = 1",
        (f"{TOKENS}::test_shares_of_tokens_are_those_of_a_table_filled_one_by_one",),
    ),
    Mutant(
        "tokens-taken-on-trust",
        "A part of tokens that were not combined is measured as if they had been.",
        "They always are.",
        "kernels/tokens.py",
        "return torch.where(once, built_norms(self.vectors), math.inf)",
        "return built_norms(self.vectors)",
        (f"{TOKENS}::test_equal_tokens_that_were_not_combined_have_no_finite_norm",),
    ),
    Mutant(
        "built-without-margin",
        "The norm of a built share leaves no room for the rounding of sums in single precision.",
        "The norm is that of the very numbers.",
        "kernels/built.py",
        "margin = 1.0 + SINGLE_MARGIN if single else 1.0",
        "margin = 1.0",
        (f"{TOKENS}::test_single_precision_norms_carry_the_margin_and_double_ones_do_not",),
    ),
    Mutant(
        "norms-of-another-build",
        "A part over positions gives the norms of its first slice of rows for all that it summed.",
        "Lists of one piece are what one tests with.",
        "kernels/positions.py",
        "found.append(piece.norms())",
        "found.append(found[0][: piece.rows] if found else piece.norms())",
        (f"{POSITIONS}::test_what_was_measured_is_what_was_summed",),
    ),
    Mutant(
        "first-build-without-rounding",
        "The norms that a bound goes by leave out what a second build of the same shares may differ by.",
        "The same product of the same numbers.",
        "kernels/positions.py",
        "single = 2.0 * (positions + 2) * SINGLE_ROUNDOFF",
        "single = 0.0",
        (
            "tests/kernels/test_positions_margin.py::"
            "test_what_cancels_in_single_precision_leaves_the_rounding_of_two_builds",
        ),
    ),
    Mutant(
        "bias-of-one-position",
        "The gradient of a bias over a sequence is that of its first position.",
        "Of two dimensions it is the same.",
        "modules/rules/linear.py",
        "Built(left.sum(dim=1))",
        "Built(left[:, 0])",
        (RIGHT,),
    ),
    Mutant(
        "groups-mixed",
        "The groups of a convolution change places in its gradient.",
        "Shapes fit either way.",
        "modules/rules/convolution.py",
        "left = slopes.flatten(0, 1)[start : start + few].reshape(-1, units // groups, positions)",
        "left = slopes.flatten(0, 1)[start : start + few].reshape(-1, units // groups, positions).flip(0)",
        (RIGHT,),
    ),
    Mutant(
        "padding-token-trained",
        "The token for padding gets a gradient.",
        "It is one word among many.",
        "modules/rules/embedding.py",
        "(places == padding_idx % length).unsqueeze(2), 0.0)",
        "(places == -1).unsqueeze(2), 0.0)",
        (RIGHT,),
    ),
    Mutant(
        "unknown-token-stops-the-run",
        "A token that is not in the table reads another row of it, and its row counts.",
        "It is clamped, so nothing breaks.",
        "modules/rules/embedding.py",
        "return found.masked_fill_(outside.unsqueeze(-1), math.nan)",
        "return found",
        (f"{ROWS}::test_a_token_or_class_that_there_is_not_makes_its_row_blank",),
    ),
    Mutant(
        "taps-see-half",
        "A parameter that is also used where no tap is has only its tapped gradient.",
        "Tied weights are rare.",
        "modules/gradients.py",
        "found = replace(found, whole=tuple(found._used_elsewhere(few)))",
        "found = replace(found, whole=())",
        (ALONE, RIGHT),
        also=(("found = replace(found, whole=found._in_order({*found.whole, *found._disagreeing(few)}))", "pass"),),
    ),
    Mutant(
        "module-not-compared-with-autograd",
        "A module whose rows' gradients are not autograd's, because it mixes rows, is trained.",
        "The rules are tested.",
        "modules/trying.py",
        "    _check_sums(task, found, more)\n",
        "",
        (f"{REFUSED}::test_a_loss_that_mixes_rows_is_refused",),
    ),
    Mutant(
        "buffers-keep-rows",
        "A module that keeps a running mean of private rows is trained, and the mean goes out with it.",
        "Buffers are not parameters.",
        "modules/trying.py",
        "    if changed:\n",
        "    if False:\n",
        (f"{REFUSED}::test_hooks_and_buffers_that_change_are_refused",),
    ),
    Mutant(
        "layer-without-origin",
        "A layer that is taken out of a trained module counts as public.",
        "The module knows where it comes from.",
        "extensions/provenance.py",
        "    for part in module.modules():\n        if isinstance(part, Shaped):\n            part.origin = origin\n",
        "    for part in [module]:\n        if isinstance(part, Shaped):\n            part.origin = origin\n",
        (f"{TRAINING}::test_a_trained_module_carries_its_origin_and_is_refused_without_its_ledger",),
    ),
    Mutant(
        "rows-left-in-a-module",
        "A module keeps the rows of its last forward pass in an attribute, and they leave with the model.",
        "Buffers are compared. Real: pickled models held raw rows.",
        "modules/kept.py",
        '            raise ArgumentError(name, f"an attribute of {type(module).__name__}", KEEPS)\n',
        "            pass\n",
        ("tests/modules/test_kept.py::test_rows_that_stay_in_a_module_are_noticed",),
    ),
    Mutant(
        "evaluation-mode-untried",
        "A module that mixes rows or keeps their mean in evaluation mode, in which it is calibrated, is trained.",
        "It was tried as it is trained. Real: the mean of all rows was in a saved model.",
        "estimators/module_base.py",
        "        self._world.everywhere(lambda: self._check_outputs(module, targets))\n",
        "",
        ("tests/modules/test_kept.py::test_evaluation_mode_is_tried_before_the_training_is_paid_for",),
    ),
    Mutant(
        "buffers-in-evaluation-mode",
        "A buffer that changes in evaluation mode keeps the mean of private rows, and is saved with the weights.",
        "Buffers were compared in training mode. Real.",
        "modules/trying.py",
        "    check_keeps_nothing(module, tried, first, second)\n    _check_constant(module, before)\n",
        "    check_keeps_nothing(module, tried, first, second)\n",
        ("tests/modules/test_kept.py::test_evaluation_mode_is_tried_before_the_training_is_paid_for",),
    ),
    Mutant(
        "rows-left-in-a-feature-map",
        "A feature map or a layer of the user's own keeps the rows of its last call, and they leave with the model.",
        "Only torch modules were looked at. Real.",
        "training/row_independence.py",
        "    if module is None or ours(module):\n",
        "    if module is None or module:\n",
        (
            "tests/modules/test_kept.py::test_a_feature_map_of_ones_own_keeps_nothing",
            "tests/modules/test_kept.py::test_a_layer_of_ones_own_keeps_nothing",
        ),
    ),
)
