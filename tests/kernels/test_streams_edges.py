"""Random words at their edges: what one key may make, buffers that grow word by word, and seeds of the right size."""

from __future__ import annotations

import hashlib
import os
from fractions import Fraction

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpmac.checks import ArgumentError
from dpmac.kernels import streams
from dpmac.kernels.streams import AESStream
from dpmac.randomness import SeededNoise


def test_a_key_makes_so_little_that_a_permutation_is_as_good_as_a_function():
    """Blocks of a random function meet with a chance below 2**-89 for every key, as the module promises."""
    blocks = streams.KEY_BYTES // 16
    assert Fraction(blocks * (blocks - 1) // 2, 2**128) < Fraction(1, 2**89)
    assert 8 * streams.CHUNK <= streams.KEY_BYTES  # a piece fits into what one key makes


def test_buffers_that_grow_word_by_word_hold_the_stream():
    key = os.urandom(32)
    stream, sizes = AESStream(iter([key])), [*range(30), *range(30, 0, -1)]
    made = b"".join(stream.words(size).numpy().tobytes() for size in sizes)
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = (cipher.update((2 + block).to_bytes(16, "big")) for block in range(-(-len(made) // 16)))
    assert made == b"".join(blocks)[: len(made)]
    assert len(made) == 8 * sum(sizes)


def test_a_key_is_used_up_to_its_last_byte_and_no_further(monkeypatch):
    monkeypatch.setattr(streams, "KEY_BYTES", 4096)
    keys = iter([bytes([i]) * 32 for i in range(9)])
    stream = AESStream(keys)
    for _ in range(4):
        stream.words(256)  # half of what a key makes
    assert next(keys) == bytes([2]) * 32  # two are gone


def test_a_seed_has_63_bits():
    assert SeededNoise(2**63 - 1).seed == 2**63 - 1
    for seed in (2**63, 2**64, -1):
        with pytest.raises(ArgumentError, match="seed="):
            SeededNoise(seed)


def test_a_device_s_generator_has_63_bits_of_the_key_and_goes_on_where_it_was():
    """The same generator for the same device, whatever the device is: here it is the processor."""
    cpu = torch.device("cpu")

    def drawn(source):
        return torch.randn(20, generator=source._on_device(cpu))

    source = SeededNoise(5).spawn("a")
    key = int.from_bytes(hashlib.sha256(b"dpmac/a:5").digest(), "big")
    assert source._on_device(cpu).initial_seed() == key >> 193
    first, state, second = drawn(source), source.state(), drawn(source)
    assert not torch.equal(first, second)
    assert torch.equal(drawn(SeededNoise(5).spawn("a")), first)
    again = SeededNoise(5).spawn("a")
    again.restore(state)
    assert torch.equal(drawn(again), second)
