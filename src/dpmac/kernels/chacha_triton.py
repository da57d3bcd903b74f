"""ChaCha20 and the Gaussian transform as one Triton kernel: the cipher's words never leave the registers.

K4: the same words and the same draws as on the CPU, bit for bit, or left for the CPU to decide.

The bits and the layout are those of the plain torch version (:mod:`dpmac.kernels.chacha`), which documents what each
word is for; only logarithm, sine and cosine may round differently. One lane computes one block of 64 bytes.
Imported only if Triton is installed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs, disable-error-code="untyped-decorator,misc"

from __future__ import annotations

import math
import struct

import torch
import triton
import triton.language as tl
from torch import Tensor

from dpmac.kernels import rounded

LANES = 128
# Keys, counts and block numbers differ between draws: if Triton specialised on them, it would recompile every time.
VARYING = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "n0", "n1", "start", "count"]
FOR_DRAWS = [name for name in VARYING if name not in ("n0", "n1", "start")]
TURN = tl.constexpr(math.pi * 2.0**-63)
OF_RADIUS, OVER_RADIUS = tl.constexpr(rounded.OF_RADIUS), tl.constexpr(rounded.OVER_RADIUS)  # powers of two, like all
UNKNOWN = tl.constexpr(rounded.UNKNOWN)  # constants below: exact in single precision too


def drawn(key: bytes, count: int, device: torch.device) -> Tensor:
    """``count`` Gaussians from ``key``, in the layout of :func:`dpmac.kernels.chacha.drawn`."""
    out = torch.empty(count, dtype=torch.float64, device=device)
    if count:
        with torch.cuda.device_of(out):
            _gaussians[(triton.cdiv(count, 8 * LANES),)](out, *_signed(key), count, LANES=LANES)
    return out


def steps(key: bytes, count: int, bits: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """``count`` draws of round(2**bits N) from ``key``, in the layout of :func:`dpmac.kernels.chacha.steps`.

    Draws whose rounding :func:`dpmac.kernels.rounded.error` leaves open are NaN. The second tensor is 0 if there are
    none.
    """
    out = torch.empty(count, dtype=torch.float64, device=device)
    doubts = torch.zeros((), dtype=torch.int32, device=device)
    if count:
        with torch.cuda.device_of(out):
            _steps[(triton.cdiv(count, 8 * LANES),)](out, doubts, *_signed(key), count, bits, LANES=LANES)
    return out, doubts


def words(key: bytes, start: int, blocks: int, device: torch.device, nonce: tuple[int, int] = (0, 0)) -> Tensor:
    """The ChaCha20 blocks from ``start`` on, in the layout of :func:`dpmac.kernels.chacha.words`. For checks."""
    out = torch.empty(blocks, 16, dtype=torch.int64, device=device)
    with torch.cuda.device_of(out):
        grid = (triton.cdiv(blocks, LANES),)
        _words[grid](out, *_signed(key), *_signed(struct.pack("<2I", *nonce)), start, blocks, LANES=LANES)
    return out


def _signed(key: bytes) -> tuple[int, ...]:
    """32-bit words as signed numbers: Triton would pass unsigned ones as 32 or 64 bits, depending on their size."""
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
def _pair(l0, l1, t0, t1):
    """Box-Muller on two words of 64 bits, each given as its lower and its upper half: u, radius, cosine and sine."""
    lead = ((l1 & 0x7FFFFFFF).to(tl.int64) << 32) | l0.to(tl.int64)
    turn = (t1.to(tl.int64) << 32) | t0.to(tl.int64)
    u = lead.to(tl.float64) * 2.0**-63 + 2.0**-64
    radius = tl.sqrt(-2.0 * tl.log(u))
    angle = turn.to(tl.float64) * tl.full((1,), TURN, tl.float64)  # a plain constant might become single precision
    return u, radius, tl.cos(angle), tl.sin(angle)


@triton.jit
def _store(out, row, number, blocks, count, value):
    tl.store(out + row * blocks + number, value, mask=(number < blocks) & (row * blocks + number < count))


@triton.jit
def _normals(out, pair: tl.constexpr, number, blocks, count, l0, l1, t0, t1):
    _, radius, cosine, sine = _pair(l0, l1, t0, t1)
    _store(out, 2 * pair, number, blocks, count, radius * cosine)
    _store(out, 2 * pair + 1, number, blocks, count, radius * sine)


@triton.jit
def _rounded(out, pair: tl.constexpr, number, blocks, count, scale, l0, l1, t0, t1):
    """Store both draws of a pair, NaN if their rounding is open; returns which lanes have an open one."""
    u, radius, cosine, sine = _pair(l0, l1, t0, t1)
    bound = OF_RADIUS * radius + (OVER_RADIUS + UNKNOWN / (u - 2.0**-64)) / radius
    tolerance = tl.where(radius > 0.0, 0.5 - scale * bound, -1.0)  # -1 also if the radius is NaN
    first, second = scale * radius * cosine, scale * radius * sine
    one, other = tl.floor(first + 0.5), tl.floor(second + 0.5)
    open_one, open_other = (tl.abs(first - one) < tolerance) == 0, (tl.abs(second - other) < tolerance) == 0
    _store(out, 2 * pair, number, blocks, count, tl.where(open_one, float("nan"), one))
    _store(out, 2 * pair + 1, number, blocks, count, tl.where(open_other, float("nan"), other))
    return ((open_one | open_other) & (number < blocks)).to(tl.int32)


@triton.jit(do_not_specialize=FOR_DRAWS)
def _gaussians(out, k0, k1, k2, k3, k4, k5, k6, k7, count, LANES: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    blocks = (count.to(tl.int64) + 7) // 8
    none = k0 ^ k0
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = _block(
        k0, k1, k2, k3, k4, k5, k6, k7, none, none, number, LANES
    )
    _normals(out, 0, number, blocks, count, w0, w1, w2, w3)
    _normals(out, 1, number, blocks, count, w4, w5, w6, w7)
    _normals(out, 2, number, blocks, count, w8, w9, w10, w11)
    _normals(out, 3, number, blocks, count, w12, w13, w14, w15)


@triton.jit(do_not_specialize=[*FOR_DRAWS, "bits"])
def _steps(out, doubts, k0, k1, k2, k3, k4, k5, k6, k7, count, bits, LANES: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    blocks = (count.to(tl.int64) + 7) // 8
    none = k0 ^ k0
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = _block(
        k0, k1, k2, k3, k4, k5, k6, k7, none, none, number, LANES
    )
    scale = ((bits.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)  # 2**bits, by its exponent
    found = _rounded(out, 0, number, blocks, count, scale, w0, w1, w2, w3)
    found += _rounded(out, 1, number, blocks, count, scale, w4, w5, w6, w7)
    found += _rounded(out, 2, number, blocks, count, scale, w8, w9, w10, w11)
    found += _rounded(out, 3, number, blocks, count, scale, w12, w13, w14, w15)
    total = tl.sum(found)
    if total > 0:
        tl.atomic_add(doubts, total)


@triton.jit(do_not_specialize=VARYING)
def _words(out, k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, start, count, LANES: tl.constexpr):
    lane = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    number = lane + start.to(tl.int64)
    made = _block(k0, k1, k2, k3, k4, k5, k6, k7, n0, n1, number, LANES)
    for j in tl.static_range(16):
        tl.store(out + lane * 16 + j, made[j].to(tl.int64), mask=lane < count)
