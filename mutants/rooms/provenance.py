"""Mutants of provenance: models that private rows have shaped and nobody remembers, and code that mixes rows."""

from __future__ import annotations

from mutants.mutant import Mutant

ORIGIN, MIXING = "tests/privacy/test_origin.py", "tests/privacy/test_mixing.py"

MUTANTS = (
    Mutant(
        "trained-network-taken-for-public",
        "A network that private rows have shaped is trained on, and the statement counts the second training alone.",
        "A network is a network. Real: epsilon 2.0 was stated where 2.76 was spent.",
        "training/trainer.py",
        "check_origin(ledger, self.plan.delta, **self._pieces())",
        "pass",
        (f"{ORIGIN}::test_a_trained_network_is_refused_without_its_ledger_and_nothing_is_spent",),
    ),
    Mutant(
        "weights-forget-where-they-are-from",
        "Loaded into another network, weights lose the ledger that they came from.",
        "A state_dict is plain tensors.",
        "privacy/origin.py",
        "        if _KEY in local_metadata:\n",
        "        if _KEY in ():\n",
        (f"{ORIGIN}::test_copies_keep_it",),
    ),
    Mutant(
        "any-release-of-a-run-will-do",
        "A ledger that holds a part of a run's releases passes for one that holds all.",
        "The run's name is there.",
        "privacy/origin.py",
        "held[run] >= _count(made)",
        "run in held",
        ("tests/privacy/test_origin.py::test_a_ledger_on_disk_is_known_when_it_is_loaded_again_and_in_a_copy",),
    ),
    Mutant(
        "own-code-not-tried",
        "A loss, Z-step or front of the user's own that mixes rows is not noticed.",
        "Users know what they do.",
        "training/apart.py",
        "    fault = fault_of(",
        "    fault = None and fault_of(",
        (f"{MIXING}::test_a_loss_a_z_step_an_expansion_and_a_bound",),
    ),
    Mutant(
        "mixing-within-a-tolerance",
        "Code by which one row moves another passes for rounding, unless it moves it by ten times its numbers.",
        "A tolerance that is raised until some test passes.",
        "privacy/mixing.py",
        "ROUNDING = 1e-5",
        "ROUNDING = 10.0",
        ("tests/privacy/test_mixing.py::test_a_front",),
    ),
)
