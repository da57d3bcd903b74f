"""Every combination of torch's settings, older and newer: full inside, and as they were afterwards."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from dpmac.kernels import precision
from dpmac.kernels.precision import full_precision

OLDER = ["highest", "high", "medium", None]  # None: does not answer, since newer names were used
NEWER = list(itertools.product(["ieee", "none", "tf32", "bf16"], repeat=2))


class Settings:
    """torch's settings, as far as they are read and written here: the older one sets all homes alike."""

    def __init__(self, older, newer):
        self.older, self.homes = older, [SimpleNamespace(fp32_precision=value) for value in newer]

    def get(self):
        if self.older is None:
            raise RuntimeError
        return self.older

    def set(self, value):
        self.older = value
        for home in self.homes:
            home.fp32_precision = "ieee" if value == "highest" else "tf32"

    @property
    def state(self):
        return self.older, [home.fp32_precision for home in self.homes]


@pytest.mark.parametrize("older", OLDER)
def test_products_are_full_inside_and_settings_are_put_back(older, monkeypatch):
    """A home of which nothing was said ("none") follows the older setting; one may be missing (None)."""
    for newer in NEWER:
        settings = Settings(older, newer)
        before = settings.state
        monkeypatch.setattr(torch, "get_float32_matmul_precision", settings.get)
        monkeypatch.setattr(torch, "set_float32_matmul_precision", settings.set)
        monkeypatch.setattr(precision, "_homes", lambda homes=settings.homes: [*homes, None])
        with full_precision():
            assert settings.older in ("highest", None)
            full = ("ieee", "none") if older == "highest" else ("ieee",)
            assert all(home.fp32_precision in full for home in settings.homes)
        assert settings.state == before
