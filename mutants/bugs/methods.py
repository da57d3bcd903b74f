"""Mutants of methods: what is released beside training, at which noise, and what it is said to cost."""

from __future__ import annotations

from mutants.mutant import Mutant

CALIBRATION = "tests/methods/test_calibration.py"
CONTRACTS, TABLES = "tests/contracts.py", "tests/tables/test_estimate.py"

MUTANTS = (
    Mutant(
        "pca-rows-not-clipped",
        "DP-PCA's rows are divided by the radius and not clipped to it.",
        "Inside the radius nothing needs clipping.",
        "nets/feature_maps/projection.py",
        "factors = clip_factors(row_norms(moved), 1.0)[:, None]",
        "factors = torch.ones_like(moved[:, :1])",
        ("tests/methods/test_pca.py::test_blanking_any_row_moves_the_matrix_by_one_at_most",),
    ),
    Mutant(
        "pca-centred-by-the-rows",
        "DP-PCA takes the rows' own mean off them first, unpaid.",
        "Principal components are of centred rows.",
        "methods/pca.py",
        "torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device), ball(rows))]",
        "torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device), ball(rows - rows.mean(dim=0)))]",
        (f"{CONTRACTS}::test_query[DP-PCA]",),
    ),
    Mutant(
        "histogram-without-root-k",
        "K histograms of norms with the noise of one.",
        "One count a row: sensitivity 1.",
        "methods/histogram.py",
        "scale = math.sqrt(len(names)) / (1.0 - SLACK)",
        "scale = 1.0 / (1.0 - SLACK)",
        ("tests/methods/test_histogram.py::test_histogram_noise_has_its_scale",),
    ),
    Mutant(
        "histogram-drops-odd-rows",
        "The quantile is of the rows that were counted, so their private number decides a threshold.",
        "Dividing by what is there.",
        "methods/histogram.py",
        "self._read(counts[name].cpu(), self.edges(), rows.n)",
        "self._read(counts[name].cpu(), self.edges(), int((rows._rows >= 0).sum()))",
        ("tests/methods/test_histogram.py::test_the_quantile_is_of_the_public_number_of_places",),
    ),
    Mutant(
        "ranges-without-root-k",
        "The histograms of K columns with the noise of one.",
        "Columns look independent.",
        "tables/estimate.py",
        "scale = math.sqrt(len(names)) / (1.0 - SLACK)",
        "scale = 1.0 / (1.0 - SLACK)",
        (f"{TABLES}::test_deleting_a_row_moves_the_release_by_exactly_its_promise_at_most",),
    ),
    Mutant(
        "missing-cells-looked-at",
        "An estimated schema says of every column whether a cell is missing, which one row decides.",
        "It is useful to know, and only a flag.",
        "tables/estimate.py",
        "with_range(*(ranges[name] or NOWHERE), missing=name != target)",
        "with_range(\n"
        "                *(ranges[name] or NOWHERE),\n"
        "                missing=bool(np.isnan(readers[name].coded(name, cells(table, [name])[name])).any()),\n"
        "            )",
        (f"{TABLES}::test_whether_cells_are_missing_is_not_looked_at",),
    ),
    Mutant(
        "closed-form-pays-once",
        "The autoencoder's second release has the noise of the whole budget, beside the first.",
        "Both releases are made with the noise that was asked for.",
        "methods/closed_form.py",
        "second = check_multiplier(sigma / math.sqrt(1.0 - self.share))",
        "second = sigma",
        ("tests/methods/test_closed_form.py::test_the_ledger_holds_two_events_that_compose_to_one",),
    ),
    Mutant(
        "calibration-rounds-uncounted",
        "A plan counts the calibration once, though it is released in several rounds.",
        "One calibration is one entry.",
        "methods/calibration.py",
        "return Mechanism(self.noise_multiplier, 1.0, self.rounds, LABEL)",
        "return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)",
        ("tests/methods/test_calibration.py::test_every_round_is_one_entry_of_the_ledger",),
    ),
    Mutant(
        "calibration-share-of-one-round",
        "Each round of the calibration costs the share that all of them should cost together.",
        "sqrt(rounds) forgotten.",
        "methods/calibration.py",
        "return cls(noise_for(epsilon, delta) * math.sqrt(rounds / share), rounds)",
        "return cls(noise_for(epsilon, delta) / math.sqrt(share), rounds)",
        (f"{CALIBRATION}::test_a_share_is_that_part_of_one_gaussian_mechanism",),
    ),
    Mutant(
        "calibration-without-noise-at-the-end",
        "The last round of the calibration is released without noise, and looks best so.",
        "A final polish.",
        "methods/calibration.py",
        "noise_multiplier=self.noise_multiplier,",
        "noise_multiplier=self.noise_multiplier if done + 1 < self.rounds else 0.0,",
        (f"{CALIBRATION}::test_every_round_is_one_entry_of_the_ledger",),
    ),
    Mutant(
        "base-rates-stated-too-cheap",
        "Base rates are said to have twice the noise that they have.",
        "Two partitions, each with sqrt(2) times the noise.",
        "methods/one_release.py",
        "return Mechanism(self.noise_multiplier, 1.0, 1, self.label)",
        "return Mechanism(2 * self.noise_multiplier, 1.0, 1, self.label)",
        ("tests/methods/test_base_rates.py::test_it_is_one_entry_of_the_ledger",),
    ),
    Mutant(
        "base-rates-released-twice",
        "A fit that was resumed behind its base rates releases them once more, beyond the budget.",
        "Nothing was kept of the first.",
        "methods/base_rates.py",
        "if made and kept is not None:",
        "if made > 1 and kept is not None:",
        ("tests/methods/test_base_rates.py::test_what_was_kept_is_not_released_again",),
    ),
    Mutant(
        "residuals-share-upside-down",
        "A small share of the budget buys a residual scale with little noise.",
        "times for over.",
        "methods/one_release.py",
        "epsilon, delta) / math.sqrt(share))",
        "epsilon, delta) * math.sqrt(share))",
        ("tests/methods/test_residuals.py::test_a_share_costs_that_part_of_one_gaussian_mechanism",),
    ),
    Mutant(
        "mean-by-the-rows-there",
        "A mean divides by the number of rows that are there, which is private.",
        "That is what a mean is.",
        "methods/mean.py",
        "divisor=table.n,",
        "divisor=max(1, int((table._rows >= 0).sum())),",
        ("tests/test_public_to_neighbours.py::test_a_release_is_told_the_same[mean]",),
    ),
)
