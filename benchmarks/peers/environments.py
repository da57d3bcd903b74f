"""Peers that cannot share our environment: each has one of its own, built on demand, and a worker that runs in it.

diffprivlib needs an older scikit-learn; DP-XGBoost an older NumPy (and a C++ compiler and CMake: the registry has its
source only); smartnoise-synth an older Opacus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .data import Array


class Recipe(NamedTuple):
    pins: tuple[str, ...]
    probe: str  # what must import


RECIPES = {
    "diffprivlib": Recipe(("diffprivlib>=0.6.6", "scikit-learn<1.6"), "diffprivlib.models"),
    "dp-xgboost": Recipe(("dp-xgboost==0.2.10", "numpy<2", "scipy<1.15"), "dp_xgboost"),
    "smartnoise": Recipe(
        ("smartnoise-synth==1.0.8", "scikit-learn>=1.5", "torch==2.13.0"), "snsynth, sklearn.ensemble"
    ),
}


class Environments(NamedTuple):
    """The folder that holds them, and the seconds after which a worker is stopped."""

    folder: Path
    cap: float

    def python(self, name: str) -> Path:
        return self.folder / f"venv-{name}" / "bin" / "python"


def build(environments: Environments, name: str) -> None:
    """Nothing where the environment is there and its library imports; an OSError says why it cannot be had."""
    python, recipe = environments.python(name), RECIPES[name]
    probe = [str(python), "-c", f"import {recipe.probe}"]
    if python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return
    room = python.parent.parent
    print(f"building {room} for {name}", file=sys.stderr)
    venv.create(room, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *recipe.pins]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"pip could not install {' '.join(recipe.pins)}: {done.stderr.strip()[-300:]}")
    subprocess.run(probe, capture_output=True, check=True)


def ask(environments: Environments, name: str, worker: str, **given: Any) -> tuple[Array, float]:
    """What `WORKER IN.npz OUT.npz` predicts, and its seconds; a RuntimeError if it fails or runs past the cap."""
    with tempfile.TemporaryDirectory() as folder:
        source, goal = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **given)
        command = [str(environments.python(name)), str(Path(__file__).parent / worker), str(source), str(goal)]
        path = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # their packages, not ours
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=environments.cap, env=path
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{worker} was stopped after {environments.cap:g} s (--cap)") from None
        if done.returncode:
            raise RuntimeError(f"{worker} failed: {done.stderr.strip()[-500:]}")
        with np.load(goal) as answer:
            return answer["predicted"], float(answer["seconds"])
