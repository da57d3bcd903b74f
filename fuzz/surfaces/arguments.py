"""Odd arguments of estimators. None of them asks for a long training."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.cases import Case

NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    float("nan"),
    float("inf"),
    -float("inf"),
    "2",
    None,
    True,
    np.float32(8),
    [1],
    1e-9,
    {},
)
ODD: dict[str, tuple[Any, ...]] = {
    "epsilon": (*NUMBERS, 1e12, 8, np.float64(8), np.array(8.0), np.array([8.0])),
    "delta": (*NUMBERS, 0.5, 1e-3, 1, 1e-300, 1 / 24),
    "batch_size": (*NUMBERS, 1, 12, 24, 25, 1e9, 0.5, np.int8(12)),
    "epochs": (*NUMBERS[:-2], 0.1, 1, 3),
    "hidden_layer_sizes": ((), (0,), (-1,), (3,), [4, 2], 3, "auto", "none", None, (2.5,), ("3",), np.array([3]), {3}),
    "activation": ("relu", "tanh", "nothing", None, 3, [], "", len),
    "learning_rate": NUMBERS,
    "z_step": ("fixed", "nothing", None, 3, [], "adam", "error"),
    "bound": ("joint", "clip", "normalise", "adaptive", "nothing", None, 3, [], len),
    "random_state": (None, 0, -1, 2**40, 1.5, "1", True, np.random.RandomState(0), np.int64(3), [],
                     np.random.default_rng(0)),
    "feature_range": (None, (0, 1), (1, 0), (0, 0), (0,), 3, "01", ("a", "b"), (0, np.inf), ([0] * 3, [1] * 3),
                      ([0], [1]), (np.nan, 1), {"a": 1}, ((0, 1), (0, 1)), (None, None)),
    "total_epsilon": (*NUMBERS, 100.0, 0.5),
    "machine": (None, 3, "cuda", {}, []),
    "ledger": (None, 3, [], "", ".", "no/such/folder/ledger"),
    "schema": (None, 3, {}, {"columns": {}}, "schema.json", []),
}  # fmt: skip
MACHINE: dict[str, tuple[Any, ...]] = {
    "micro_batch_size": (None, 0, -1, 1, 7, 1e9, "3", 2.5, [], True, float("nan")),
    "threads": (None, 0, -1, 1, 2, "1", 1.5, [], float("nan")),
    "memory": (None, 0, -1, 1, 2**40, "3", 2.5, [], float("nan")),
    "scratch": (None, "auto", ".", "no/such/folder", 3, []),
    "device": ("cpu", "nothing", "", None, 3, "cuda:99", "meta", "cpu:0", []),
    "progress": (True, False, "auto", "no", None, 3),
    "checkpoint": (None, 3, "", [], "."),
    "world": (None, 3, "", []),
}
LABELS: dict[str, tuple[Any, ...]] = {
    "classes": (None, [], [0], [0, 1], [1, 0], ["0", "1"], [0, 1, 2], [0, 0, 1], 3, "01", range(2), {0, 1}, [0, None],
                [0, "1"], [[0], [1]], np.array([0, 1]), [0, float("nan")], [0, [1]], {0: 1}),
    "class_weight": (None, "balanced", {}, {0: 1.0}, {0: 0}, {0: -1}, {5: 1}, {0: "1"}, {0: float("nan")}, 3, [], [{}],
                     "x", {0: 1e9}, {(): 1}),
    "calibrate": (True, False, None, 3, "yes"),
    "loss": ("softmax", "sigmoid", "nothing", None, 3, []),
}  # fmt: skip
TARGETS: dict[str, tuple[Any, ...]] = {
    "target_range": (
        None,
        (0, 1),
        (1, 0),
        (0, 0),
        3,
        (0, float("inf")),
        ("0", "1"),
        (0, 1, 2),
        [0, 1],
        (0, 1e-320),
        (-1e300, 1e300),
    ),
    "residuals": (True, False, None, 3),
}
CODES: dict[str, tuple[Any, ...]] = {
    "n_components": (1, 2, 3, 4, 0, -1, 2.5, None, "2", True, float("nan"), []),
    "normalise": (True, False, None, 3),
    "code_size": (1, 2, 3, 9, 0, -1, 2.5, "2", None, []),
    "method": ("auto", "closed-form", "gradient", "nothing", None, 3),
    "share": (0.5, 1.0, 0, -1, 2, None, "1", float("nan")),
}


def spoil(case: Case, arguments: dict[str, Any], known: dict[str, tuple[Any, ...]]) -> None:
    """Put one odd argument among ``arguments``, of those that are known to the estimator."""
    name = case.one_of(sorted(known))
    value = case.one_of(known[name])
    case.note(f"{name}={value!r:.60}")
    arguments[name] = value
