"""Noise where it is used, on a CUDA device: ChaCha20 (RFC 8439), keyed by the operating system for every draw.

As on the CPU, a fresh key of 256 bits serves one draw and is forgotten; inside the draw every block of 64 bytes has its
own number. What is assumed: the key cannot be guessed, and ChaCha20 cannot be told from a random function (which may
repeat itself, so there is no limit to what one key may make). The key travels to the device as arguments of a kernel,
so whoever can read the device's memory or its driver's can read it, as they can the rows.

The cipher is written twice: in plain torch here, for any device, and as a Triton kernel that makes the same bits
(:mod:`dpmac.randomness.kernel`). The kernel is used where Triton is there, after it has shown once on that device that
it gives the bits of the other; a kernel that gives others is an error.
"""

from __future__ import annotations

import functools
import struct
import warnings
from types import ModuleType

import torch
from torch import Tensor

from dpmac.randomness.gaussian import box_muller
from dpmac.randomness.streams import fresh_key

CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
PAIRS = 2  # of Gaussians from a block: its eight 64-bit words are three for each pair, and two that are left unused
_BLOCKS = 1 << 18  # at a time in plain torch: some 100 MB
_MASK = 0xFFFFFFFF


def gaussians_on(device: torch.device, count: int) -> Tensor:
    """``count`` draws from N(0, 1), made on ``device``, with the grain and the tail of those made on the CPU."""
    if device.type != "cuda":
        return drawn(fresh_key(), count, device)
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("noise cannot be drawn inside a CUDA graph: every replay would repeat it; draw it outside")
    here = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    kernel = kernel_for(here)
    return drawn(fresh_key(), count, here) if kernel is None else kernel.drawn(fresh_key(), count, here)


@functools.cache
def kernel_for(device: torch.device) -> ModuleType | None:
    """The Triton kernel, once it has shown on this device that it is right; None where there is no Triton.

    A Triton that is there but cannot compile is told in a warning, and plain torch makes the same noise more slowly.
    """
    try:
        import dpmac.randomness.kernel as kernel
    except ImportError:
        return None
    key, count = bytes(range(100, 132)), 1001
    try:
        given, noise = kernel.words(key, 2**32 - 3, 260, device), kernel.drawn(key, count, device)
    except Exception as error:
        warnings.warn(f"Triton cannot compile for {device} ({error}): noise is made by plain torch", stacklevel=3)
        return None
    expected = drawn(key, count, device)
    if not torch.equal(given, words(key, 2**32 - 3, 260, device)) or not torch.allclose(noise, expected, 0, 1e-12):
        raise RuntimeError(f"the noise kernel is wrong on {device}: please report this, with the versions of triton")
    return kernel


def drawn(key: bytes, count: int, device: torch.device) -> Tensor:
    """``count`` Gaussians from ``key`` in plain torch: the first of every block, then the second, and so on."""
    blocks = -(-count // (2 * PAIRS))
    out = torch.empty(PAIRS, 2, blocks, dtype=torch.float64, device=device)
    for start in range(0, blocks, _BLOCKS):
        part = out[:, :, start : start + _BLOCKS]
        low, high = words(key, start, part.shape[2], device).reshape(-1, 8, 2).permute(2, 1, 0)
        whole = low | high << 32
        for pair in range(PAIRS):
            box_muller(whole[4 * pair : 4 * pair + 3], part[pair])
    return out.flatten()[:count]


def words(key: bytes, start: int, blocks: int, device: torch.device, nonce: tuple[int, int] = (0, 0)) -> Tensor:
    """ChaCha20's blocks number ``start`` and on, (blocks, 16): 32-bit words in int64, where no sum can overflow.

    The block number has 64 bits (state words 12 and 13) and the nonce 64 (14 and 15), as Bernstein wrote it. RFC 8439's
    block function is the same: of its 96 bits of nonce the first 32 are here the upper half of the block number.
    """
    number = start + torch.arange(blocks, device=device)
    fixed = torch.tensor([*CONSTANTS, *struct.unpack("<8I", key), 0, 0, *nonce], device=device)
    state = fixed[:, None].repeat(1, blocks)
    state[12], state[13] = number & _MASK, number >> 32 & _MASK
    a, b, c, d = state.view(4, 4, blocks)
    for _ in range(10):
        a, b, c, d = _quarter_rounds(a, b, c, d)  # the four columns
        a, b, c, d = _quarter_rounds(a, b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0))  # the four diagonals
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return ((torch.cat([a, b, c, d]) + state) & _MASK).T.contiguous()


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    for left, right in ((16, 12), (8, 7)):
        a = a + b & _MASK
        d = _rotated(d ^ a, left)
        c = c + d & _MASK
        b = _rotated(b ^ c, right)
    return a, b, c, d


def _rotated(x: Tensor, by: int) -> Tensor:
    return (x << by | x >> (32 - by)) & _MASK
