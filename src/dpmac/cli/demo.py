"""``dpmac demo``: a private classifier on data bundled with scikit-learn, in seconds, offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dpmac.estimators import DPMACClassifier


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the private model.")] = 2.0,
    delta: Annotated[float, typer.Option(help="Chance that the guarantee does not cover.")] = 1e-5,
    epochs: Annotated[float, typer.Option(help="Expected passes over the training rows.")] = 40,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the run repeatable. It is then not private against anyone who knows the seed."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
) -> None:
    """Train a private digit classifier and the same network without privacy, side by side.

    Data: scikit-learn's 1,797 handwritten digits of 8x8 pixels, bundled with it; 1,437 train, 360 test. Pixels are
    scaled by their public range, 0 to 16. Writes model, front, ledger, statement, history and a plot into a run folder.
    """
    from rich.console import Console
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from dpmac.estimators import DPMACClassifier

    console = Console()
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=360, random_state=0, stratify=y)
    console.print(f"scikit-learn digits: {len(X):,} training rows, {len(X_test)} test rows, 64 pixels, 10 classes\n")
    settings: dict[str, Any] = {  # chosen for images with clean labels; the defaults are for tables
        "hidden_layer_sizes": (300,),
        "bound": "normalise",
        "learning_rate": 0.03,
        "batch_size": len(X) // 4,
        "delta": delta,
        "epochs": epochs,
        "classes": tuple(range(10)),
        "feature_range": (0, 16),
        "random_state": seed,
        "progress": True,
    }
    private = DPMACClassifier(epsilon=epsilon, **settings).fit(X, y, public_validation=(X_test, y_test))
    plain = DPMACClassifier(epsilon=float("inf"), **settings).fit(X, y, public_validation=(X_test, y_test))
    accuracy, reference = private.score(X_test, y_test), plain.score(X_test, y_test)
    _show(console, private, accuracy, reference)
    folder = _write(console, out, private, plain, accuracy, reference)
    console.print(f"\nRun folder: [bold]{folder}[/bold]", soft_wrap=True)
    for path in sorted(folder.iterdir()):
        console.print(f"  {path.name}", highlight=False)


def _show(console: Console, private: DPMACClassifier, accuracy: float, reference: float) -> None:
    from rich.panel import Panel
    from rich.table import Table

    from dpmac.privacy.statement import round_up

    table = Table(title="Test accuracy, one hidden layer of 300 units")
    table.add_column("model")
    table.add_column("epsilon", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_row("private (DP-MAC)", round_up(private.privacy_.epsilon), f"{accuracy:.3f}")
    table.add_row("same network, not private", "none", f"{reference:.3f}")
    console.print(table)
    console.print(Panel(str(private.privacy_.statement()), title="Privacy statement", highlight=False))


def _write(
    console: Console, out: Path, private: DPMACClassifier, plain: DPMACClassifier, accuracy: float, reference: float
) -> Path:
    from dpmac.report.plots import training_curves
    from dpmac.training.run import new_folder

    folder = private.run_.save(
        new_folder(out, "demo"),
        extra={"test_accuracy": accuracy, "test_accuracy_not_private": reference},
    )
    curves = {
        f"private, epsilon {private.privacy_.epsilon:.2f}": private.history_,
        "same network, not private": plain.history_,
    }
    try:
        training_curves(curves, folder / "curves.png", title="Test accuracy on scikit-learn digits")
    except ImportError:
        console.print("\nNo plot: matplotlib is not installed; pip install 'dpmac[plots]' brings it.")
    return folder
