"""Random words on the CPU: AES-256 in counter mode, keyed by the operating system.

K4, if AES-256 cannot be told from a random permutation and the system's keys cannot be guessed.

A key is drawn from ``os.urandom`` (the kernel's cryptographic generator), serves one draw, and is forgotten. There is
no state between draws. So there is nothing that a fork, a pickle, a copy, a thread or a resumed run could repeat, and
nothing by which a draw could be computed from what is left in memory after it (but for what the interpreter and the
allocator have not overwritten yet, which no Python program controls). A process that a debugger or a virtual machine
freezes *inside* a draw and starts twice would finish that one draw twice.

What is assumed: ``os.urandom`` gives keys that cannot be guessed, and AES-256 cannot be told from a random permutation.
A permutation never repeats a block, which true randomness would: ``KEY_BYTES`` keeps what can be gained from that below
2**-89 for every key, that is for every 16 MiB of noise. A longer draw goes on with a fresh key.
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

KEY_BYTES = 1 << 24  # made with one key at most: 2**20 blocks, and 2**40 pairs of blocks in 2**128 are few
CHUNK = 3 << 15  # words at a time at most: 768 KiB, which the transform still finds in the cache
_START = (2).to_bytes(16, "big")  # the counter of the first block
_ZEROS = memoryview(bytes(8 * CHUNK))  # what is enciphered: of zeros, counter mode leaves the stream itself


def fresh_name() -> str:
    """A name that nothing else has, for telling things apart; not for noise."""
    return os.urandom(8).hex()


def fresh_key() -> bytes:
    """256 bits from the operating system. The only place from which a private draw gets its randomness."""
    return os.urandom(32)


class AESStream:
    """Independent uniform 64-bit words for one draw. Make one for every draw, and keep none.

    ``keys`` and ``start``, the first counter, are for tests, which know what given ones must give: a source never
    passes them.
    """

    def __init__(self, keys: Iterator[bytes] | None = None, start: bytes = _START) -> None:
        self._keys, self._start = iter(fresh_key, b"") if keys is None else keys, start
        self._cipher: CipherContext | None = None
        self._made = 0  # bytes, with the present key
        self._buffer = np.empty(0, dtype=np.int64)

    def words(self, count: int) -> Tensor:
        """The next ``count`` words as int64, in memory that the next call overwrites."""
        if count < 0:
            raise ArgumentError("count", count, "give a number of words, at least 0")
        if len(self._buffer) < count + 2:
            self._buffer = np.empty(count + 2, dtype=np.int64)  # the library wants room for most of a block more
        for start in range(0, count, CHUNK):
            size = 8 * min(CHUNK, count - start)
            self._cipher_for(size).update_into(_ZEROS[:size], self._buffer[start:].view(np.uint8).data)
        return torch.from_numpy(self._buffer)[:count]

    def _cipher_for(self, size: int) -> CipherContext:
        """The cipher that makes the next ``size`` bytes: a fresh one where the present key would have made too many."""
        if self._cipher is None or self._made + size > KEY_BYTES:
            self._cipher, self._made = _counter_mode(next(self._keys), self._start), 0
        self._made += size
        return self._cipher

    def __reduce__(self) -> str:
        raise TypeError("a stream cannot be copied or pickled: its words are for one draw only")


def _counter_mode(key: bytes, start: bytes) -> CipherContext:
    """Counter mode. From _START on it is what GCM makes of a nonce of zeros, and OpenSSL's GCM is twice as fast where
    the processor has wide AES instructions, though it also authenticates, which nobody asks it for."""
    library = ciphers()
    mode = library.modes.GCM(bytes(12)) if start == _START else library.modes.CTR(start)
    context: CipherContext = library.Cipher(library.algorithms.AES(key), mode).encryptor()
    return context


@functools.cache
def ciphers() -> ModuleType:
    """OpenSSL's. Imported when it is needed: whoever only plans a budget does without it."""
    import cryptography.hazmat.primitives.ciphers as library

    return library
