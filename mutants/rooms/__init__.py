"""All mutants, room by room."""

from __future__ import annotations

from mutants.rooms import (
    accounting,
    bounds,
    door,
    estimators,
    ledger,
    methods,
    noise,
    parts,
    private_code,
    provenance,
    randomness,
    sampling,
    saying,
    together,
    training,
)

ROOMS = (
    *(sampling, private_code, parts, bounds, door, noise, randomness),
    *(ledger, provenance, accounting, methods, training, together, estimators, saying),
)
MUTANTS = tuple(mutant for room in ROOMS for mutant in room.MUTANTS)
