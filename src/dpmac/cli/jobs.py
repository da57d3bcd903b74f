"""What ``dpmac train`` was asked, as a file in the run folder: all that ``dpmac resume`` needs to ask for it again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmac.privacy import Ledger
    from dpmac.tables import Schema
    from dpmac.training.checkpoint import Checkpoints

FORMAT = "dpmac-job-1"
JOB = "job.json"
CHECKPOINT = "checkpoint"
OWN_LEDGER = "checkpoint.ledger"  # of a run that was given none, while it trains; then it is RUN/ledger.jsonl


@dataclass(frozen=True)
class Job:
    """One training: public choices and the paths of files, which are absolute; ``schema`` is the whole of it.

    ``rows`` is the number of rows, and ``before`` the number of releases that the ledger held before the first step.
    """

    file: str
    schema: dict[str, Any]
    ledger: str
    epsilon: float
    delta: float | None = None
    total_epsilon: float | None = None
    epochs: float | None = None
    batch_size: float | None = None
    hidden: list[int] | None = None
    seed: int | None = None
    threads: int | None = None
    name: str = ""
    purpose: str = ""
    data_set: str = ""
    public_test: str | None = None
    rows: int = 0
    before: int = 0

    def save(self, folder: Path) -> None:
        """Write ``job.json``."""
        from dpmac.tables.files import whole_file

        with whole_file(folder / JOB) as handle:
            handle.write(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Job:
        """Read ``job.json``; a ValueError names the file if it is damaged."""
        path = folder / JOB
        try:
            raw = json.loads(path.read_text("utf-8"))
            if raw.pop("format") != FORMAT or set(raw) != {field.name for field in fields(cls)}:
                raise ValueError("its keys are not those of this version")
            return cls(**raw)
        except FileNotFoundError:
            raise
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{path}: damaged, or of another version ({error})") from None

    def read_schema(self) -> Schema:
        from dpmac.tables import Schema

        return Schema.from_dict(self.schema)

    def estimator(self, ledger: Ledger, checkpoint: Checkpoints) -> Any:
        """The estimator that the schema's target asks for: classifier, regressor, or autoencoder without one."""
        from dpmac.estimators import DPMACAutoencoder, DPMACClassifier, DPMACRegressor

        schema = self.read_schema()
        kinds: dict[str | None, Any] = {"classification": DPMACClassifier, "regression": DPMACRegressor}
        return kinds.get(schema.task, DPMACAutoencoder)(
            hidden_layer_sizes="auto" if self.hidden is None else tuple(self.hidden),
            epsilon=self.epsilon,
            delta=self.delta,
            schema=schema,
            batch_size=self.batch_size,
            epochs=self.epochs,
            ledger=ledger,
            total_epsilon=self.total_epsilon,
            random_state=self.seed,
            threads=self.threads,
            progress=False,
            checkpoint=checkpoint,
        )
