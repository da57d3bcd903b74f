"""Imported by every Python that starts with this folder on its path: it sees the mutant, and its lines are noted.

Tests start processes of their own, which would otherwise run the code without the bug.
"""

from __future__ import annotations

import os

if "MUTANT_SOURCE" in os.environ:
    from mutants.machine.replacing import install

    install(os.environ["MUTANT_MODULE"], os.environ["MUTANT_SOURCE"])
if "MUTATE_TEST" in os.environ:
    from mutants.machine.tracing import start

    start()
