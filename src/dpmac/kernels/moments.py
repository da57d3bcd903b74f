"""Renyi divergences of a list of mechanisms, by dp-accounting, and the events that it takes them from.

K5: an epsilon that follows from them is not below the true one: the moments accountant is an upper bound at every
order, and the best of some orders is one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmac.kernels.loss_distributions import ROUGH, Effort, quiet_absl

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

ROUGH_ORDERS = (1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 11, 16, 24, 32, 48, 63, 128, 256, 512, 1024)


def merged(mechanisms: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
    """Equal mechanisms merged into one with their total count, in order of first appearance (which cannot matter)."""
    counts: dict[Mechanism, int] = {}
    for m in mechanisms:
        key = replace(m, count=1)
        counts[key] = counts.get(key, 0) + m.count
    return tuple(replace(m, count=count) for m, count in counts.items())


def event_of(mechanisms: Iterable[Mechanism]) -> Any:
    """The dp-accounting event that composes ``mechanisms``."""
    import dp_accounting as dpa

    events = []
    for m in merged(mechanisms):
        if m.count == 0:
            continue
        if m.search is not None:
            raise TypeError("a search is no event of dp-accounting's: see dpmac.kernels.selection")
        event = dpa.GaussianDpEvent(m.noise_multiplier)
        if m.noise_multiplier == 0:
            event = dpa.NonPrivateDpEvent()
        elif m.sample_rate < 1.0:
            event = dpa.PoissonSampledDpEvent(m.sample_rate, event)
        events.append(dpa.SelfComposedDpEvent(event, m.count))
    return dpa.ComposedDpEvent(events)


def divergences(mechanisms: Sequence[Mechanism], effort: Effort) -> tuple[Any, Any]:
    """Orders, and the Renyi divergence of the composition at each of them."""
    from dp_accounting import rdp

    with quiet_absl():
        accountant = rdp.RdpAccountant(ROUGH_ORDERS) if effort is ROUGH else rdp.RdpAccountant()
        accountant.compose(event_of(mechanisms))
        return accountant._orders, accountant._rdp
