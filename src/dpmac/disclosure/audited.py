"""What the last audit of all cases proved, for statements. ``docs/results/audit.md`` has every case and how to read it;
a test holds these numbers to that page."""

from __future__ import annotations

VERSION = "0.2.0"  # of the code that was audited
DATE = "18 November 2026"
LOOKS, CONFIDENCE = 143, 0.99
STRONGEST = ("step, bound joint", 10.00, 9.13)  # of default training steps: the case, claimed, and proved


def audit_line(version: str) -> str:
    """The audit in one sentence for a model of ``version``."""
    _, claimed, proved = STRONGEST
    said = (
        f"attacks on the code of version {VERSION} ({DATE}, {LOOKS} looks, confidence {CONFIDENCE:g}) exceeded "
        f"no claim; of a default training step they proved epsilon >= {proved:.2f} where {claimed:.2f} is claimed"
    )
    if version != VERSION:
        said += f"; version {version} itself has not been audited in full"
    return f"{said}. An audit can refute a claim, and never proves one."
