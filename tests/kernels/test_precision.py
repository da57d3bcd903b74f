"""Full precision while a release adds up: whatever the user has set, however many threads, and put back afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

from dpmac.kernels.precision import full_precision


@pytest.fixture
def high():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("high")
def test_it_holds_inside_and_is_put_back_even_after_an_error():
    def fail():
        with full_precision():
            assert torch.get_float32_matmul_precision() == "highest"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.usefixtures("high")
def test_the_last_of_several_threads_puts_it_back():
    """Found in review: the first to leave restored the user's setting while another was still adding up."""
    first_left, second_in, seen = threading.Event(), threading.Event(), []

    def second():
        with full_precision():
            second_in.set()
            first_left.wait(10)
            seen.append(torch.get_float32_matmul_precision())

    other = threading.Thread(target=second)
    with full_precision():
        other.start()
        assert second_in.wait(10)
    first_left.set()
    other.join()
    assert seen == ["highest"]
    assert torch.get_float32_matmul_precision() == "high"


NEWER = """
import torch
from dpmac.kernels.precision import full_precision
if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    raise SystemExit(0)
torch.backends.cuda.matmul.fp32_precision = "tf32"
with full_precision():
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
"""


def test_the_newer_names_of_the_setting_are_understood():
    """Found in review: the older getter raises once they are used. In a process of its own, since they stick."""
    subprocess.run([sys.executable, "-c", NEWER], check=True, timeout=120)


ALLOWED = """
import torch
from dpmac.kernels.precision import full_precision
homes = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
if not hasattr(homes[0], "fp32_precision"):
    raise SystemExit(0)
torch.backends.cuda.matmul.allow_tf32 = True
before = [home.fp32_precision for home in homes], torch.get_float32_matmul_precision()
with full_precision():
    assert torch.get_float32_matmul_precision() == "highest"
after = [home.fp32_precision for home in homes], torch.get_float32_matmul_precision()
assert after == before, (before, after)
assert torch.backends.cuda.matmul.allow_tf32
"""


def test_what_allow_tf32_left_alone_is_put_back_as_it_was():
    subprocess.run([sys.executable, "-c", ALLOWED], check=True)
