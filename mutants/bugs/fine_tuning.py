"""Mutants of fine-tuning: adapters beside frozen weights, and frozen modules before a private head."""

from __future__ import annotations

from mutants.mutant import Mutant

LORA, FROZEN = "tests/modules/test_lora.py", "tests/modules/test_frozen.py"

MUTANTS = (
    Mutant(
        "frozen-weights-trained",
        "The weights beside adapters are noised and trained as well.",
        "Adapters are put in, and nobody freezes the rest.",
        "modules/lora.py",
        "    copied.requires_grad_(False)\n",
        "",
        (f"{LORA}::test_only_adapters_are_trained_bounded_noised_and_in_the_ledger",),
    ),
    Mutant(
        "adapter-beyond-the-bound",
        "The last parameter's share is handed over as it is, though the promise is for all of them.",
        "A head is small.",
        "modules/step.py",
        "        return self.bound.apply(self.gradients.parts(*rows))",
        "        parts = self.gradients.parts(*rows)\n        return [*self.bound.apply(parts[:-1]), parts[-1]]",
        (f"{LORA}::test_only_adapters_are_trained_bounded_noised_and_in_the_ledger",),
    ),
    Mutant(
        "features-of-the-rows-that-are-there",
        "An expensive feature map is applied to the rows that are there, in one product: its shape tells of a row.",
        "Blank places are a waste of time.",
        "extensions/feature_maps.py",
        "_found(table, _in_blocks(rows_at)):",
        "_found(table, (rows_at[rows_at >= 0].unsqueeze(1),)):",
        (f"{FROZEN}::test_features_are_computed_in_public_blocks_each_row_at_its_own_place",),
    ),
    Mutant(
        "rows-packed-without-padding",
        "Torch packs a block's rows without their padding: a row's rounding tells how long the others are.",
        "It is quicker, and torch does it by itself.",
        "modules/frozen.py",
        "        with Watch(RULES, {}, len(rows)):\n",
        "        with torch.no_grad():\n",
        (f"{FROZEN}::test_torch_may_not_pack_rows_without_their_padding",),
    ),
    Mutant(
        "frozen-module-not-named",
        "The statement does not say what a frozen module was trained on.",
        "It is public.",
        "modules/frozen.py",
        "        self.origin = PUBLIC.called_public(said)\n",
        "",
        (f"{FROZEN}::test_the_statement_names_what_it_was_trained_on",),
    ),
    Mutant(
        "frozen-module-takes-any-word",
        "A module that private rows have shaped becomes public by being frozen.",
        "The user has said what it was trained on.",
        "modules/frozen.py",
        "        self.module.requires_grad_(False)\n",
        "        self.module.requires_grad_(False)\n"
        "        for part in self.module.modules():\n            vars(part).pop('dpmac_origin', None)\n",
        (f"{FROZEN}::test_a_module_that_private_rows_shaped_is_refused_without_its_ledger",),
    ),
    Mutant(
        "frozen-module-in-training-mode",
        "A frozen module goes into training mode with the model around it: batch norm then mixes rows.",
        "train() is for all modules.",
        "modules/frozen.py",
        "        super().train(mode)\n        self.module.eval()\n",
        "        super().train(mode)\n",
        (f"{FROZEN}::test_it_is_the_module_in_evaluation_mode_without_gradients",),
    ),
    Mutant(
        "frozen-module-not-tried",
        "Whether a frozen module treats every row by itself is not tried.",
        "It is not trained.",
        "modules/frozen.py",
        "        if fault is not None:\n",
        "        if fault is not None and not self.module:\n",
        (f"{FROZEN}::test_what_is_no_feature_map_is_refused_before_anything_is_spent",),
    ),
)
