"""The CPU's random words: AES-256 in counter mode by its test vectors, and a fresh key for every draw."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
import warnings
from functools import partial

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpmac.checks import ArgumentError
from dpmac.kernels import streams
from dpmac.kernels.streams import AESStream
from dpmac.randomness import SystemNoise


def given(*keys, **arguments):
    return AESStream(iter(keys), **arguments)


def as_bytes(words):
    return words.numpy().tobytes()


def reference(key, size):
    """Counter mode made by hand from single blocks; GCM's first counter, with a nonce of zeros, is 2."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return b"".join(cipher.update((2 + block).to_bytes(16, "big")) for block in range(-(-size // 16)))[:size]


def test_nist_vectors():
    """SP 800-38A, F.5.5 (CTR-AES256): plaintext and ciphertext of four blocks; their difference is the stream."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    start = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    cipher = bytes.fromhex(
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    stream = given(key, start=start)
    made = as_bytes(stream.words(3)) + as_bytes(stream.words(5))  # not in whole blocks
    assert bytes(a ^ b for a, b in zip(made, plain, strict=True)) == cipher


def test_a_gcm_vector():
    """The GCM specification's test case 14: key, nonce and plaintext of zeros."""
    assert as_bytes(given(bytes(32)).words(2)).hex() == "cea7403d4d606b6e074ec5d3baf39d18"


def test_gcm_and_ctr_make_the_same_stream(monkeypatch):
    """Which of OpenSSL's two is taken is a matter of speed: far beyond one counter byte, and over a change of keys."""
    keys = [os.urandom(32) for _ in range(2)]
    monkeypatch.setattr(streams, "KEY_BYTES", 1 << 21)
    as_gcm, count = given(*keys), 300_000
    one = as_bytes(as_gcm.words(count))
    start = streams._START
    monkeypatch.setattr(streams, "_START", b"not this one")
    assert as_bytes(given(*keys, start=start).words(count)) == one


def test_words_are_the_stream_in_pieces_of_any_size():
    key = bytes(range(32))
    stream = given(key)
    made = b"".join(as_bytes(stream.words(count)) for count in (1, 0, 7, 1000, 2, 4096))
    assert made == reference(key, len(made))
    with pytest.raises(ArgumentError, match="count="):
        stream.words(-1)


def test_a_key_makes_a_bounded_amount_and_the_next_starts_afresh(monkeypatch):
    monkeypatch.setattr(streams, "KEY_BYTES", 4096)
    keys = [bytes([i]) * 32 for i in range(4)]
    stream = given(*keys)
    made = [as_bytes(stream.words(200)) for _ in range(8)]  # 1,600 bytes: two to a key
    for i, key in enumerate(keys):
        assert made[2 * i] + made[2 * i + 1] == reference(key, 3200)
    with pytest.raises(StopIteration):
        stream.words(200)
    monkeypatch.setattr(streams, "KEY_BYTES", 1 << 17)
    assert len(SystemNoise().uniform(200_000).unique()) == 200_000  # nothing repeats across the 13 keys of one draw


def test_every_draw_takes_a_fresh_key_and_long_ones_several(monkeypatch):
    taken = []

    def fresh():
        taken.append(os.urandom(32))
        return taken[-1]

    monkeypatch.setattr(streams, "fresh_key", fresh)
    source = SystemNoise()
    source.uniform(3)
    source.normal((5, 2))
    source.spawn("places").uniform(3)
    assert [len(lot) for lot in source.steps([3, 1, 4], 20)] == [3, 1, 4]
    assert len(taken) == 4  # the lots of one release are one draw
    source.uniform(5 << 20)  # 40 MiB, 16 of them for a key at most
    assert 7 <= len(taken) <= 8
    assert len(set(taken)) == len(taken)


def values(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


DRAWS = {
    "uniform": lambda source: source.uniform(500),
    "normal": lambda source: source.normal((500,)),
    "steps": lambda source: next(source.steps([500], 44)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_no_copy_repeats_what_the_source_draws(draw):
    source = SystemNoise()
    source.uniform(10)
    others = [source, copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source)), SystemNoise()]
    drawn = values(DRAWS[draw](one) for one in others for _ in range(2))
    assert len(drawn.unique()) == len(drawn) == 5000
    assert not vars(source)  # nothing to keep, show or hand on
    assert repr(source) == "SystemNoise()"
    assert not pickle.loads(pickle.dumps(source)).seeded


def test_a_stream_itself_is_not_copied():
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="for one draw only"):
            copied(AESStream())


def test_threads_do_not_share_draws(request):
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)  # threads meet inside draws
    source, drawn = SystemNoise(), []
    start = threading.Barrier(8)

    def work():
        start.wait()
        drawn.extend(source.uniform(100) for _ in range(100))
        drawn.extend(next(source.steps([10], 44)) for _ in range(10))  # many of them open, and decided by digits

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values(drawn).unique()) == 8 * (100 * 100 + 10 * 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_repeat_its_parent():
    source = SystemNoise()
    source.normal((10,))  # so that anything kept between draws is there to be inherited
    drawn = []
    for _ in range(2):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child only draws
            child = os.fork()
        if child == 0:  # never back into the test runner
            try:
                os.write(write, as_bytes(torch.cat([source.normal((50,)), source.uniform(50)])))
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            sent = pipe.read()
        os.waitpid(child, 0)
        drawn.append(torch.frombuffer(bytearray(sent), dtype=torch.float64))
    drawn += [source.normal((50,)), source.uniform(50)]
    assert len(values(drawn)) == 300
    assert len(values(drawn).unique()) == 300
