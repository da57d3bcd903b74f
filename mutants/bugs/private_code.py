"""Mutants of the code that sees rows: networks, feature_maps, losses, coordinates. Each lets one row feel another."""

from __future__ import annotations

from mutants.mutant import Mutant

CONTRACTS = "tests/contracts.py"

MUTANTS = (
    Mutant(
        "batch-norm-in-a-feature-map",
        "A feature map takes the block's own mean off every row.",
        "Batch normalisation is what everybody puts there.",
        "nets/feature_maps/scaling.py",
        "return (rows.double() - self.centre) * self.scale",
        "return (rows.double() - rows.double().mean(dim=0)) * self.scale",
        (f"{CONTRACTS}::test_feature_map[affine]",),
    ),
    Mutant(
        "range-of-the-rows",
        "Features are scaled by the largest value of the block, where the public range should be.",
        "A min-max scaler.",
        "nets/feature_maps/scaling.py",
        "return torch.clamp(2 * (rows.double() - self.low) / (self.high - self.low) - 1, -1, 1)",
        "return torch.clamp(2 * (rows.double() - self.low) / (rows.double().amax() - self.low) - 1, -1, 1)",
        (f"{CONTRACTS}::test_feature_map[to-range]",),
    ),
    Mutant(
        "rounding-blown-up",
        "A row that is zero but for rounding is put on the sphere: rounding decides what it says.",
        "Dividing by the norm. Real: it moved a sum by 4.3 times its promise in version 0.1.",
        "nets/feature_maps/projection.py",
        "usable = torch.isfinite(norms) & (norms >= FLOOR)",
        "usable = torch.isfinite(norms) & (norms > 0)",
        ("tests/nets/test_feature_maps.py::test_rows_too_short_to_have_a_direction_give_zeros",),
    ),
    Mutant(
        "feature-map-on-the-whole-table",
        "An expensive feature map is applied to all rows in one product, whose shape tells how many there are.",
        "Computing once is computing for all. Real: version 0.1.",
        "extensions/feature_maps.py",
        "size = block_size(places, None)",
        "size = max(1, int((rows >= 0).sum()))",
        ("tests/test_neighbours.py::test_a_kernel_that_rounds_by_shape_sees_public_shapes_only",),
    ),
    Mutant(
        "balanced-classes",
        "Class weights are divided by the class frequencies of the block.",
        "class_weight='balanced' is everyone's favourite.",
        "nets/weighting.py",
        "return (target * _tensor(self.weights, target.dtype, target.device)).sum(dim=1, keepdim=True)",
        "target = target / target.mean(dim=0).clamp(min=1e-9)\n"
        "        return (target * _tensor(self.weights, target.dtype, target.device)).sum(dim=1, keepdim=True)",
        (f"{CONTRACTS}::test_query[step, loss weighted classes]",),
    ),
    Mutant(
        "softmax-over-the-batch",
        "The softmax runs over rows, and not over classes.",
        "dim=0 for dim=1.",
        "nets/losses.py",
        "return torch.softmax(u.T.contiguous(), dim=0).T.contiguous()",
        "return torch.softmax(u, dim=0)",
        (f"{CONTRACTS}::test_query[step, Z-step fixed]",),
    ),
    Mutant(
        "gradients-normalised-over-the-block",
        "The paper's Z-step divides every row's gradient by the length of the block's.",
        "Gradient normalisation helps.",
        "mac/zsteps/adam.py",
        "            descent.descend()\n            move()",
        "            descent.descend()\n"
        "            descent.gradient.div_(1 + descent.gradient.norm())\n            move()",
        ("tests/mac/zsteps/test_rows_alone.py::test_changing_one_row_changes_only_that_rows_coordinates",),
    ),
    Mutant(
        "early-stopping-for-all",
        "A Z-step ends for all rows when the largest gradient of the block is small.",
        "A stopping rule saves steps.",
        "mac/zsteps/error.py",
        "            sweeps.descend()\n            move()",
        "            sweeps.descend()\n"
        "            if sweeps.gradient.abs().max() < 0.1:\n                break\n            move()",
        ("tests/mac/zsteps/test_rows_alone.py::test_the_rest_of_the_batch_is_not_felt",),
    ),
    Mutant(
        "damping-of-the-block",
        "Gauss-Newton's damping is one number for the block, by its mean curvature.",
        "Levenberg and Marquardt have one number, too.",
        "mac/zsteps/gauss_newton.py",
        "mu = torch.clamp(ROUNDING * trace, min=self.mu).unsqueeze(1)",
        "mu = torch.clamp(ROUNDING * trace, min=self.mu * (1 + float(trace.nanmean()))).unsqueeze(1)",
        ("tests/mac/zsteps/test_rows_alone.py::test_changing_one_row_changes_only_that_rows_coordinates",),
    ),
    Mutant(
        "bad-solve-stops-all",
        "A row whose solve fails raises for the whole block: whether a run ends tells of one row.",
        "The library's own behaviour.",
        "mac/zsteps/gauss_newton.py",
        "factor, failed = torch.linalg.cholesky_ex(torch.where(fine.reshape(-1, 1, 1), matrix, identity))",
        "factor, failed = torch.linalg.cholesky_ex(matrix, check_errors=True)",
        ("tests/mac/zsteps/test_gauss_newton.py::test_a_row_whose_solve_is_not_finite_is_marked_and_does_not_raise",),
    ),
    Mutant(
        "mean-over-the-batch-in-an-expansion",
        "Slopes are divided by their mean length over the block before they reach the bound.",
        "Layers of different loudness are made alike.",
        "mac/expansions.py",
        "problem.stage.layer.part(slope if problem.loss.weight == 1 else slope / problem.loss.weight, inputs)",
        "problem.stage.layer.part(slope / (problem.loss.weight * (1e-9 + slope.abs().mean())), inputs)",
        ("tests/contracts.py::test_expansion[first]",),
    ),
)
