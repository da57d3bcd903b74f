"""What a report is made of: the parts of a run folder, all of them public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpmac.disclosure import NOBODY_SAID, Declared, Detail, Spent, declared_notes, details_of, spent_by
from dpmac.disclosure.answers import read_answers
from dpmac.privacy import Ledger, Plan, Statement
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import never_covered, noun
from dpmac.tables import Schema
from dpmac.training.run import Record

KINDS = {
    "DPMACClassifier": "classifier",
    "DPMACImageClassifier": "classifier of pictures",
    "DPMACRegressor": "regression model",
    "DPMACAutoencoder": "autoencoder",
    "DPMACPCA": "principal component analysis",
    "DPMACModuleClassifier": "classifier",
    "DPMACModuleRegressor": "regression model",
}


@dataclass(frozen=True)
class RunContents:
    """``said`` is statement.json; ``evaluation`` holds scores on rows that the user called public, or is None."""

    name: str
    created: str
    version: str
    estimator: Any
    ledger: Ledger
    said: Mapping[str, Any]
    plan: Plan | None = None
    history: Sequence[Record] = field(default_factory=list)
    schema: Schema | None = None
    evaluation: Mapping[str, Any] | None = None
    declared: Declared = field(default_factory=Declared)

    @property
    def kind(self) -> str:
        return KINDS.get(type(self.estimator).__name__, type(self.estimator).__name__)

    @property
    def codes(self) -> bool:
        """Whether it codes rows (PCA, autoencoder) and does not predict a target."""
        return hasattr(self.estimator, "inverse_transform")

    @property
    def delta(self) -> float:
        return float(self.said["delta"])

    @property
    def statement(self) -> Statement:
        """Composed from the ledger again; only the notes are taken from the folder's statement."""
        always = {*never_covered(self.ledger.unit), *never_covered(ROW), NOBODY_SAID}
        given = getattr(self.estimator, "feature_range", None)
        asked = declared_notes(self.declared, self.schema, self.ledger, given)
        kept = [str(note) for note in self.said.get("not_covered", ()) if note not in always]
        return self.ledger.statement(self.delta, tuple(dict.fromkeys((*asked, *kept))))

    @property
    def spent(self) -> Spent:
        """What this model cost, beside the ledger's sum and the total."""
        return spent_by(self.estimator, self.ledger, self.delta, self.plan)

    @property
    def details(self) -> list[Detail]:
        """What an auditor asks beside epsilon; of the code, what made the folder."""
        digest = None
        code = self.said.get("code")
        if isinstance(code, Mapping) and isinstance(code.get("sha256"), str):
            digest = code["sha256"]
        return details_of(self.estimator, self.ledger, self.plan, self.spent, self.version, digest)

    @property
    def one(self) -> str:
        """The unit of privacy in a word: "row" or "person"."""
        return noun(self.ledger.unit)

    @property
    def whose_rows(self) -> str:
        """What was trained on, in words that fit the unit."""
        if self.ledger.unit == ROW:
            return "rows"
        return "persons' rows"

    def ledger_before(self, count: int) -> float:
        """The epsilon of the ledger's first ``count`` releases."""
        return self.ledger.until(count).epsilon(self.delta)

    @property
    def scores(self) -> Mapping[str, Any] | None:
        """The evaluation, if its rows were public or paid for; what was measured on private rows is never shown."""
        found = self.evaluation
        if found and (found.get("public") is True or found.get("paid") is True):
            return found
        return None


def contents_of(folder: Any) -> RunContents:
    """From an open run folder (:class:`dpmac.saving.RunFolder`)."""
    manifest = folder.manifest
    return RunContents(
        name=str(manifest.get("name") or folder.path.resolve().name),
        created=str(manifest.get("created") or ""),
        version=str(manifest.get("dpmac") or ""),
        estimator=folder.without_module(),
        ledger=folder.ledger(),
        said=folder.statement(),
        plan=folder.plan(),
        history=folder.history(),
        schema=folder.schema(),
        evaluation=folder.evaluation(),
        declared=read_answers(folder.path).declared.over(folder.declared()),
    )
