"""Any torch module, trained privately: every row's gradients through the same release as everything else.

:mod:`~dpmac.modules.taps` watches a module's calls, :mod:`~dpmac.modules.rules` say what each of them contributes to a
row's gradient, :mod:`~dpmac.modules.gradients` makes parts of that, :mod:`~dpmac.modules.trying` settles and checks all
of it on made-up rows, and :mod:`~dpmac.modules.step` asks. ``Trainer.dp_sgd(module, loss, plan, bound)`` trains.
For fine-tuning, :func:`~dpmac.modules.lora.with_lora` trains low-rank adapters in a frozen module, and
:class:`~dpmac.modules.frozen.FrozenModule` is a frozen module as a feature map.
"""

from dpmac.extensions.provenance import as_public
from dpmac.modules.files import load_weights, save_weights
from dpmac.modules.frozen import FrozenModule
from dpmac.modules.gradients import RowGradients
from dpmac.modules.lora import merge_lora, with_lora
from dpmac.modules.step import ModuleStep, TrainedModule
from dpmac.modules.task import Task
from dpmac.modules.trying import settled
from dpmac.nets.feature_maps import FEATURE_MAPS

FEATURE_MAPS[FrozenModule.kind] = FrozenModule

__all__ = [
    "FrozenModule",
    "ModuleStep",
    "RowGradients",
    "Task",
    "TrainedModule",
    "as_public",
    "load_weights",
    "merge_lora",
    "save_weights",
    "settled",
    "with_lora",
]
