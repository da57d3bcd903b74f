"""Runs in diffprivlib's own environment (its scikit-learn is an older one): `diffprivlib_worker.py IN.npz OUT.npz`.

IN holds train, y, test, epsilon, is_class, low, high, norm, y_low, y_high; OUT gets predicted and seconds.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np


def main(source: str, goal: str) -> None:
    from diffprivlib.models import LinearRegression, LogisticRegression
    from diffprivlib.utils import PrivacyLeakWarning

    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PrivacyLeakWarning)
    given = np.load(source)
    epsilon, start = float(given["epsilon"]), time.perf_counter()
    if given["is_class"]:
        model = LogisticRegression(epsilon=epsilon, data_norm=float(given["norm"]), max_iter=1000)
        model.fit(given["train"], given["y"].astype(int))
        seconds = time.perf_counter() - start
        predicted = model.predict_proba(given["test"])[:, 1]
    else:
        bounds_y = (float(given["y_low"]), float(given["y_high"]))
        model = LinearRegression(epsilon=epsilon, bounds_X=(given["low"], given["high"]), bounds_y=bounds_y)
        model.fit(given["train"], given["y"])
        seconds = time.perf_counter() - start
        predicted = model.predict(given["test"])
    np.savez(goal, predicted=np.asarray(predicted, np.float64), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:3])
