"""The device's noise: ChaCha20 by the vectors of RFC 8439 and against a library, and the kernel against plain torch."""

from __future__ import annotations

import importlib.util
import math
import os
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from dpmac.kernels import chacha, rounded
from dpmac.kernels.gaussian import box_muller
from dpmac.kernels.streams import AESStream
from dpmac.randomness import SystemNoise

CPU = torch.device("cpu")
OPEN = torch.tensor(2)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
# key, nonce and counter in the RFC's words, and the block's words after serialisation
VECTORS = {
    "2.3.2": (
        bytes(range(32)).hex(),
        "000000090000004a00000000",
        1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "A.1 #1": (
        "00" * 32,
        "00" * 12,
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "A.1 #2": (
        "00" * 32,
        "00" * 12,
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    "A.1 #3": (
        "00" * 31 + "01",
        "00" * 12,
        1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    "A.1 #4": (
        "00ff" + "00" * 30,
        "00" * 12,
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    "A.1 #5": (
        "00" * 32,
        "00" * 11 + "02",
        0,
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
}


def serialised(words):
    return struct.pack(f"<{words.numel()}I", *words.flatten().tolist())


def library(key, start, blocks):
    """The same blocks by OpenSSL, one at a time: it refuses to count past 32 bits."""
    ciphers = (algorithms.ChaCha20(key, struct.pack("<QQ", number, 0)) for number in range(start, start + blocks))
    return b"".join(Cipher(cipher, mode=None).encryptor().update(bytes(64)) for cipher in ciphers)


@pytest.mark.parametrize("name", VECTORS)
def test_rfc_8439_vectors(name):
    key, nonce, counter, block = VECTORS[name]
    first, *others = struct.unpack("<3I", bytes.fromhex(nonce))
    made = chacha.words(bytes.fromhex(key), counter | first << 32, 1, CPU, tuple(others))
    assert serialised(made) == bytes.fromhex(block)


@pytest.mark.parametrize("start", [0, 12345, 2**32 - 3, 2**40 + 7])
def test_blocks_are_those_of_a_library(start):
    """Across the 32-bit boundary too: block numbers have 64 bits."""
    key = os.urandom(32)
    assert serialised(chacha.words(key, start, 9, CPU)) == library(key, start, 9)


def pairs_of(key, blocks, made):
    """The library's words, two for each pair, as ``made`` turns them into draws: (4, 2, blocks)."""
    words = torch.frombuffer(bytearray(library(key, 0, blocks)), dtype=torch.int64).view(blocks, 8).T.contiguous()
    pairs, spare = torch.empty(4, 2, blocks, dtype=torch.float64), torch.empty(3, blocks, dtype=torch.float64)
    for pair in range(4):
        made(words[2 * pair : 2 * pair + 2], pairs[pair], spare)
    return pairs


def test_gaussians_and_steps_are_made_of_the_library_s_words(monkeypatch):
    """Word for word, so that no word serves twice."""
    key, count = os.urandom(32), 1003
    normal = pairs_of(key, 126, lambda words, out, spare: box_muller(words, spare[0], out)).flatten()[:count]
    steps = pairs_of(key, 126, lambda words, out, spare: rounded.rounded(words, out, spare, 20, AESStream()))
    for blocks in (chacha._BLOCKS, 50):  # in one piece, or in several with block numbers that go on
        monkeypatch.setattr(chacha, "_BLOCKS", blocks)
        torch.testing.assert_close(chacha.drawn(key, count, CPU), normal, rtol=1e-13, atol=1e-13)
        assert torch.equal(chacha.steps(key, count, 20, CPU), steps.flatten()[:count])


@pytest.mark.parametrize("count", [1, 2, 8, 1003])
def test_what_a_kernel_leaves_open_is_settled_by_the_same_words(count):
    key = os.urandom(32)
    right = chacha.steps(key, count, 20, CPU)
    given = right.clone()
    given[torch.arange(count) % 3 == 0] = math.nan
    chacha.settle(given, key, 20, AESStream())
    assert torch.equal(given, right)


def test_both_draws_of_a_pair_follow_from_the_same_digits(monkeypatch):
    """Their words leave both open; digits drawn for each by itself would give each a radius of its own."""
    monkeypatch.setattr(
        chacha, "block_of", lambda *_: struct.pack("<8q", *[0, 2**61] * 4)
    )  # 9.3 or more, at 45 degrees
    given = torch.full((8,), math.nan, dtype=torch.float64)
    chacha.settle(given, bytes(32), 20, AESStream())
    assert torch.equal(given[0::2], given[1::2])
    assert len(given.unique()) == 4


def test_open_draws_are_waited_for(monkeypatch):
    key = os.urandom(32)
    right = chacha.steps(key, 99, 20, CPU)
    kernel = SimpleNamespace(steps=lambda *_: (right.clone().index_fill_(0, torch.tensor([7, 98]), math.nan), OPEN))
    monkeypatch.setattr(chacha, "_maker", lambda device: (device, kernel))
    monkeypatch.setattr(chacha, "fresh_key", lambda: key)
    assert torch.equal(chacha.steps_on(CPU, 99, 20), right)
    kernel.steps = lambda *_: (right, torch.tensor(0))
    assert chacha.steps_on(CPU, 99, 20) is right


def test_every_draw_is_fresh_and_has_the_standard_law():
    drawn = torch.cat([chacha.gaussians_on(CPU, 50_000) for _ in range(4)])
    assert len(drawn.unique()) == len(drawn)
    assert stats.kstest(drawn.numpy(), "norm").pvalue > 1e-7
    for count in (0, 1, 2, 3, 4, 5):
        assert chacha.gaussians_on(CPU, count).shape == (count,)


def test_a_cuda_graph_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="every replay would repeat it"):
        SystemNoise().normal((3,), "cuda")
    with pytest.raises(RuntimeError, match="every replay would repeat it"):
        next(SystemNoise().steps([3], 20, "cuda"))


@pytest.fixture
def kernel(monkeypatch):
    """A stand-in for the kernel, right unless a test breaks it."""
    whole = lambda *arguments: (chacha.steps(*arguments), torch.tensor(0))  # noqa: E731
    stand_in = SimpleNamespace(words=chacha.words, drawn=chacha.drawn, steps=whole)
    monkeypatch.setitem(sys.modules, "dpmac.kernels.chacha_triton", stand_in)
    monkeypatch.delattr("dpmac.kernels.chacha_triton", raising=False)
    chacha.kernel_for.cache_clear()
    yield stand_in
    chacha.kernel_for.cache_clear()


def test_a_kernel_is_used_only_after_it_has_shown_that_it_is_right(kernel):
    assert chacha.kernel_for(CPU) is kernel
    chacha.kernel_for.cache_clear()
    kernel.drawn = lambda *arguments: chacha.drawn(*arguments) * (1 + 1e-9)
    with pytest.raises(RuntimeError, match="kernel is wrong on cpu"):
        chacha.kernel_for(CPU)
    kernel.drawn, kernel.words = chacha.drawn, lambda *arguments: chacha.words(*arguments) ^ 1
    with pytest.raises(RuntimeError, match="kernel is wrong on cpu"):
        chacha.kernel_for(CPU)
    kernel.words = chacha.words
    spot = torch.arange(1001) == 5
    kernel.steps = lambda *arguments: (chacha.steps(*arguments) + spot, OPEN)
    with pytest.raises(RuntimeError, match="kernel is wrong on cpu"):
        chacha.kernel_for(CPU)
    kernel.steps = lambda *arguments: (chacha.steps(*arguments).masked_fill_(spot, math.nan), OPEN)
    assert chacha.kernel_for(CPU) is kernel  # what is left open is not wrong


def test_without_a_compiler_plain_torch_takes_over_and_says_so(kernel):
    def broken(*_):
        raise RuntimeError("no C compiler")

    kernel.words = broken
    with pytest.warns(UserWarning, match="no C compiler.*plain torch"):
        assert chacha.kernel_for(CPU) is None


INTERPRETED = """
import torch
from dpmac.kernels import chacha
from dpmac.kernels import chacha_triton as kernel
cpu, key = torch.device("cpu"), bytes(range(7, 39))
for start, blocks, nonce in ((0, 5, (0, 0)), (2**32 - 3, 300, (2**31, 2**32 - 1)), (2**62, 129, (1, 2))):
    assert torch.equal(kernel.words(key, start, blocks, cpu, nonce), chacha.words(key, start, blocks, cpu, nonce))
for count in (0, 1, 2, 3, 4, 5, 513, 2049):
    assert torch.allclose(kernel.drawn(key, count, cpu), chacha.drawn(key, count, cpu), 0, 1e-13)
    whole, doubts = kernel.steps(key, count, 22, cpu)
    assert torch.equal(whole, chacha.steps(key, count, 22, cpu)) and not int(doubts)
    whole, doubts = kernel.steps(key, count, 43, cpu)
    assert int(doubts) if count > 99 else True
    assert int(doubts) or not whole.isnan().any()
    sure = ~whole.isnan()
    assert float(sure.double().sum()) > 0.7 * count - 5
    assert torch.equal(whole[sure], chacha.steps(key, count, 43, cpu)[sure])
print("same")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_the_interpreted_kernel_gives_the_same_bits():
    """Triton runs kernels without a device if it is told so before it is imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr


@needs_cuda
def test_on_a_device_the_kernel_gives_the_same_bits_and_the_standard_law():
    device = torch.device("cuda")
    kernel = chacha.kernel_for(device)
    if kernel is not None:
        key = os.urandom(32)
        assert serialised(kernel.words(key, 2**32 - 3, 1000, device)) == library(key, 2**32 - 3, 1000)
        assert torch.allclose(kernel.drawn(key, 9999, device).cpu(), chacha.drawn(key, 9999, CPU), 0, 1e-12)
        whole, doubts = kernel.steps(key, 99_999, 22, device)
        assert torch.equal(whole.cpu(), chacha.steps(key, 99_999, 22, CPU))
        whole, doubts = kernel.steps(key, 99_999, 40, device)
        sure = ~whole.isnan().cpu()
        assert 0 < int(doubts) < 9_999
        assert torch.equal(whole.cpu()[sure], chacha.steps(key, 99_999, 40, CPU)[sure])
    source = SystemNoise()
    drawn = torch.cat([source.normal((300, 1000), device).flatten() for _ in range(3)])
    assert drawn.device.type == "cuda"
    assert len(drawn.unique()) == len(drawn)
    assert stats.kstest(drawn.cpu().numpy(), "norm").pvalue > 1e-7
    for bits in (20, 36):  # at 36 bits some hundreds are open
        (whole,) = source.steps([1_000_003], bits, device)
        assert torch.equal(whole, whole.round())
        assert stats.kstest(whole.cpu().numpy() * 2.0**-bits, "norm").pvalue > 1e-7


@needs_cuda
def test_on_a_device_the_bound_holds(monkeypatch):
    """Rounding is that of the digits wherever the kernel is sure, close to halves as well: see 40 bits above."""
    key, count, bits, device = os.urandom(32), 4000, 38, torch.device("cuda")
    kernel = chacha.kernel_for(device)
    if kernel is not None:
        whole, _ = kernel.steps(key, count, bits, device)
        monkeypatch.setattr(rounded, "OF_RADIUS", 1e9)  # digits decide all
        sure = ~whole.isnan().cpu()
        assert torch.equal(whole.cpu()[sure], chacha.steps(key, count, bits, CPU)[sure])
