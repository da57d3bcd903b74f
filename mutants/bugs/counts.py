"""Mutants of a sample's room by a noisy count: a count that shows, that nobody pays for, or that is of other things."""

from __future__ import annotations

from mutants.mutant import Mutant

ROOM = "tests/kernels/test_padding.py"
MECHANISM = f"{ROOM}::test_the_count_and_the_sums_together_are_the_mechanism_of_the_ledger"
CHANCE = f"{ROOM}::test_the_chance_of_no_room_is_that_of_the_ledger"

MUTANTS = (
    Mutant(
        "count-without-noise",
        "Spots follow from the number of rows that were drawn, without noise: kernels round by shape.",
        "It is shown to nobody.",
        "kernels/padding.py",
        "noisy = count * self._steps + int(noise[0])",
        "noisy = count * self._steps",
        (f"{ROOM}::test_the_noise_on_the_count_has_its_deviation",),
        further=(f"{ROOM}::test_spots_are_a_function_of_the_count_with_its_noise",),
    ),
    Mutant(
        "count-for-free",
        "The noise on the sums is no wider where there is a count beside them.",
        "A count is only one number, and its noise is wide.",
        "kernels/padding.py",
        "return _UP / math.sqrt(1.0 - COUNT_NOISE_RATIO**-2)",
        "return 1.0",
        (MECHANISM,),
    ),
    Mutant(
        "widening-not-asked-for",
        "The room says how much wider the noise must be, and the release does not ask.",
        "Half of 1 %.",
        "privacy/gaussian_release.py",
        "Grid.of(sigma * paddings[0].widening,",
        "Grid.of(sigma,",
        (f"{ROOM}::test_the_release_asks_for_the_wider_noise",),
    ),
    Mutant(
        "count-with-half-its-noise",
        "A row adds twice as many steps to the count as its noise is for.",
        "Sensitivity 1 or 2: a factor of 2 on the wrong side.",
        "kernels/padding.py",
        "return math.floor(2.0**_BITS / self.deviation)",
        "return math.ceil(2.0 * 2.0**_BITS / self.deviation)",
        (MECHANISM,),
    ),
    Mutant(
        "no-margin-for-the-noise",
        "The noisy count has no margin: in half of all samples rows are cut, and the ledger says hardly ever.",
        "The noise is 0 on average.",
        "kernels/padding.py",
        "math.ceil(-float(ndtri(self.chance)) * 2.0**_BITS)",
        "0",
        (CHANCE,),
    ),
    Mutant(
        "chance-of-no-room-twice",
        "The noise may leave no room with the whole chance in the ledger, and so may the sample.",
        "Each is rare enough.",
        "kernels/padding.py",
        "half = overflow / 2\n",
        "half = overflow\n",
        (CHANCE,),
    ),
    Mutant(
        "blank-places-counted",
        "Blank places that were drawn are counted: what is paid for is the number of places, and not that of rows.",
        "A place is a place.",
        "privacy/sampling.py",
        "            drawn = drawn[(drawn >= 0).any(dim=1)]\n        wanted",
        "            pass\n        wanted",
        (f"{ROOM}::test_blank_places_are_not_counted",),
    ),
    Mutant(
        "all-places-packed-when-counted",
        "Where nothing is counted, too, blank places are dropped: on everything, a row that goes shifts all behind it.",
        "A condition that seems to be there for speed.",
        "privacy/sampling.py",
        "if padding.deviation > 0.0:",
        "if True:",
        ("tests/privacy/test_gaussian_release.py::test_a_kernel_that_rounds_by_spot_moves_no_other_row",),
        further=("tests/privacy/test_private_rows.py", "tests/privacy/test_sampling.py", ROOM),
    ),
    Mutant(
        "spots-for-what-was-drawn",
        "Without a count there are as many spots as rows were drawn, which is private: kernels round by shape.",
        "No memory is wasted.",
        "kernels/padding.py",
        "            return self.most\n",
        "            return max(1, count)\n",
        (f"{ROOM}::test_nothing_is_counted_without_noise_on_all_rows_or_on_a_gpu",),
    ),
    Mutant(
        "room-not-asked-for",
        "A release makes as many spots as rows were drawn, whatever the room says: kernels round by shape.",
        "No memory is wasted.",
        "privacy/sampling.py",
        'wanted = max(1, padding.spots(len(drawn), source.spawn("room")))',
        "wanted = max(1, len(drawn))",
        ("tests/privacy/test_overflow.py::test_how_many_blocks_a_sample_is_spent_in_does_not_follow_from_its_rows",),
    ),
)
