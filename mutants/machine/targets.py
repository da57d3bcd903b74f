"""The files that are mutated, in groups: the core, and what else can make a statement wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from mutants.mutant import PACKAGE, ROOT

CORE = ("privacy", "kernels", "extensions", "bounds", "planning", "randomness")  # packages of which all is mutated

# Files are under src/dpmac. A file of CORE that no group names is of the group "argument".
_NAMED = {
    "ledger": (
        *("privacy/ledger.py", "privacy/entry.py", "extensions/ledgers.py", "extensions/entries.py"),
        *("extensions/ledger_file.py", "extensions/ledger_header.py", "extensions/rollback_guard.py", "files.py"),
        *("extensions/accounts.py", "extensions/accounted.py", "extensions/ledger_places.py", "extensions/writers.py"),
        "extensions/turns.py",
    ),
    "account": (
        *("privacy/accounting.py", "kernels/loss_distributions.py", "kernels/moments.py", "kernels/selection.py"),
        *("planning/calibration.py", "planning/plan.py"),
        *("planning/search.py", "privacy/statement.py", "checks.py"),
    ),
    "provenance": (
        *("extensions/provenance.py", "extensions/runs.py", "extensions/contents.py", "extensions/outputs.py"),
        *("extensions/row_independence.py", "estimators/stages.py", "training/learned.py"),
        *("saving/states.py", "saving/arguments.py"),
    ),
    "processes": (
        *("extensions/world.py", "extensions/processes.py", "training/distributed.py", "training/row_independence.py"),
        "training/distributed_sync.py",
    ),
    "training": (
        "training/step.py",
        "training/checkpoint.py",
        "training/training_state.py",
        "training/post_training.py",
    ),
    "estimators": (
        *("estimators/budget.py", "estimators/guarantee.py", "estimators/sharing.py", "estimators/base.py"),
        *("estimators/arguments.py", "estimators/resumable.py", "tables/estimate.py"),
    ),
    "command line": (
        *("cli/budget.py", "cli/training.py", "cli/jobs.py", "cli/resume.py", "cli/schema.py", "cli/ledger.py"),
        *("cli/several.py", "cli/train.py", "cli/telling.py", "cli/accounts.py", "cli/schema_check.py"),
    ),
}

# Code that runs on a GPU alone, which these tests do not have: it has tests of its own for such a machine.
NOT_HERE = ("kernels/chacha_triton.py", "kernels/recording.py")


def listed() -> list[str]:
    """The files in the table of docs/trust.md, but for those that a processor cannot run."""
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    section = page.split("## Read these files to trust it")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    found = [file for row in rows for file in re.findall(r"`([a-z_/]+\.py)`", row)]
    return [file for file in found if file not in NOT_HERE]


def core() -> list[str]:
    """All files of the core's packages, but for those that a processor cannot run and those that only import."""
    there = [path for package in CORE for path in sorted((ROOT / PACKAGE / package).glob("*.py"))]
    found = [path.relative_to(ROOT / PACKAGE).as_posix() for path in there if path.name != "__init__.py"]
    return [file for file in found if file not in NOT_HERE]


def groups() -> dict[str, list[str]]:
    """Every group's files, "argument" first."""
    named = {file for files in _NAMED.values() for file in files}
    return {
        "argument": [file for file in core() if file not in named],
        **{group: list(files) for group, files in _NAMED.items()},
    }


def group_of() -> dict[str, str]:
    """The group of every file."""
    return {file: group for group, files in groups().items() for file in files}


def chosen(patterns: list[str] | None) -> Iterator[str]:
    """The files that fit one of the patterns (``privacy/*``, or a group's name); all files if there are none."""
    for group, files in groups().items():
        for file in files:
            if not patterns or any(pattern == group or fnmatch(file, pattern) for pattern in patterns):
                yield file
