"""A start for an autoencoder: weights that have learned to give back drawn rows, before any private row is seen.

Private fine-tuning from such a start spends its budget on what is particular to the private rows only. Nothing here
touches them, so nothing of it costs privacy; the statement names what was drawn. The weights follow from the prior, the
network's shape and :class:`Pretraining` alone, but for the last digits, by which machines round differently.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.extensions.provenance import Origin, mark, origin_of
from dpmac.mac.optimizers import PlainAdam
from dpmac.mac.wsteps import cosine
from dpmac.nets import Network
from dpmac.nets.feature_maps import FeatureMap
from dpmac.priors.base import Prior, refuse_released
from dpmac.priors.content import digest_of
from dpmac.priors.draws import Draws
from dpmac.randomness import SeededNoise
from dpmac.showing import shown

_NUMBERS = 5 * 10**7  # of all drawn rows together: 200 MB
_BLOCK = 8_192  # rows that are mapped at a time
_KEPT = 4  # starts that a process remembers
_known: OrderedDict[str, dict[str, Tensor]] = OrderedDict()


@dataclass(frozen=True)
class Pretraining:
    """How weights are trained on drawn rows: Adam with a cosine schedule on half the squared error.

    ``rows`` is how many rows the prior draws; fewer are drawn where so many would take more than 200 MB. ``seed`` is of
    the first weights and of the order of rows; it is public.
    """

    rows: int = 200_000
    steps: int = 10_000
    batch_size: int = 256
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        integer("rows", self.rows, "give how many rows to draw, at least 2", low=2, high=10**6)
        integer("steps", self.steps, "give a number of steps, at least 1", low=1, high=10**7)
        integer("batch_size", self.batch_size, "give the rows of a step, at least 1", low=1, high=10**6)
        number("learning_rate", self.learning_rate, "give a number above 0, such as 0.003", low=1e-12, high=10.0)


@dataclass(frozen=True)
class DrawnStart:
    """Weights for an autoencoder that have learned to give back the rows of ``prior``."""

    prior: Prior
    training: Pretraining = Pretraining()

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            fix = "give a dpmac.priors.Prior, such as PicturePrior(16, 16, style='strokes')"
            raise ArgumentError("prior", self.prior, fix)
        refuse_released("prior", self.prior)

    def load_into(self, network: Network, feature_map: FeatureMap | None = None) -> None:
        """Give ``network`` such weights, whatever it had; drawn rows pass ``feature_map``, as private rows will.

        A process computes the same start once only. What has shaped the feature map has shaped the weights, and the
        network knows.
        """
        known = Origin.merged(origin_of(feature_map, name="feature_map"), origin_of(self.prior, name="prior"))
        shape = f"{network.plain()} on {network.device}"
        key = digest_of(feature_map, self.prior, known, asdict(self.training), shape)
        if key not in _known:
            rows = self.prior.drawn(self.rows(network.sizes[0]))
            _known[key] = _trained(network, _inputs(rows, feature_map, network), self.training)
            while len(_known) > _KEPT:
                _known.popitem(last=False)
        _known.move_to_end(key)
        network.load_state_dict(_known[key])
        mark(network, Origin.merged(network.origin, known))

    def rows(self, width: int) -> int:
        """How many rows are drawn for a network of ``width`` inputs."""
        return min(self.training.rows, max(2, _NUMBERS // width))

    def note(self, width: int) -> str:
        """What a statement says of it."""
        drawn = f"{self.rows(width):,} rows {self.prior.described()}"
        return f"the rows that the start was trained on, none of them a private row: {drawn};"


@torch.no_grad()
def _inputs(rows: Tensor, feature_map: FeatureMap | None, network: Network) -> Tensor:
    """Drawn rows behind the feature map; a row whose inputs are not finite is left out."""
    if feature_map is not None:
        rows = torch.cat([feature_map(block).float() for block in torch.split(rows, _BLOCK)])
    rows, width = rows.flatten(1).float(), network.sizes[0]
    if rows.shape[1] != width or network.sizes[-1] != width:
        sizes = f"rows of {rows.shape[1]} inputs for a network {width} -> ... -> {network.sizes[-1]}"
        fix = "a start is for an autoencoder, and drawn rows must be as wide as private ones"
        raise ArgumentError("prior", sizes, fix)
    rows = rows[torch.isfinite(rows).all(dim=1)]
    if len(rows) < 2:
        raise ArgumentError("prior", f"{len(rows)} rows with finite inputs", "a start needs at least 2")
    return rows


def _trained(network: Network, rows: Tensor, options: Pretraining) -> dict[str, Tensor]:
    """The weights after a training from new first weights, by autograd through a plain copy of the network."""
    first = SeededNoise(options.seed, "/start")
    for layer in network.weight_layers:
        layer.draw(first)
    plain = network.plain().requires_grad_(True)
    optimizer, draws = PlainAdam(list(plain.parameters())), Draws(options.seed, "start")
    size = min(options.batch_size, len(rows))
    order, at = torch.empty(0, dtype=torch.long), 0
    with torch.enable_grad(), shown("training a start on drawn rows") as tell:
        for step in range(options.steps):
            if at + size > len(order):
                order, at = torch.from_numpy(draws.order(len(rows))), 0
            batch = rows[order[at : at + size]].to(network.device)
            at += size
            optimizer.param_groups[0]["lr"] = options.learning_rate * cosine(step / options.steps)
            optimizer.zero_grad()
            (0.5 * (plain(batch) - batch).square().sum(dim=1).mean()).backward()
            optimizer.step()
            tell(step + 1, options.steps)
    return {name: tensor.detach().clone() for name, tensor in plain.state_dict().items()}
