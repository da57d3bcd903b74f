"""Full single precision while a release computes sums: no TF32, no bfloat16, no autocast.

K2 relies on it: single-precision products round to 24 bits.

The rounding argument of :func:`dpmac.kernels.chunks.in_chunks` relies on products that round to 24 bits. torch's
settings that allow less are global to the process, so releases in several threads share one change of them: the first
release to start makes it, and the last one to end restores the previous settings.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_inside = 0
_before: tuple[str | None, list[tuple[Any, str]]] = (None, [])


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute single-precision products in full precision, in this process, until the last such block ends."""
    global _inside, _before
    with _LOCK:
        if _inside == 0:
            _before = _set()
        _inside += 1
    try:
        with ExitStack() as stack:
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                _restore(*_before)


def _set() -> tuple[str | None, list[tuple[Any, str]]]:
    """Set full precision; returns the previous settings."""
    kept = [(home, str(home.fp32_precision)) for home in _homes() if hasattr(home, "fp32_precision")]
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has used torch's newer per-backend settings, which disable the older getter
        for home, _ in kept:
            home.fp32_precision = "ieee"
        return None, kept
    if before == "highest" and all(value in ("ieee", "none") for _, value in kept):
        return None, []  # nothing to set or restore ("none": nothing was set one or two levels up either)
    torch.set_float32_matmul_precision("highest")
    return before, kept


def _restore(before: str | None, kept: list[tuple[Any, str]]) -> None:
    if before is not None:  # sets all backends, also one that allow_tf32 had not changed
        torch.set_float32_matmul_precision(before)
    for home, value in kept:
        if home.fp32_precision != value:
            home.fp32_precision = value


def _homes() -> list[Any]:
    return [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
