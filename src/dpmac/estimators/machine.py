"""Where and how a fit runs, in one value: nothing in it changes what is learned or what is guaranteed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import torch

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.world import World
from dpmac.tables.stored import MEMORY
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.threads import MOST


@dataclass(frozen=True, repr=False)
class Machine:
    """What an estimator may use of the machine that it runs on. It does not affect privacy.

    Noise, ledger and guarantee are the same whatever is chosen here, and so is the model, up to rounding. A Machine
    never changes; ``dataclasses.replace(machine, threads=2)``, or ``set_params(machine__threads=2)`` of an estimator,
    makes another one. Values that can never be right are refused here, a device that is missing by ``fit``.

    Parameters
    ----------
    device : a torch device, such as "cuda".
    micro_batch_size : rows that a step of a training takes at a time, which bounds memory; None takes what is quickest.
    threads : torch's threads during a training; None takes one for small steps, else as many as there are idle cores.
    memory : bytes that the rows of a table in files may take in memory (:class:`dpmac.tables.Files`).
    scratch : the folder for rows that take more; "auto" is the system's temporary one, None writes nothing and reads
        the Parquet files again for every sample. A ``Files`` with settings of its own keeps them.
    world : the processes that fit one model together, each on its own rows (:func:`dpmac.training.together`).
    checkpoint : a folder in which a checkpoint is kept while a training runs (it needs a ``ledger`` on the disk), and
        removed at its end. After a crash the same ``fit`` with the same rows continues, and pays nothing twice.
    cuda_graphs : whether the steps of a training on a GPU are recorded once and then replayed, which is several times
        as fast. Switch it off for a torch module whose Python code computes something else from step to step.
    progress : True, False, or "auto" for a bar on a terminal when the work takes more than a moment.
    """

    device: str | torch.device = "cpu"
    micro_batch_size: int | None = None
    threads: int | None = None
    memory: int = MEMORY
    scratch: str | Path | None = "auto"
    world: World | None = None
    checkpoint: Checkpoints | str | Path | None = None
    progress: bool | Literal["auto"] = "auto"
    cuda_graphs: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.device, str | torch.device):
            raise ArgumentError("device", self.device, "give the name of a torch device, or use 'cpu'")
        if self.micro_batch_size is not None:
            integer("micro_batch_size", self.micro_batch_size, "give a number of rows, at least 1, or None")
        if self.threads is not None:
            integer("threads", self.threads, f"give a number of threads, 1 to {MOST}, or None", high=MOST)
        integer("memory", self.memory, "give the bytes that rows may take in memory, from 1 on")
        if not isinstance(self.scratch, str | Path | None):
            raise ArgumentError("scratch", self.scratch, "give the path of a folder, 'auto', or None to write nothing")
        if self.world is not None and not hasattr(self.world, "released"):
            raise ArgumentError("world", self.world, "give what dpmac.training.together() gives, or None")
        if not isinstance(self.cuda_graphs, bool):
            raise ArgumentError("cuda_graphs", self.cuda_graphs, "choose True or False")
        Checkpoints.at(self.checkpoint)  # refuses what is no folder
        if self.progress not in (True, False, "auto"):
            raise ArgumentError("progress", self.progress, "choose True, False or 'auto'")

    def available_device(self) -> torch.device:
        """The device as torch has it; an ArgumentError where this computer has none."""
        try:
            torch.zeros(1, device=self.device).cpu()
            return torch.device(self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # Assertion: no CUDA
            raise ArgumentError("device", self.device, f"{str(error).splitlines()[0]}: use 'cpu'") from None

    def __repr__(self) -> str:
        """What differs from the defaults."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        defaults = {field.name: field.default for field in fields(self)}
        return f"Machine({', '.join(f'{name}={value!r}' for name, value in given if value != defaults[name])})"
