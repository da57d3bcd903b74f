"""Mutants of bounds: rows that contribute more than is promised, and noise for less than they contribute."""

from __future__ import annotations

from mutants.mutant import Mutant

BOUNDS = "tests/bounds/test_bounds.py"
ADAPTIVE, SINGLE = "tests/bounds/test_adaptive.py", "tests/kernels/test_single_sums.py"
SHARED = "tests/training/test_shared_noise.py"

MUTANTS = (
    Mutant(
        "root-k-forgotten",
        "Noise for one layer's threshold on each of K layers: sqrt(K) too little.",
        "Every layer is clipped to its threshold, so its noise is for its threshold.",
        "bounds/allocation.py",
        "root = math.sqrt(len(sensitivities))",
        "root = 1.0",
        ("tests/privacy/test_gaussian_release.py::test_noise_scale_of_every_layer_within_two_percent",),
    ),
    Mutant(
        "allocation-not-checked",
        "An allocation of noise that promises more than there is goes through.",
        "A check in front of a check.",
        "bounds/allocation.py",
        "if not total <= 1.0 + 1e-9:",
        "if not total <= math.inf:",
        (f"{SHARED}::test_an_allocation_that_promises_too_much_is_refused_in_public",),
    ),
    Mutant(
        "joint-norm-is-the-largest",
        "A joint bound looks at the longest layer only.",
        "Maximum for Euclidean sum: the same for one layer.",
        "privacy/parts.py",
        "return functools.reduce(torch.hypot, [",
        "return functools.reduce(torch.maximum, [",
        ("tests/bounds/test_bounds.py::test_neighbouring_tables_differ_by_at_most_one",),
    ),
    Mutant(
        "slack-forgotten",
        "Rows are clipped to their threshold exactly, and rounding carries sums beyond it.",
        "A hundred-thousandth.",
        "bounds/clipping.py",
        "allowed = (1.0 - SLACK) * threshold",
        "allowed = threshold",
        ("tests/bounds/test_bounds.py::test_every_bound_keeps_its_promise",),
    ),
    Mutant(
        "threshold-of-the-batch",
        "Rows are clipped at the batch's own median norm: another row decides how much this one counts.",
        "A threshold that adapts by itself needs no tuning.",
        "bounds/clipping.py",
        "[part.scaled(clip_factors(part.norms(), t)) for part, t in zip(parts, thresholds, strict=True)]",
        "[\n            part.scaled(clip_factors(part.norms(), min(t, max(1e-30, float(part.norms().nanmedian())))))\n"
        "            for part, t in zip(parts, thresholds, strict=True)\n        ]",
        ("tests/contracts.py::test_bound[clip]",),
    ),
    Mutant(
        "not-finite-gets-through",
        "A row whose norm is not a number is scaled by no number, and reaches every coordinate.",
        "min(1, threshold / norm), as in every paper.",
        "bounds/clipping.py",
        "return torch.where(factors > 1e-300, factors, 0.0)",
        "return factors",
        (f"{BOUNDS}::test_a_share_that_is_not_finite_becomes_zero",),
    ),
    Mutant(
        "counts-for-free",
        "Thresholds that are learned as training goes are learned from counts that nobody pays for.",
        "A count is only one number.",
        "bounds/adaptive.py",
        "root = math.sqrt(len(partitions) / (1.0 - self.share))",
        "root = math.sqrt(len(partitions))",
        ("tests/bounds/test_adaptive.py::test_its_noise_obeys_the_stated_rule",),
    ),
    Mutant(
        "counts-not-centred",
        "An example moves the count of rows within the threshold by 1, and its noise is for 1/2.",
        "The paper's indicator is 0 or 1; centring halves the noise, and is easily lost.",
        "bounds/adaptive.py",
        "torch.where(norms <= threshold, 0.5, -0.5)",
        "torch.where(norms <= threshold, 1.0, 0.0)",
        (f"{ADAPTIVE}::test_adaptive_parts_keep_the_promise_whatever_the_rows",),
    ),
    Mutant(
        "counts-without-root-k",
        "The counts of K layers get the noise of one.",
        "sqrt(K) is remembered for the sums only.",
        "bounds/adaptive.py",
        "count = 0.5 * math.sqrt(len(partitions) / self.share)",
        "count = 0.5 * math.sqrt(1 / self.share)",
        (f"{ADAPTIVE}::test_its_noise_obeys_the_stated_rule",),
    ),
)
