"""``dpmac demo``: a private classifier on real data that is always there, in seconds, offline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dpmac.estimators import DPMACClassifier


class Data(StrEnum):
    """What there is to train on."""

    ADULT = "adult"
    DIGITS = "digits"


@dataclass(frozen=True)
class Shown:
    """What a demonstration has trained and found; ``draw`` puts its pictures into a folder."""

    private: DPMACClassifier
    result: dict[str, Any]
    draw: Callable[[Path], None]
    evaluation: dict[str, Any] | None = None  # for the report


def demo(
    data: Annotated[Data, typer.Option(help="A table of people, or pictures of handwritten digits.")] = Data.ADULT,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the private model.")] = 2.0,
    delta: Annotated[
        float | None, typer.Option(help="Chance that the guarantee does not cover. Left out: safely below 1/n.")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Expected passes over the training rows. Left out: the default.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the run repeatable. It is then not private against anyone who knows the seed."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
) -> None:
    """Train a private classifier and the same network without privacy, side by side.

    [bold]adult[/bold]: 10,000 people of the US census of 1994 (UCI Adult, comes with this package); 8,000 train,
    2,000 test. Who earned more than 50,000 dollars? All settings are the defaults, which were chosen on seventeen
    tables, this among them. Shows ranking (AUROC), log-loss against that of the base rate alone, and what the
    probabilities are worth: predicted against observed.

    [bold]digits[/bold]: scikit-learn's 1,797 handwritten digits of 8x8 pixels; 1,437 train, 360 test.

    Writes model, ledger, statement, a model card, plots and a report (report.html) into a run folder, which
    [bold]dpmac predict[/bold] and dpmac.load take. Nothing is downloaded.

    [bold]Examples[/bold]

      dpmac demo

      dpmac demo --epsilon 0.5

      dpmac demo --data digits --epochs 20
    """
    import torch
    from rich.console import Console
    from rich.panel import Panel

    from dpmac.cli import demo_digits, demo_people
    from dpmac.cli.places import check_text, tried_folder
    from dpmac.cli.scores import keep
    from dpmac.estimators import Machine
    from dpmac.report.page import write_report
    from dpmac.training.run import new_folder

    torch.set_num_threads(1)  # batches this small gain nothing from a second one, and lose much where cores are shared
    console = Console()
    settings = {"delta": delta, "epochs": epochs, "random_state": seed, "machine": Machine(progress=True)}
    if data is Data.ADULT:
        show = demo_people.show
    else:
        show = demo_digits.show
    check_text("--out", str(out))
    with tried_folder(new_folder(out, "demo")):
        pass
    shown = show(console, epsilon, settings)
    console.print(Panel(str(shown.private.privacy_.statement()), title="Privacy statement", highlight=False))
    folder = shown.private.save(new_folder(out, "demo"), extra=shown.result)
    if shown.evaluation is not None:
        keep(folder, shown.evaluation)
    write_report(folder)
    try:
        shown.draw(folder)
    except ImportError:
        console.print("\nNo plots: matplotlib is not installed; pip install 'dpmac[plots]' brings it.", markup=False)
    console.print(f"\nRun folder: [bold]{folder}[/bold]", soft_wrap=True)
    for path in sorted(folder.iterdir()):
        console.print(f"  {path.name}", highlight=False)


def names(private: DPMACClassifier) -> tuple[str, str]:
    """The two models in the legends of plots."""
    from dpmac.privacy.statement import round_up

    return f"private, epsilon {round_up(private.privacy_.epsilon)}", "same network, not private"


def fit_both(console: Console, epsilon: float, settings: dict[str, Any], rows: Any, labels: Any, public: Any) -> Any:
    """The private model and the same network without noise, calibration or bound, each with a bar."""
    from dpmac.estimators import DPMACClassifier

    fitted = []
    for what, budget in (("private", epsilon), ("the same, not private", float("inf"))):
        console.print(f"training: {what}", highlight=False)
        model = DPMACClassifier(epsilon=budget, **settings)
        fitted.append(model.fit(rows, labels, public_validation=public))
    console.print()
    return fitted
