"""Noise generated on a CUDA device: ChaCha20 (RFC 8439), keyed by the operating system for every draw.

K4: the words are ChaCha20's, and the draws made from them have exactly the stated distribution.

As on the CPU, a fresh key of 256 bits serves one draw and is forgotten; within the draw every block of 64 bytes has its
own number. We assume that the key cannot be guessed, and that ChaCha20 is indistinguishable from a random function
(whose outputs may repeat, so there is no limit on the output of one key). The key is passed to the device as kernel
arguments, so whoever can read the memory of the device or of its driver can read the key, as they can read the rows.

The cipher is implemented twice: in plain torch here, for any device, and as a Triton kernel that produces the same bits
(:mod:`dpmac.kernels.chacha_triton`). The Triton kernel is used if Triton is installed and the kernel has produced the
same bits on that device: this is checked once in a process, before the device's first draw, and different bits are an
error. Draws whose rounding the device's double precision leaves
open are decided on the CPU, which gets only their indices.
"""

from __future__ import annotations

import functools
import struct
import warnings
from collections.abc import Iterator
from types import ModuleType

import torch
from torch import Tensor

from dpmac.kernels.exact import decided
from dpmac.kernels.gaussian import WORDS, box_muller
from dpmac.kernels.rounded import rounded
from dpmac.kernels.streams import AESStream, ciphers, fresh_key

CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
PAIRS = 4  # pairs of Gaussians in a block: each pair takes two of its eight 64-bit words
_BLOCKS = 1 << 18  # blocks at a time in plain torch: about 100 MB
_MASK = 0xFFFFFFFF


def gaussians_on(device: torch.device, count: int) -> Tensor:
    """``count`` draws from N(0, 1), generated on ``device``."""
    here, kernel = _maker(device)
    if kernel is None:
        return drawn(fresh_key(), count, here)
    out: Tensor = kernel.drawn(fresh_key(), count, here)
    return out


def steps_on(device: torch.device, count: int, bits: int) -> Tensor:
    """``count`` draws of round(2**bits N), generated on ``device`` with exactly that distribution, as on the CPU."""
    here, kernel = _maker(device)
    key = fresh_key()
    if kernel is None:
        return steps(key, count, bits, here)
    out: Tensor
    out, doubts = kernel.steps(key, count, bits, here)
    if int(doubts):  # the only number that the CPU waits for
        settle(out, key, bits, AESStream())
    return out


def _maker(device: torch.device) -> tuple[torch.device, ModuleType | None]:
    """The device with its index, and its Triton kernel if it has one."""
    if device.type != "cuda":
        return device, None
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("noise cannot be drawn inside a CUDA graph: every replay would repeat it; draw it outside")
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device, kernel_for(device)


@functools.cache
def kernel_for(device: torch.device) -> ModuleType | None:
    """The Triton kernel, after a check that it is correct on this device; None if Triton is not installed.

    If Triton cannot compile, there is a warning, and plain torch generates the same noise more slowly.
    """
    try:
        import dpmac.kernels.chacha_triton as kernel
    except ImportError:
        return None
    key, count, bits = bytes(range(100, 132)), 1001, 20
    try:
        given, noise = kernel.words(key, 2**32 - 3, 260, device), kernel.drawn(key, count, device)
        whole, _ = kernel.steps(key, count, bits, device)
    except Exception as error:
        warnings.warn(f"Triton cannot compile for {device} ({error}): noise is made by plain torch", stacklevel=3)
        return None
    expected, exact = drawn(key, count, device), steps(key, count, bits, device)
    right = torch.equal(given, words(key, 2**32 - 3, 260, device)) and torch.allclose(noise, expected, 0, 1e-12)
    if not right or not torch.equal(torch.where(whole.isnan(), exact, whole), exact):
        raise RuntimeError(f"the noise kernel is wrong on {device}: please report this, with the versions of triton")
    return kernel


def drawn(key: bytes, count: int, device: torch.device) -> Tensor:
    """``count`` Gaussians from ``key`` in plain torch: the first one of every block, then the second, and so on."""
    blocks = -(-count // (2 * PAIRS))
    out = torch.empty(PAIRS, 2, blocks, dtype=torch.float64, device=device)
    for start, part in _parts(out):
        radii = torch.empty(part.shape[2], dtype=torch.float64, device=device)
        for pair, two in zip(part, _pairs_of_words(key, start, part.shape[2], device), strict=True):
            box_muller(two, radii, pair)
    return out.flatten()[:count]


def steps(key: bytes, count: int, bits: int, device: torch.device) -> Tensor:
    """``count`` draws of round(2**bits N) from ``key``, in the same layout."""
    blocks = -(-count // (2 * PAIRS))
    out = torch.empty(PAIRS, 2, blocks, dtype=torch.float64, device=device)
    for start, part in _parts(out):
        spare = torch.empty(3, part.shape[2], dtype=torch.float64, device=device)
        for pair, two in zip(part, _pairs_of_words(key, start, part.shape[2], device), strict=True):
            rounded(two, pair, spare, bits, AESStream())
    return out.flatten()[:count]


def settle(out: Tensor, key: bytes, bits: int, stream: AESStream) -> None:
    """Decide the draws that a kernel left open (NaN in ``out``), from the words of ``key`` and further digits."""
    blocks = -(-len(out) // (2 * PAIRS))
    open_ones = torch.nonzero(out.isnan()).flatten()
    found: dict[tuple[int, int], tuple[int, int]] = {}  # both draws of a pair must use the same digits
    whole = []
    for index in open_ones.tolist():
        row, block = divmod(index, blocks)
        pair, which = divmod(row, 2)
        if (block, pair) not in found:
            lead, turn = struct.unpack_from("<2q", block_of(key, block), 8 * WORDS * pair)
            found[block, pair] = decided(lead, turn, bits, stream)
        whole.append(found[block, pair][which])
    out[open_ones] = torch.tensor(whole, dtype=torch.float64, device=out.device)


def block_of(key: bytes, number: int) -> bytes:
    """One block, by OpenSSL: a thousand times faster than plain torch, which has an overhead for each operation."""
    library = ciphers()
    cipher = library.Cipher(library.algorithms.ChaCha20(key, struct.pack("<QQ", number, 0)), mode=None)
    block: bytes = cipher.encryptor().update(bytes(64))
    return block


def _parts(out: Tensor) -> Iterator[tuple[int, Tensor]]:
    """``out`` (pairs, 2, blocks) in slices, each with the number of its first block."""
    for start in range(0, out.shape[2], _BLOCKS):
        yield start, out[:, :, start : start + _BLOCKS]


def _pairs_of_words(key: bytes, start: int, blocks: int, device: torch.device) -> Tensor:
    """The 64-bit words for each pair of Gaussians, (PAIRS, 2, blocks)."""
    low, high = words(key, start, blocks, device).reshape(blocks, 8, 2).permute(2, 1, 0)
    whole: Tensor = low | high << 32
    return whole.view(PAIRS, WORDS, blocks)


def words(key: bytes, start: int, blocks: int, device: torch.device, nonce: tuple[int, int] = (0, 0)) -> Tensor:
    """The ChaCha20 blocks from number ``start`` on, (blocks, 16): 32-bit words in int64, so that no sum overflows.

    The block number has 64 bits (state words 12 and 13) and the nonce 64 (14 and 15), as in Bernstein's definition. The
    block function of RFC 8439 is the same: the first 32 of its 96 nonce bits are the upper half of our block number.
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
