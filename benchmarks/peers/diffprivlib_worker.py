"""Runs in diffprivlib's own environment (its scikit-learn is an older one): `diffprivlib_worker.py IN.npz OUT.npz`.

IN holds kind (linear or forest), train, y, test, epsilon, is_class, low, high, and for linear norm, y_low, y_high; OUT
gets predicted and seconds. The forest's trees divide the rows, so each tree has all of epsilon.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

TREES, DEPTH = 100, 8


def main(source: str, goal: str) -> None:
    from diffprivlib.models import LinearRegression, LogisticRegression, RandomForestClassifier
    from diffprivlib.utils import PrivacyLeakWarning

    warnings.simplefilter("ignore")
    warnings.simplefilter("error", PrivacyLeakWarning)
    given = np.load(source)
    epsilon, start = float(given["epsilon"]), time.perf_counter()
    bounds = (given["low"], given["high"])
    if not given["is_class"]:
        bounds_y = (float(given["y_low"]), float(given["y_high"]))
        model = LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=bounds_y)
        model.fit(given["train"], given["y"])
    else:
        if given["kind"] == "forest":
            model = RandomForestClassifier(TREES, epsilon=epsilon, bounds=bounds, classes=[0, 1], max_depth=DEPTH)
        else:
            model = LogisticRegression(epsilon=epsilon, data_norm=float(given["norm"]), max_iter=1000)
        model.fit(given["train"], given["y"].astype(int))
    seconds = time.perf_counter() - start
    predicted = model.predict_proba(given["test"])[:, 1] if given["is_class"] else model.predict(given["test"])
    np.savez(goal, predicted=np.asarray(predicted, np.float64), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:3])
