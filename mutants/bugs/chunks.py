"""Mutants of sums that are made chunk by chunk: how many are added up, in which precision, from which layout."""

from __future__ import annotations

from mutants.mutant import Mutant

WIDE = "tests/kernels/test_wide_sums.py"

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
        "if on_gpu or left.shape[0] > chunk * group_of(chunk):",
        "if on_gpu:",
        (f"{WIDE}::test_a_sum_in_single_precision_is_of_one_group",),
    ),
    Mutant(
        "persons-cut-in-two",
        "Chunks have one length whoever stands in them: a person in two of them changes the rounding of both.",
        "Rows are rows.",
        "kernels/chunks.py",
        "if rest == 0 and even % spots_per_place == 0:",
        "if rest == 0:",
        (f"{WIDE}::test_no_person_is_cut_in_two",),
    ),
    Mutant(
        "all-said-to-fit",
        "No layer's rows are looked at for what single precision cannot hold: 0 times infinity reaches the sum.",
        "A check for rows that nobody has.",
        "kernels/outer.py",
        'if self.left.device.type != "cpu" or not bool(fits.all()):',
        'if self.left.device.type != "cpu":',
        ("tests/kernels/test_single_sums.py::test_rows_that_are_not_fit_add_exactly_nothing_and_change_no_other",),
    ),
    Mutant(
        "layout-by-the-rows",
        "Where a row does not fit, all are summed from a copy of another layout, whose products round differently.",
        "A product is a product.",
        "kernels/outer.py",
        "self.left.contiguous(), self.right.contiguous()",
        "self.left, self.right",
        (
            "tests/kernels/test_parts_left_out.py::test_the_layout_of_a_sums_factors_does_not_depend_on_whether_all_rows_fit",
        ),
    ),
)
