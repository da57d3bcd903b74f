"""A pytest plugin: the package under test must be the mutant's copy, and whoever kills it is written down.

Loaded by ``-p mutants.guard``; ``MUTANT_COPY`` is the copy's root, ``MUTANT_REPORT`` the file for what has failed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ELSEWHERE = 97  # the exit code if another copy of the package was imported


def pytest_configure() -> None:
    """End at once if the tests would run on other code than the mutant's."""
    import dpmac

    if not Path(dpmac.__file__).resolve().is_relative_to(Path(os.environ["MUTANT_COPY"]).resolve()):
        pytest.exit(f"dpmac was imported from {dpmac.__file__}", returncode=ELSEWHERE)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        with Path(os.environ["MUTANT_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")
