"""Mutants of sums and lengths that are made for all layers, or for many chunks, at once."""

from __future__ import annotations

from mutants.mutant import Mutant

ALIKE, WIDE = "tests/privacy/test_alike.py", "tests/kernels/test_wide_sums.py"
JOINT = f"{ALIKE}::test_joint_norms_are_those_of_parts_asked_one_by_one"
LENGTHS = f"{ALIKE}::test_lengths_are_the_same_and_never_below_the_true_ones"
NOT_FINITE = f"{ALIKE}::test_what_is_not_finite_shows_and_a_factor_of_0_hides_it"

MUTANTS = (
    Mutant(
        "groups-too-long",
        "More chunks are added up in single precision than the rounding that is counted allows.",
        "What a chunk's own product rounds by is forgotten.",
        "kernels/chunks.py",
        "((_UNITS - 2 * chunk**2) // chunk)",
        "(_UNITS // chunk)",
        (f"{WIDE}::test_a_group_has_as_many_chunks_as_the_rounding_that_is_counted_allows",),
    ),
    Mutant(
        "groups-added-in-single",
        "Groups of chunks are added up in single precision, too, whose rounding nobody counts.",
        "One kind of number is quicker than two.",
        "kernels/chunks.py",
        "many = on_gpu or left.shape[0] > chunk * group_of(chunk)",
        "many = on_gpu",
        (f"{WIDE}::test_a_sum_in_single_precision_is_of_one_group",),
    ),
    Mutant(
        "persons-cut-in-two",
        "Chunks have one length whoever stands in them: a person in two of them changes the rounding of both.",
        "Rows are rows.",
        "kernels/chunks.py",
        "even if rest == 0 and even > 0 and even % together == 0 else CHUNK",
        "even if rest == 0 and even > 0 else CHUNK",
        (f"{WIDE}::test_no_person_is_cut_in_two",),
    ),
    Mutant(
        "all-said-to-fit",
        "No layer's rows are looked at for what single precision cannot hold: 0 times infinity reaches the sum.",
        "A check for rows that nobody has.",
        "privacy/alike.py",
        "    return bool(fit.all())\n",
        "    return True\n",
        (NOT_FINITE,),
    ),
    Mutant(
        "joint-norm-is-the-largest-at-once",
        "A joint bound over layers that are asked at once looks at the longest only.",
        "Maximum for Euclidean sum: the same for one layer.",
        "privacy/alike.py",
        "return rows.square_().sum(dim=0).sqrt_()",
        "return rows.abs_().amax(dim=0)",
        (JOINT,),
    ),
    Mutant(
        "single-norms-round-down-at-once",
        "Norms of all layers, measured in single precision, may lie below the true ones.",
        "Rounding up was mended in one of two places.",
        "privacy/alike.py",
        ".double().mul_(times).add_(more)",
        ".double()",
        (LENGTHS,),
        also=(("    times, more = _upwards(tuple(v.shape[-1] for v in vectors))\n", ""),),
    ),
    Mutant(
        "single-rounding-free-at-once",
        "Layers that are measured at once have no room for what their sums round by.",
        "It is in the other place already.",
        "privacy/alike.py",
        "whole = (left * right).mul_(1.0 + SINGLE_ROOM)",
        "whole = left * right",
        (LENGTHS,),
    ),
    Mutant(
        "bias-not-in-the-norm-at-once",
        "Layers that are measured at once are measured without their biases, which are released all the same.",
        "A column of ones that is not stored is easily forgotten.",
        "privacy/alike.py",
        "right.square().add_(_column(tuple(float(part.one) for part in outer))).sqrt_()",
        "right.square().sqrt_()",
        (LENGTHS,),
        audit="step, layer dense",
    ),
    Mutant(
        "zero-times-infinity-at-once",
        "A share that is not finite and is left out by a factor of 0 has a norm that is no number.",
        "Zero times anything is zero, on paper.",
        "privacy/alike.py",
        "whole.mul_(factors).masked_fill_(factors == 0, 0.0)",
        "whole.mul_(factors)",
        (NOT_FINITE,),
    ),
    Mutant(
        "first-layers-factors-for-all",
        "All layers are checked with the factors of the first, and summed with their own.",
        "A joint bound has one factor for all.",
        "privacy/alike.py",
        "    if all(part.factors is first for part in outer):\n",
        "    if first is not None:\n",
        (JOINT,),
    ),
    Mutant(
        "shares-overwritten-unasked",
        "A sum overwrites slopes that somebody else still has: their next sum is scaled twice.",
        "Less memory for all.",
        "privacy/parts.py",
        "slopes.mul_(column) if self.spent else slopes * column",
        "slopes.mul_(column)",
        (f"{ALIKE}::test_a_share_that_is_not_given_up_is_not_overwritten",),
    ),
    Mutant(
        "shares-scaled-twice",
        "Two parts share the vectors that their sums overwrite: the second is of shares that nobody measured.",
        "Whoever gives them up knows what they are doing.",
        "privacy/parts.py",
        "if self._versions is not None and not self.measured:",
        "if False:",
        (f"{ALIKE}::test_shares_written_to_after_they_were_measured_are_not_summed",),
    ),
    Mutant(
        "layout-by-the-rows",
        "Where a row does not fit, all are summed from a copy of another layout, whose products round differently.",
        "A product is a product.",
        "privacy/parts.py",
        "self.left.contiguous(), self.right.contiguous()",
        "self.left, self.right",
        (f"{ALIKE}::test_the_layout_of_a_sums_factors_does_not_depend_on_whether_all_rows_fit",),
    ),
    Mutant(
        "promise-checked-after-the-sum",
        "The promise is checked when the sum has overwritten the shares: they are scaled twice then, and look short.",
        "Two lines whose order does not seem to matter.",
        "privacy/door.py",
        "    kept = _keep_promise(parts, scales, row_at.shape[1])  # first: sums may overwrite shares\n"
        "    return totals(parts, row_at.shape[1]), kept\n",
        "    return totals(parts, row_at.shape[1]), _keep_promise(parts, scales, row_at.shape[1])\n",
        (f"{ALIKE}::test_the_promise_is_checked_before_shares_are_overwritten",),
    ),
)
