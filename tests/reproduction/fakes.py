"""Made-up runs for the tests of ``reproduction``. Nothing heavy is imported: workers import this for ``fake_run``."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from reproduction.store import Finished, Job


def fake_run(job, data_path, device="cpu"):
    """A result by seed; the row's name says what else happens. Every call leaves a file ``KEY.call.N.PID``."""
    calls = Path(data_path)
    (calls / f"{job.key}.call.{time.monotonic_ns()}.{os.getpid()}").touch()
    if job.row == "fails" and job.seed == 1:
        raise RuntimeError("no luck\nsecond line")
    if job.row == "dies" and job.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.row == "slow":
        while job.seed >= 4 and not (calls / "go on").exists():  # until then four runs are all there can be
            time.sleep(0.02)
    return {"metric": 0.9 + job.seed / 100, "curve": [], "mechanisms": [], "delta": 1e-5}


def fake_jobs(row="fine", count=4, epsilon=2.0):
    return [Job("mnist", row, "paper", epsilon, seed) for seed in range(count)]


def mechanism(sigma, rate=1 / 60, count=1800):
    return {"label": "step", "noise_multiplier": sigma, "sample_rate": rate, "count": count}


def make_run(table="mnist", row="DP-MAC", preset="paper", epsilon=2.0, seed=0, metric=0.95, sigma=2.8, **more):
    result = {"metric": metric, "mechanisms": [mechanism(sigma)], "delta": 1e-5, "seconds": 3.0, "curve": []}
    made_with = {"dpmac": "0.1.0", "command": "python -m reproduction"}
    return Finished(table, row, preset, epsilon, seed, {**result, "recipe": {"lr": 0.01}, **more}, made_with)


def training(level, seed, drop=1.0, epochs=30):
    """A curve that comes down (or up) to ``level``; seeds differ a little."""
    bent = [level + drop * math.exp(-e / 4) + 0.01 * drop * math.sin(e + seed) for e in range(1, epochs + 1)]
    return [{"epoch": float(e), "train": v - 0.02 * drop, "test": v} for e, v in enumerate(bent, 1)]
