"""The environment of processes that run tests: where they find the code, the mutant and their own folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mutants.machine.profile import PROFILE
from mutants.mutant import ROOT

HOOK = Path(__file__).parent / "hook"


def environment(**more: str) -> dict[str, str]:
    """This process's, with the code of this tree first on the path, one thread, and the hook for whatever starts."""
    places = [str(HOOK), str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(place for place in places if place))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",  # a fork cannot use a device that the server has seen
        "HYPOTHESIS_PROFILE": PROFILE,
        **more,
    }


def key() -> str:
    """What decides, beside the code, whether a test passes here."""
    from importlib.metadata import PackageNotFoundError, version

    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    names = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "pytest")
    return " ".join([sys.version.split()[0], *(f"{name}={of(name)}" for name in names)])
