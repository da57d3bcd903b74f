"""Mutants of provenance: models that private rows have shaped and nobody remembers, and code that mixes rows."""

from __future__ import annotations

from mutants.mutant import Mutant

ORIGIN, MIXING = "tests/privacy/test_origin.py", "tests/privacy/test_mixing.py"
REVIEWED = "tests/privacy/test_reviewed.py"

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
        "held[run] < _count(made)",
        "run not in held",
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
    Mutant(
        "a-table-forgets-its-front",
        "Rows behind a front that a release has made are asked anew, under an empty ledger.",
        "The table is private anyway. Real: a reviewer's find.",
        "privacy/door.py",
        "    if batch.origin:\n",
        "    if False:\n",
        (f"{REVIEWED}::test_rows_behind_a_released_front_remember_it",),
    ),
    Mutant(
        "closures-not-looked-into",
        "A released network inside a function of the user's own passes for public.",
        "A function has no attributes. Real: a reviewer's find.",
        "privacy/origin.py",
        "for cell in thing.__closure__ or ()",
        "for cell in ()",
        (f"{REVIEWED}::test_an_origin_is_found_wherever_python_can_look",),
    ),
    Mutant(
        "hooks-not-seen",
        "A network with a hook that mixes rows passes, once a plain one of its kind has been tried.",
        "The layers are ours. Real: a reviewer's find.",
        "training/step.py",
        "return not _hooked(piece) and all(",
        "return all(",
        (f"{REVIEWED}::test_a_network_with_a_hook_is_tried_though_its_kind_has_passed",),
    ),
    Mutant(
        "norms-can-be-written-into",
        "A bound that works in place on the norms it was given changes what the door checks.",
        "A copy costs time. Real: a reviewer's find.",
        "privacy/parts.py",
        "return whole.clone()",
        "return whole",
        (f"{REVIEWED}::test_a_bound_that_writes_into_norms_does_not_blind_the_door",),
    ),
    Mutant(
        "lengths-out-of-date",
        "Vectors that are changed in place after a bound has measured them are released at their old length.",
        "They were measured once. Real: a reviewer's find.",
        "privacy/parts.py",
        "return self._measured is not None and self._versions == (self.left._version, self.right._version)",
        "return self._measured is not None",
        (f"{REVIEWED}::test_vectors_that_change_after_the_bound_are_measured_again",),
    ),
)
