"""ChaCha20 and the Gaussian transform as one Triton kernel: the cipher's words never leave the registers.

The same bits and the same layout as the plain torch beside it (:mod:`dpmac.randomness.chacha`), which says what each
word is for; only logarithm, sine and cosine may round differently. One lane makes one block of 64 bytes.
Imported only where Triton is installed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs, disable-error-code="untyped-decorator,misc"

from __future__ import annotations

import math
import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 128
# Keys, counts and block numbers differ from draw to draw: specialised on, they would make Triton compile over and over.
VARYING = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "n0", "n1", "start", "count"]
TURN = tl.constexpr(math.pi * 2.0**-63)


def drawn(key: bytes, count: int, device: torch.device) -> Tensor:
    """``count`` Gaussians from ``key``, as :func:`dpmac.randomness.chacha.drawn` lays them out."""
    out = torch.empty(count, dtype=torch.float64, device=device)
    blocks = triton.cdiv(count, 4)
    if count:
        with torch.cuda.device_of(out):
            _gaussians[(triton.cdiv(blocks, LANES),)](out, *_signed(key), count, LANES=LANES)
    return out


def words(key: bytes, start: int, blocks: int, device: torch.device, nonce: tuple[int, int] = (0, 0)) -> Tensor:
    """ChaCha20's blocks number ``start`` and on, as :func:`dpmac.randomness.chacha.words` lays them out. For checks."""
    out = torch.empty(blocks, 16, dtype=torch.int64, device=device)
    with torch.cuda.device_of(out):
        grid = (triton.cdiv(blocks, LANES),)
        _words[grid](out, *_signed(key), *_signed(struct.pack("<2I", *nonce)), start, blocks, LANES=LANES)
    return out


def _signed(key: bytes) -> tuple[int, ...]:
    """32-bit words as signed numbers: unsigned ones would be passed as 32 or as 64 bits, by how large they are."""
    return struct.unpack(f"<{len(key) // 4}i", key)


@triton.jit
def _quarter(a, b, c, d):
    a += b
    d ^= a
    d = (d << 16) | (d >> 16)
    c += d
    b ^= c
    b = (b << 12) | (b >> 20)
    a += b
    d ^= a
    d = (d << 8) | (d >> 24)
    c += d
    b ^= c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit
def _block(k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, number, LANES: tl.constexpr):
    """The sixteen words of the blocks ``number`` (one for each lane)."""
    zero = tl.zeros((LANES,), tl.uint32)
    s4, s5 = zero + k0.to(tl.uint32, bitcast=True), zero + k1.to(tl.uint32, bitcast=True)
    s6, s7 = zero + k2.to(tl.uint32, bitcast=True), zero + k3.to(tl.uint32, bitcast=True)
    s8, s9 = zero + k4.to(tl.uint32, bitcast=True), zero + k5.to(tl.uint32, bitcast=True)
    s10, s11 = zero + k6.to(tl.uint32, bitcast=True), zero + k7.to(tl.uint32, bitcast=True)
    s12, s13 = number.to(tl.uint32), (number >> 32).to(tl.uint32)
    s14, s15 = zero + n0.to(tl.uint32, bitcast=True), zero + n1.to(tl.uint32, bitcast=True)
    s0 = tl.full((LANES,), 0x61707865, tl.uint32)  # "expand 32-byte k"
    s1 = tl.full((LANES,), 0x3320646E, tl.uint32)
    s2 = tl.full((LANES,), 0x79622D32, tl.uint32)
    s3 = tl.full((LANES,), 0x6B206574, tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7 = s0, s1, s2, s3, s4, s5, s6, s7
    x8, x9, x10, x11, x12, x13, x14, x15 = s8, s9, s10, s11, s12, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    x0, x1, x2, x3 = x0 + s0, x1 + s1, x2 + s2, x3 + s3
    x4, x5, x6, x7 = x4 + s4, x5 + s5, x6 + s6, x7 + s7
    x8, x9, x10, x11 = x8 + s8, x9 + s9, x10 + s10, x11 + s11
    x12, x13, x14, x15 = x12 + s12, x13 + s13, x14 + s14, x15 + s15
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@triton.jit
def _pair(l0, l1, r0, r1, t0, t1):
    """Box-Muller on three words of 64 bits, each given as its lower and its upper half."""
    lead = ((l1 & 0x7FFFFFFF).to(tl.int64) << 32) | l0.to(tl.int64)
    rest = ((r1 & 0x7FFFFFFF).to(tl.int64) << 32) | r0.to(tl.int64)
    turn = (t1.to(tl.int64) << 32) | t0.to(tl.int64)
    u = (lead.to(tl.float64) + (rest.to(tl.float64) + 0.5) * 2.0**-63) * 2.0**-63
    radius = tl.sqrt(-2.0 * tl.log(u))
    angle = turn.to(tl.float64) * tl.full((1,), TURN, tl.float64)  # a bare constant might be taken in single precision
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit(do_not_specialize=[name for name in VARYING if name not in ("n0", "n1", "start")])
def _gaussians(out, k0, k1, k2, k3, k4, k5, k6, k7, count, LANES: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    blocks = (count.to(tl.int64) + 3) // 4
    none = k0 ^ k0
    w0, w1, w2, w3, w4, w5, _6, _7, w8, w9, w10, w11, w12, w13, _14, _15 = _block(
        k0, k1, k2, k3, k4, k5, k6, k7, none, none, number, LANES
    )
    first, second = _pair(w0, w1, w2, w3, w4, w5)
    third, fourth = _pair(w8, w9, w10, w11, w12, w13)
    inside = number < blocks
    tl.store(out + number, first, mask=inside & (number < count))
    tl.store(out + blocks + number, second, mask=inside & (blocks + number < count))
    tl.store(out + 2 * blocks + number, third, mask=inside & (2 * blocks + number < count))
    tl.store(out + 3 * blocks + number, fourth, mask=inside & (3 * blocks + number < count))


@triton.jit(do_not_specialize=VARYING)
def _words(out, k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, start, count, LANES: tl.constexpr):
    lane = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    number = lane + start.to(tl.int64)
    made = _block(k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, number, LANES)
    for j in tl.static_range(16):
        tl.store(out + lane * 16 + j, made[j].to(tl.int64), mask=lane < count)
