"""A frozen public module as a feature map: an encoder whose numbers no private row has shaped, before a private head.

It is applied to raw rows inside the release, in blocks of one public shape, as every feature map is
(:mod:`dpmac.nets.feature_maps.base`); and once only where memory allows, since it is expensive.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, public_text
from dpmac.extensions.provenance import Origin
from dpmac.extensions.row_independence import FIX, MIXES, REMEMBERS, ROWS, fault_of, trials
from dpmac.modules.gradients import alike
from dpmac.modules.kept import check_keeps_nothing
from dpmac.modules.refusals import check_layers, check_state
from dpmac.modules.rules import RULES
from dpmac.modules.taps import Watch
from dpmac.modules.trying import changed_buffers, made_up
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.feature_maps.base import Shape
from dpmac.randomness import SeededNoise, SystemNoise


class FrozenModule(FeatureMap):
    """A copy of ``module`` in evaluation mode, without gradients: rows in, one tensor of features for each row out.

    ``trained_on`` says what data its numbers come from, in the user's words, and stands in the statement of whatever is
    trained behind it: that these data hold none of the private rows is on the user's word. A module that carries the
    releases which have shaped it (:mod:`dpmac.extensions.provenance`) is refused all the same, unless the ledger holds
    them. With ``tokens`` rows are whole numbers; otherwise rows are converted to the module's own precision. Features
    are given back in double precision, as those of every feature map.

    Before it is used (:meth:`shape_after`) it is tried on made-up rows, and refused if rows influence each other,
    if it draws, if a buffer changes, or if it does not give one tensor with a row for each row. A token that is not in
    an embedding makes its row's features NaN, and the row then counts as blank.

    Saved with a run are the weights and the name of the class, never code: ``load_feature_map(path, modules=[module])``
    needs a module of that class to put them into.
    """

    kind = "frozen"
    expensive = True

    def __init__(self, module: nn.Module, trained_on: str, tokens: bool = False) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise ArgumentError("module", module, "give a torch module")
        fix = "say what data its numbers come from, such as 'ImageNet' or 'nothing: drawn numbers'"
        self.trained_on, self.tokens = public_text("trained_on", trained_on, fix), bool(tokens)
        self.module = copy.deepcopy(module).eval()
        check_layers(self.module)
        check_state(self.module)
        self.module.requires_grad_(False)
        self.origin = Origin(declared=(f"a frozen module, {type(module).__name__}, trained on {self.trained_on}",))
        self._shapes: dict[Shape, Shape] = {}

    def train(self, mode: bool = True) -> Self:
        """The module stays in evaluation mode, whatever the rest does."""
        super().train(mode)
        self.module.eval()
        return self

    @torch.no_grad()
    def forward(self, rows: Tensor) -> Tensor:
        given = rows.long() if self.tokens else rows.to(self.dtype)
        # The watch makes a token that there is not NaN, and refuses dropout. It also keeps torch from its quick way
        # through transformers, which packs a block's rows without their padding: the shape of a product, and with it
        # a row's rounding, would depend on how long the other rows are.
        with Watch(RULES, {}, len(rows)):
            found: Tensor = self.module(given)
        return found.double()

    def shape_after(self, shape: Shape) -> Shape:
        if shape not in self._shapes:
            self._shapes[shape] = self._tried(shape)
        return self._shapes[shape]

    def arguments(self) -> dict[str, Any]:
        return {"module": self.module, "trained_on": self.trained_on, "tokens": self.tokens}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        layers = [nn.Unflatten(1, (1, 3, 3)), nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten()]
        module, draw = nn.Sequential(*layers).double(), SeededNoise(1)
        with torch.no_grad():
            for tensor in module.state_dict().values():
                if tensor.is_floating_point():
                    tensor.copy_(draw.uniform(tensor.shape) + 0.1)
        return cls(module, "drawn numbers"), (9,)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the module's numbers, to which rows are converted."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float64)

    @property
    def _device(self) -> torch.device:
        return next((t.device for t in (*self.module.parameters(), *self.module.buffers())), torch.device("cpu"))

    def _tried(self, shape: Shape) -> Shape:
        """The shape of the features, once made-up rows have shown nothing wrong."""
        kind = torch.long if self.tokens else self.dtype
        blank = torch.zeros(ROWS, *shape, dtype=kind, device=self._device)
        (rows,) = made_up((blank,), ROWS, SystemNoise())
        before = {name: tensor.clone() for name, tensor in self.module.named_buffers()}
        try:
            found = self._features(rows)
            again = self._features(rows)
            alone = [self._features(rows[n : n + 1]) for n in range(ROWS)]
        finally:
            changed = changed_buffers(self.module, before)
        name = type(self.module).__name__
        if changed:
            raise ArgumentError(changed[0], "a buffer", f"a forward pass of {name} changes it: make it a constant")
        if not torch.equal(found.nan_to_num(), again.nan_to_num()):
            raise ArgumentError("module", name, f"it {REMEMBERS}: what draws must be off in evaluation mode")
        fault = fault_of(self.forward, trials((blank,), tokens=True))
        check_keeps_nothing(self.module, self._features, (rows,), made_up((blank,), ROWS, SystemNoise()))
        if fault is None and not alike(found, torch.cat(alone)):
            fault = MIXES
        if fault is not None:
            raise ArgumentError("module", name, f"it {fault}: {FIX}")
        return tuple(found.shape[1:])

    def _features(self, rows: Tensor) -> Tensor:
        """The features of made-up rows; :class:`ArgumentError` unless they are a tensor with a row for each."""
        shape, name = tuple(rows.shape[1:]), type(self.module).__name__
        asked = f"the feature map {self.kind!r} needs rows of shape and kind as {name} takes them"
        try:
            found = self.forward(rows)
        except ArgumentError:
            raise
        except Exception as error:
            fix = f"{asked}: for made-up ones it raised {type(error).__name__}: {str(error).strip()}"
            raise ArgumentError("x", f"rows of shape {shape}", fix) from error
        if found.dim() < 2 or len(found) != len(rows):
            fix = f"it gave shape {tuple(found.shape)} for {len(rows)} rows: give a module with one output a row"
            raise ArgumentError("module", name, fix)
        return found
