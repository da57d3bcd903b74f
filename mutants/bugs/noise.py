"""Mutants of noise: too little of it, the same for two, or with a law that is not quite a rounded Gaussian's."""

from __future__ import annotations

from mutants.mutant import Mutant

DOOR, NOISE = "tests/privacy/test_gaussian_release.py", "tests/privacy/test_noise.py"
ROUNDED, MIXTURE = "tests/kernels/test_rounded.py", "tests/kernels/test_mixture.py"
ECHO = "tests/privacy/test_no_echo.py::test_a_release_has_no_echo"

MUTANTS = (
    Mutant(
        "noise-halved",
        "Half of the noise that the ledger says.",
        "Sensitivity 1 for rows that come or go, 2 for rows that change: a factor of 2 on the wrong side.",
        "privacy/gaussian_release.py",
        "Grid.of(sigma * paddings[0].widening,",
        "Grid.of(sigma / 2 * paddings[0].widening,",
        (f"{DOOR}::test_noise_scale_of_every_layer_within_two_percent",),
        audit="mean",
    ),
    Mutant(
        "grid-without-room-for-the-sum",
        "The grid is as fine for many rows as for one: their sums round, by more the more there are.",
        "Doubles are exact enough.",
        "privacy/noise.py",
        "        bits = min(bits, math.floor(",
        "        bits = bits + 0 * min(bits, math.floor(",
        (
            "tests/privacy/test_exact_sums.py::test_the_largest_sum_there_can_be_is_a_whole_number_that_doubles_add_exactly",
            "tests/privacy/test_exact_sums.py::test_a_sum_that_would_not_be_exact_is_refused_before_anything_is_spent",
        ),
    ),
    Mutant(
        "blocks-not-on-the-grid",
        "Sums of blocks are added up as doubles, and put on the grid when there are no more of them.",
        "Rounding once, at the end, was right; then there were many blocks.",
        "privacy/noise.py",
        "total.mul(factor).round_()",
        "total.mul(factor)",
        (
            "tests/privacy/test_exact_sums.py::"
            "test_one_row_moves_the_sum_on_the_grid_by_one_rounding_however_many_blocks_there_are",
        ),
    ),
    Mutant(
        "noise-shared-between-layers",
        "All layers get the same draws: a difference of two cancels the noise.",
        "One draw of the largest size, cut to each.",
        "kernels/perturbing.py",
        "            piece.copy_(flat[number][start:stop])\n",
        "            piece.copy_(flat[number][start:stop])\n            more = steps[: len(piece)]\n",
        (ECHO,),
        audit="step, bound clip",
    ),
    Mutant(
        "noise-used-again",
        "Every step of a training gets the noise of the first: the difference of two shows the rows.",
        "A buffer that is filled once.",
        "privacy/noise.py",
        "        noisy = perturbed_sums(",
        "        noise = perturbed.__dict__.setdefault(str(lot_sizes(sums)), [lot.clone() for lot in noise])\n"
        "        noisy = perturbed_sums(",
        ("tests/privacy/test_gaussian_release.py::test_noise_is_independent_between_coordinates_layers_and_steps",),
        audit="mean",
    ),
    Mutant(
        "noise-divided-twice",
        "The noise is divided by the batch size before the sum is, and so twice.",
        "Noise for a mean, on a sum.",
        "privacy/noise.py",
        "        noisy = perturbed_sums(",
        "        noise = (lot / max(1.0, divisor) for lot in noise)\n        noisy = perturbed_sums(",
        (f"{DOOR}::test_noise_is_centred_on_the_sum_and_divided_by_the_constant",),
        audit="mean",
    ),
    Mutant(
        "smallest-noise-for-all",
        "All layers get the noise of the smallest threshold.",
        "One deviation for a release.",
        "privacy/noise.py",
        "1.0 / (self.step * scale) for scale in scales",
        "1.0 / (self.step * min(scales)) for _ in scales",
        (f"{DOOR}::test_noise_scale_of_every_layer_within_two_percent",),
        also=(
            (
                "[grid.step * scale / divisor for scale in scales]",
                "[grid.step * min(scales) / divisor for _ in scales]",
            ),
        ),
    ),
    Mutant(
        "sum-not-on-the-grid",
        "The sum keeps its digits below the grid of the noise, and they come out with it.",
        "Rounding is done to the noise already.",
        "kernels/perturbing.py",
        "piece.mul_(factors[number]).round_().add_(more)",
        "piece.mul_(factors[number]).add_(more)",
        (f"{NOISE}::test_no_bit_of_the_sum_below_the_grid_is_seen",),
        further=("tests/extensions/test_shards.py::test_what_a_process_sends_are_whole_numbers_of_steps",),
    ),
    Mutant(
        "grid-not-paid-for",
        "Rounding the sum to a grid moves it, and the noise is not widened for that.",
        "Half a step of a fine grid.",
        "privacy/noise.py",
        "noise_multiplier * 2.0**-bits / (1.0 - reach * 2.0**-bits) * _UP",
        "noise_multiplier * 2.0**-bits * _UP",
        (f"{NOISE}::test_the_multiplier_is_that_of_the_sum_on_its_grid_in_exact_arithmetic",),
    ),
    Mutant(
        "doubts-left-open",
        "Where doubles do not decide a draw's rounding, their guess is taken.",
        "One draw in a million.",
        "kernels/rounded.py",
        "if -tolerance < least and most < tolerance:",
        "if -1.0 < least and most < 1.0:",
        ("tests/kernels/test_rounded.py::test_where_many_are_open_no_number_is_one_that_its_words_rule_out",),
    ),
    Mutant(
        "doubts-left-open-one-by-one",
        "The same for a few draws that are made one by one.",
        "A quick way beside the plain one.",
        "kernels/rounded.py",
        "        found += certain(lead, turn, bits) or decided(lead, turn, bits, stream)\n",
        "        u, angle = (lead & LOW_63) * 2.0**-63 + 2.0**-64, turn * (math.pi * 2.0**-63)\n"
        "        radius = 2.0**bits * math.sqrt(-2.0 * math.log(u))\n"
        "        found += [round(radius * math.cos(angle)), round(radius * math.sin(angle))]\n",
        (f"{ROUNDED}::test_a_few_draws_are_none_that_their_words_rule_out",),
    ),
    Mutant(
        "rounding-of-doubles-trusted",
        "The error of logarithm, cosine and sine is taken to be 0.",
        "Doubles are exact enough.",
        "kernels/rounded.py",
        "OF_RADIUS = 2.0**-48",
        "OF_RADIUS = 0.0",
        (f"{ROUNDED}::test_the_bound_holds_against_long_doubles_with_all_further_digits_0_or_1",),
    ),
    Mutant(
        "tails-cut-off",
        "No draw is further out than 6 deviations: what is there has no noise at all to hide in.",
        "Outliers hurt training.",
        "kernels/gaussian.py",
        "radii.log_().mul_(-2.0 * scale**2).sqrt_()",
        "radii.log_().mul_(-2.0 * scale**2).sqrt_().clamp_(max=6.0 * scale)",
        ("tests/kernels/test_rounded.py::test_the_bound_holds_against_mpmath_at_the_edges",),
    ),
    Mutant(
        "rest-left-out",
        "Draws that the table does not have are taken from it all the same: the law is a staircase that ends.",
        "They are one in a hundred.",
        "kernels/mixture.py",
        "    out.numpy()[found] = rest.draws(len(found))\n",
        "",
        (f"{MIXTURE}::test_draws_have_the_law_and_even_low_bits",),
    ),
    Mutant(
        "tail-of-the-table-cut-off",
        "No draw from the table is further out than 6 deviations.",
        "One draw in 500 million.",
        "kernels/mixture.py",
        "kept[n] = abs(whole[n] + 0.5) > REACH << (bits - WIDTH)",
        "kept[n] = False",
        (f"{MIXTURE}::test_proposals_of_the_tail_are_pairs_of_a_small_u_and_are_kept_beyond_the_cells_alone",),
    ),
    Mutant(
        "doubts-of-the-rest-left-open",
        "Where doubles do not decide whether a proposal is accepted, their guess is taken.",
        "One proposal in a billion.",
        "kernels/mixture.py",
        "DOUBT = 2.0**-32",
        "DOUBT = 0.0",
        (f"{MIXTURE}::test_doubles_that_are_near_are_not_trusted",),
    ),
    Mutant(
        "levels-above-the-density",
        "A cell stands in the table as often as its largest density says, not as its least.",
        "Inside a cell the density is almost constant.",
        "kernels/mixture.py",
        "np.floor(least / _UP / ratio)",
        "np.floor(most / _UP / ratio)",
        (f"{MIXTURE}::test_no_cell_has_more_than_the_density_anywhere_and_proposals_reach_it_everywhere",),
    ),
    Mutant(
        "digits-drawn-once-for-both",
        "The further digits of a radius serve its angle, too.",
        "They are random.",
        "kernels/exact.py",
        "lead, turn = (number << more | further(stream, more) for number in (lead, turn))",
        "fresh = further(stream, more)\n        lead, turn = (number << more | fresh for number in (lead, turn))",
        ("tests/kernels/test_exact.py::test_digits_are_drawn_until_a_product_leaves_its_half",),
    ),
)
