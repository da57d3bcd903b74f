"""Full precision while a release adds up: whatever the user has set, however many threads, and put back afterwards."""

from __future__ import annotations

import threading

import pytest
import torch

from dpmac.kernels.precision import full_precision
from processes import together_run, values


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


def newer(_rank: int) -> tuple[str, str]:
    """The setting inside and afterwards, by its newer name."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with full_precision():
        inside = torch.backends.cuda.matmul.fp32_precision
    return inside, torch.backends.cuda.matmul.fp32_precision


has_newer_names = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="an older version of torch"
)


@has_newer_names
def test_the_newer_names_of_the_setting_are_understood():
    """Found in review: the older getter raises once they are used. In a process of its own, since they stick."""
    (found,) = values(together_run(1, newer, bare=True))
    assert found == ("ieee", "tf32")


def allowed(_rank: int) -> tuple[object, str, object, bool]:
    """All settings before, the one that counts inside, all settings afterwards, and the older switch."""
    homes = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    torch.backends.cuda.matmul.allow_tf32 = True
    before = [home.fp32_precision for home in homes], torch.get_float32_matmul_precision()
    with full_precision():
        inside = torch.get_float32_matmul_precision()
    after = [home.fp32_precision for home in homes], torch.get_float32_matmul_precision()
    return before, inside, after, torch.backends.cuda.matmul.allow_tf32


@has_newer_names
def test_what_allow_tf32_left_alone_is_put_back_as_it_was():
    ((before, inside, after, still),) = values(together_run(1, allowed, bare=True))
    assert inside == "highest"
    assert after == before
    assert still
