"""How tests that draw their own examples run on a mutant: few examples, and always the same."""

from __future__ import annotations

PROFILE = "mutate"
EXAMPLES = 25


def register() -> None:
    """Make the profile known to hypothesis; ``HYPOTHESIS_PROFILE`` has tests/conftest.py load it."""
    from hypothesis import HealthCheck, settings

    quick = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile(
        PROFILE, deadline=None, max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=quick
    )
