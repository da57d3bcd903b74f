"""The thorough server: it has imported what the package needs, but not the package. A fork imports that with the bug.

``python -m mutants.machine.cold ADDRESS``.
"""

from __future__ import annotations

import gc
import importlib
import sys

from mutants.machine.jobs import Events, Job, serve
from mutants.machine.profile import register
from mutants.machine.replacing import install

_NEEDED = (
    *("torch", "torch._dynamo", "numpy", "scipy", "scipy.stats", "scipy.optimize", "scipy.special", "sklearn"),
    *("sklearn.base", "sklearn.model_selection", "sklearn.metrics", "sklearn.datasets", "sklearn.linear_model"),
    *("dp_accounting", "dp_accounting.pld", "dp_accounting.rdp", "pandas", "pyarrow", "pyarrow.parquet"),
    *("hypothesis", "hypothesis.strategies", "pytest", "typer", "typer.testing", "rich", "rich.console"),
    *("rich.table", "rich.progress", "matplotlib", "cryptography", "safetensors", "safetensors.torch", "opacus"),
    *("mpmath", "unittest.mock", "http.server"),
)


def work(job: Job, events: Events) -> int:
    """Install the mutant, and only then import the package and the tests."""
    import pytest

    from mutants.machine.asking import OPTIONS, Asking

    if job.module:
        install(job.module, job.source)
    files = list(dict.fromkeys(test.partition("::")[0] for test, _ in job.tests))
    code = int(pytest.main([*OPTIONS, *files], plugins=[Asking(job, events)]))
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def main() -> None:
    """Import, and serve."""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed here
            continue
    assert not any(name.split(".")[0] == "dpmac" for name in sys.modules)
    register()
    gc.collect()
    gc.freeze()
    serve(sys.argv[1], work)


if __name__ == "__main__":
    main()
