"""All mutants, by the part of the package that they are in."""

from __future__ import annotations

from mutants.bugs import (
    accounting,
    accounts,
    bounds,
    chunks,
    counts,
    door,
    estimators,
    files,
    fine_tuning,
    ledger,
    methods,
    module_estimators,
    modules,
    noise,
    parts,
    private_code,
    provenance,
    randomness,
    reference,
    sampling,
    saying,
    scores,
    searches,
    spending,
    splits,
    together,
    training,
)

PARTS = (
    *(sampling, counts, private_code, parts, chunks, bounds, reference, door, noise, randomness),
    *(
        ledger,
        accounts,
        splits,
        searches,
        provenance,
        accounting,
        methods,
        modules,
        module_estimators,
        fine_tuning,
        training,
        together,
    ),
    *(estimators, files, saying, spending, scores),
)
MUTANTS = tuple(mutant for part in PARTS for mutant in part.MUTANTS)
