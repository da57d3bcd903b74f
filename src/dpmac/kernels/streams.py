"""Random words on the CPU: AES-256 in counter mode, keyed by the operating system.

K4, if AES-256 is indistinguishable from a random permutation and the system's keys cannot be guessed.

A key is drawn from ``os.urandom`` (the kernel's cryptographic generator), serves one draw, and is forgotten. There is
no state between draws. So there is nothing that a fork, a pickle, a copy, a thread or a resumed run could repeat, and
nothing from which a draw could be recomputed after it (except for memory that the interpreter and the allocator have
not overwritten yet, which no Python program controls). A process that a debugger or a virtual machine freezes *inside*
a draw and starts twice would finish that one draw twice.

We assume that ``os.urandom`` gives keys that cannot be guessed, and that AES-256 is indistinguishable from a random
permutation. A permutation never repeats a block, which a random function would: ``KEY_BYTES`` keeps the resulting
advantage below 2**-89 for every key, that is for every 16 MiB of noise. A longer draw continues with a fresh key.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

KEY_BYTES = 1 << 24  # maximal output of one key: 2**20 blocks, so 2**40 pairs of blocks, few compared to 2**128
CHUNK = 3 << 15  # maximal number of words at a time: 768 KiB, which the transform still finds in the cache
_START = (2).to_bytes(16, "big")  # the counter of the first block
_ZEROS = memoryview(bytes(8 * CHUNK))  # the plaintext: encrypting zeros in counter mode gives the key stream


def fresh_name() -> str:
    """A unique name, used as an identifier and never for noise."""
    return os.urandom(8).hex()


def fresh_key() -> bytes:
    """256 bits from the operating system. The only source of randomness of a private draw."""
    return os.urandom(32)


class AESStream:
    """Independent uniform 64-bit words for one draw. Create one for every draw, and keep none.

    ``keys`` and ``start``, the first counter, are for tests with known answers: a source never passes them.
    """

    def __init__(self, keys: Iterator[bytes] | None = None, start: bytes = _START) -> None:
        self._keys, self._start = keys or iter(fresh_key, b""), start
        self._cipher: CipherContext | None = None
        self._made = 0  # bytes made with the current key
        self._buffer = np.empty(0, dtype=np.int64)

    def words(self, count: int) -> Tensor:
        """The next ``count`` words as int64, in memory that the next call overwrites."""
        if count < 0:
            raise ArgumentError("count", count, "give a number of words, at least 0")
        if len(self._buffer) < count + 2:
            self._buffer = np.empty(count + 2, dtype=np.int64)  # the library needs space for most of another block
        for start in range(0, count, CHUNK):
            size = 8 * min(CHUNK, count - start)
            self._cipher_for(size).update_into(_ZEROS[:size], self._buffer[start:].view(np.uint8).data)
        return torch.from_numpy(self._buffer)[:count]

    def _cipher_for(self, size: int) -> CipherContext:
        """The cipher for the next ``size`` bytes: a fresh one if the current key would produce too many."""
        if self._cipher is None or self._made + size > KEY_BYTES:
            self._cipher, self._made = _counter_mode(next(self._keys), self._start), 0
        self._made += size
        return self._cipher

    def __reduce__(self) -> str:
        raise TypeError("a stream cannot be copied or pickled: its words are for one draw only")


def _counter_mode(key: bytes, start: bytes) -> CipherContext:
    """Counter mode. From _START on it equals the stream of GCM with a zero nonce, and OpenSSL's GCM is twice as fast if
    the processor has wide AES instructions, although it also authenticates, which is not needed."""
    library = ciphers()
    mode = library.modes.CTR(start)
    if start == _START:
        mode = library.modes.GCM(bytes(12))
    context: CipherContext = library.Cipher(library.algorithms.AES(key), mode).encryptor()
    return context


@functools.cache
def ciphers() -> ModuleType:
    """OpenSSL's ciphers. Imported on first use: planning a budget does not need them."""
    import cryptography.hazmat.primitives.ciphers as library

    return library
