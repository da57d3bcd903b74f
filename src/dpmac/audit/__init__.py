"""Audits: lower bounds on epsilon, from the real code and the default noise, beside what the ledger claims.

>>> from dpmac.audit import QUICK, audit
>>> found = audit(QUICK, only="DP-PCA")              # doctest: +SKIP
>>> found.exceeded                                    # doctest: +SKIP
()

A proof says what the code should do; an audit looks at what it does. It cannot show that a claim is true, only that it
is wrong, or how far from wrong it was found to be.
"""

from dpmac.audit.auditing import CONFIDENCE, all_cases, audit, chosen_cases
from dpmac.audit.cases import Case, Setting
from dpmac.audit.confidence import Corner, Counts
from dpmac.audit.curves import epsilon_at, strength, true_positives
from dpmac.audit.findings import DELTA, FULL, QUICK, Audit, Effort, Finding
from dpmac.audit.one_run import ManyCanaries
from dpmac.audit.runs import WholeRun

__all__ = [
    "CONFIDENCE",
    "DELTA",
    "FULL",
    "QUICK",
    "Audit",
    "Case",
    "Corner",
    "Counts",
    "Effort",
    "Finding",
    "ManyCanaries",
    "Setting",
    "WholeRun",
    "all_cases",
    "audit",
    "chosen_cases",
    "epsilon_at",
    "strength",
    "true_positives",
]
