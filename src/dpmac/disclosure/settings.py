"""Every setting of a fitted model, with its value and who chose it: the default, or somebody's hand.

The value of a setting that was left out is what the rule made of public numbers (:mod:`dpmac.training.defaults`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.estimators.rows import OnRows
from dpmac.privacy import Plan
from dpmac.privacy.statement import not_less
from dpmac.tables import Schema

DEFAULT, BY_HAND = "default", "set by hand"
FOOTNOTE = (
    "“default” is what a setting is when nothing is said of it; one that was given by hand and equals it counts as "
    "default. The machine's own settings (threads, memory, device) affect neither privacy nor what is learned."
)
_LEFT_OUT = ("machine", "ledger", "schema", "module")  # shown elsewhere
_MOST = 200  # characters of a value


@dataclass(frozen=True)
class Setting:
    """One argument: ``value`` in words, and ``by`` whom it was chosen."""

    name: str
    value: str
    by: str

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "value": self.value, "by": self.by}


def settings_of(estimator: OnRows, plan: Plan | None, delta: float) -> list[Setting]:
    """All settings of a fitted estimator but for files and the machine, in the order of their names."""
    given: dict[str, Any] = estimator.get_params(deep=False)
    usual = _defaults_of(type(estimator))
    followed = _followed(estimator, plan, delta)
    found = []
    for name in sorted(given):
        value = given[name]
        if name in _LEFT_OUT or (name == "max_rows" and estimator.privacy_.ledger.unit == "row"):
            continue
        by = BY_HAND
        if name in usual and _same(value, usual[name]):
            by = DEFAULT
        words = followed.get(name)
        if by == BY_HAND or words is None:
            words = _worded(value)
        found.append(Setting(name, words, by))
    return found


def chosen_defaults(estimator: Any, plan: Plan | None) -> Any:
    """What the rule gives for a plan, a :class:`dpmac.training.defaults.Defaults`; None where there is none."""
    if plan is None:
        return None
    try:
        return estimator._defaults(plan)
    except (ArgumentError, AttributeError):  # an object of the user's own, of which a folder has the name alone
        return None


def _defaults_of(kind: Any) -> dict[str, Any]:
    found = {}
    for one in fields(kind):
        if one.default is not MISSING:
            found[one.name] = one.default
        elif one.default_factory is not MISSING:
            found[one.name] = one.default_factory()
    return found


def _followed(estimator: Any, plan: Plan | None, delta: float) -> dict[str, str]:
    """What the settings became that were left out: from the plan, the rule and the fitted model."""
    found = {
        "delta": not_less(delta),
        "random_state": "none: the noise cannot be predicted",
        "total_epsilon": "none: no total was asked for",
        "class_weight": "none: all classes weigh the same",
        "classes": "none given",
    }
    labels = getattr(estimator, "classes_", None)
    if labels is not None:
        found["classes"] = _worded([str(label) for label in labels])
    if plan is not None:
        epochs = plan.steps * plan.batch_size / plan.n
        found["batch_size"] = f"{plan.batch_size:g}, expected"
        found["epochs"] = f"{epochs:.4g} ({plan.steps:,} steps)"
    rule = chosen_defaults(estimator, plan)
    if rule is not None:
        found["learning_rate"] = f"{rule.learning_rate:.4g}"
        found["activation"] = rule.activation
        found["bound"] = f"joint clip of the whole gradient at {rule.threshold:g}"
        found["hidden_layer_sizes"] = _layers(rule.hidden)
        found["prior"] = "none was used"
        if rule.whitening is not None:
            found["prior"] = f"auto: whitened by rows drawn from the schema (power {rule.whitening:g})"
    if getattr(estimator, "network_", None) is None:
        found.pop("hidden_layer_sizes", None)
    return found


def _layers(hidden: Sequence[int]) -> str:
    if not hidden:
        return "auto: none, a linear model"
    return f"auto: {', '.join(map(str, hidden))}"


def _same(value: Any, usual: Any) -> bool:
    """Whether a value is the default: equal and of a kind, so that True is not 1."""
    if value is usual:
        return True
    plain = (bool, int, float, str, tuple, type(None))
    if not (isinstance(value, plain) and isinstance(usual, plain)):
        return False
    return isinstance(value, bool) == isinstance(usual, bool) and bool(value == usual)


def _worded(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return {True: "yes", False: "no"}[value]
    if isinstance(value, float) and math.isinf(value):
        return "infinite: no privacy"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, Schema):
        return f"the schema {value.name!r}"
    if isinstance(value, str):
        text = value
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key}: {_worded(one)}" for key, one in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(_worded(one) for one in value) or "none"
    else:
        text = repr(value)
    if len(text) > _MOST:
        return f"{text[:_MOST]}…"
    return text
