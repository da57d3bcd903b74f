"""Any torch module, trained privately: every row's gradients through the same release as everything else.

:mod:`~dpmac.modules.taps` watches a module's calls, :mod:`~dpmac.modules.rules` say what each of them contributes to a
row's gradient, :mod:`~dpmac.modules.gradients` makes parts of that, :mod:`~dpmac.modules.trying` settles and checks all
of it on made-up rows, and :mod:`~dpmac.modules.step` asks. ``Trainer.dp_sgd(module, loss, plan, bound)`` trains.
"""

from dpmac.extensions.provenance import as_public
from dpmac.modules.files import load_weights, save_weights
from dpmac.modules.gradients import RowGradients
from dpmac.modules.step import ModuleStep, TrainedModule
from dpmac.modules.task import Task
from dpmac.modules.trying import settled

__all__ = [
    "ModuleStep",
    "RowGradients",
    "Task",
    "TrainedModule",
    "as_public",
    "load_weights",
    "save_weights",
    "settled",
]
