"""The demonstration on pictures: scikit-learn's handwritten digits, with settings for images of clean labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.cli.demo import Shown, fit_both, names

if TYPE_CHECKING:
    from rich.console import Console

EPOCHS = 40  # if none are given


def show(console: Console, epsilon: float, settings: dict[str, Any]) -> Shown:
    """Train and show the accuracy. Pixels are scaled by their public range, 0 to 16."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=360, random_state=0, stratify=y)
    console.print(f"scikit-learn digits: {len(X):,} training rows, {len(X_test)} test rows, 64 pixels, 10 classes\n")
    chosen = {  # for images with clean labels; the defaults are for tables
        "hidden_layer_sizes": (300,),
        "bound": "normalise",
        "learning_rate": 0.03,
        "batch_size": len(X) // 4,
        "classes": tuple(range(10)),
        "feature_range": (0, 16),
        **settings,
        "epochs": EPOCHS if settings["epochs"] is None else settings["epochs"],
    }
    private, plain = fit_both(console, epsilon, chosen, X, y, (X_test, y_test))
    accuracy, reference = private.score(X_test, y_test), plain.score(X_test, y_test)
    _table(console, private.privacy_.epsilon, accuracy, reference)

    def draw(folder: Path) -> None:
        from dpmac.report.plots import training_curves

        curves = dict(zip(names(private), (private.history_, plain.history_), strict=True))
        training_curves(curves, folder / "curves.png", title="Test accuracy on scikit-learn digits")

    return Shown(private, {"test_accuracy": accuracy, "test_accuracy_not_private": reference}, draw)


def _table(console: Console, epsilon: float, accuracy: float, reference: float) -> None:
    from rich.table import Table

    from dpmac.privacy.statement import round_up

    table = Table(title="Test accuracy, one hidden layer of 300 units")
    table.add_column("model")
    table.add_column("epsilon", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_row("private (DP-MAC)", round_up(epsilon), f"{accuracy:.3f}")
    table.add_row("same network, not private", "none", f"{reference:.3f}")
    console.print(table)
