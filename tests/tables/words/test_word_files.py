"""Word vectors in files: the formats, the limits, and that nothing in a file is run."""

from __future__ import annotations

import gzip
import os
import zipfile

import numpy as np
import pytest

from dpmac import ArgumentError
from dpmac.tables.words import reading
from dpmac.tables.words.reading import known, read_vectors

WORDS = ["the", ",", "good", "bad"]
NUMBERS = np.array([[1.0, 2.0], [0.0, 0.0], [-1.5, 4.0], [3.0, -2.25]], dtype=np.float32)
LINES = "".join(f"{word} {a} {b}\n" for word, (a, b) in zip(WORDS, NUMBERS, strict=True))


def test_all_formats_hold_the_same_list(tmp_path):
    np.savez(tmp_path / "a.npz", words=np.array(WORDS), vectors=NUMBERS)
    np.savez_compressed(tmp_path / "b.npz", table=np.asfortranarray(NUMBERS), w=np.array(WORDS).astype("S"))
    (tmp_path / "c.txt").write_text(LINES)
    (tmp_path / "d.vec").write_text(f"4 2\n{LINES}")
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    found = {name: read_vectors(tmp_path / name, 10) for name in sorted(os.listdir(tmp_path))}
    assert len(found) == 5
    assert len({one.digest for one in found.values()}) == 1
    assert found["a.npz"].words == ("the", "good", "bad")
    assert found["a.npz"] is found["c.txt"]  # one list is in memory once
    assert known(found["a.npz"].digest) is found["a.npz"]
    assert read_vectors(tmp_path / "a.npz", 2).words == ("the", "good")


def test_a_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(LINES)
    first = read_vectors(path, 10)
    assert read_vectors(path, 10) is first
    path.write_text(LINES.replace("bad", "film"))
    os.utime(path, (1, 1))
    assert read_vectors(path, 10).words == ("the", "good", "film")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_objects_in_an_array_are_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", words=np.array([Bomb(), Bomb()], dtype=object), vectors=NUMBERS[:2])
    with pytest.raises(ArgumentError, match="array of objects"):
        read_vectors("a.npz", 10)
    assert not os.path.exists("executed")


def test_an_array_that_claims_more_than_its_file_is_refused(tmp_path):
    head = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 2), }"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("vectors.npy", head.ljust(127) + b"\n")
    with pytest.raises(ArgumentError, match="larger than its file"):
        read_vectors(tmp_path / "a.npz", 10)


def test_an_array_that_unpacks_to_far_more_than_its_size_is_refused_before_it_does(tmp_path):
    """Found in an attack: 4 MB of packed zeros took all memory there was."""
    head = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (70000, 250), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("vectors.npy", head + bytes(4 * 70_000 * 250))
    with pytest.raises(ArgumentError, match="unpacks to more than 200 times its size"):
        read_vectors(tmp_path / "a.npz", 10)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npz", b"no archive", "cannot be read"),
        ("a.txt", b"", "no words"),
        ("a.txt", b"alone\n", "too few numbers"),
        ("a.txt", b"a 1 2\nb 1\n", "too few numbers"),
        ("a.txt", b"a 1 x\n", "cannot be read"),
        ("a.txt", b"a 1 nan\nb 1 2\n", "finite"),
        ("a.txt", b"a " + b"1 " * 40_000, "longer than"),
        ("a.txt", b"a" + b" 1" * 2_000, "more numbers"),
        ("a.txt.gz", b"no gzip", "cannot be read"),
        ("a.txt", b"\x00\xff\xfe\n", "too few numbers"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArgumentError, match=said) as caught:
        read_vectors(tmp_path / name, 10)
    assert "a." in f"{caught.value}"


def test_what_is_no_file_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing.txt", tmp_path, tmp_path / "pipe", "a\0b"):
        with pytest.raises(ArgumentError, match=r"no (such )?file"):
            read_vectors(path, 10)


def test_few_lists_are_kept(tmp_path):
    for k in range(12):
        (tmp_path / f"{k}.txt").write_text(LINES.replace("bad", f"bad{k}"))
        read_vectors(tmp_path / f"{k}.txt", 10)
    assert len(reading._recent) <= 2 * reading._KEPT
