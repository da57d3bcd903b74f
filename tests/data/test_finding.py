"""The datasets are found in the right place and checked to the last byte."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_mnist import (
    IMAGES,
    LABELS,
    SMALL,
    TEST_IMAGES,
    TEST_LABELS,
    contents,
    flip,
    idx,
    no_other_network,
    sha,
    stand_in,
    write,
)

import dpmac.data
from dpmac.data import CATALOGUE, DataError, fetching, loading
from dpmac.data.catalogue import DataFile


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    no_other_network(monkeypatch)


@pytest.fixture
def small(monkeypatch, tmp_path):
    return stand_in(monkeypatch, tmp_path)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("given", [".", "mnist", f"mnist/{IMAGES}"])
def test_an_explicit_path_may_be_the_folder_the_one_above_or_a_file(small, tmp_path, packed, given):
    folder = write(tmp_path / "data" / "mnist", SMALL, packed)
    path = tmp_path / "data" / (given + ".gz" * (packed and given.endswith("ubyte")))
    for form in (path, str(path)):
        data = dpmac.data.load("mnist", path=form)
        assert (data.name, data.shape, Path(data.source)) == ("mnist", (2, 3), folder)
    assert (data.x_train.shape, data.x_test.shape) == ((12, 6), (5, 6))
    assert (data.x_train.dtype, data.y_train.dtype) == (torch.float32, torch.int64)
    expected = torch.frombuffer(bytearray(SMALL[IMAGES][16:]), dtype=torch.uint8).reshape(12, 6) / 255
    assert torch.equal(data.x_train, expected)
    assert data.y_test.tolist() == [2, 3, 4, 5, 6]
    assert "tensor" not in repr(data)


def test_the_search_order(small, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path / "env"))
    order = [tmp_path / "env", tmp_path / "cache" / "dpmac", tmp_path / "debian"]
    with pytest.raises(DataError) as error:
        dpmac.data.find("mnist")
    assert f"looked in: {', '.join(str(p / 'mnist') for p in order)}" in str(error.value)
    for base in reversed(order):  # each one filled is preferred to those after it
        write(base / "mnist", SMALL)
        assert dpmac.data.find("mnist") == base / "mnist"
    with pytest.raises(DataError, match="missing"):  # an explicit path is the only place looked at
        dpmac.data.load("mnist", path=tmp_path / "elsewhere")
    write(tmp_path / "elsewhere", SMALL)
    assert dpmac.data.find("mnist", tmp_path / "elsewhere") == tmp_path / "elsewhere"


def test_the_cache_follows_xdg_unless_it_is_relative(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert fetching.cache_folder() == tmp_path / "x" / "dpmac"
    for value in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert fetching.cache_folder() == tmp_path / ".cache" / "dpmac"


def test_a_half_filled_folder_is_passed_over_for_a_whole_one_and_named_otherwise(small, monkeypatch, tmp_path):
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path / "env"))
    write(tmp_path / "env" / "mnist", {IMAGES: SMALL[IMAGES]})
    with pytest.raises(DataError) as error:
        dpmac.data.load("mnist")
    assert f"missing {LABELS}, {TEST_IMAGES}, {TEST_LABELS}" in str(error.value)
    assert f"{tmp_path / 'env' / 'mnist'} holds only a part" in str(error.value)
    assert small.files[1].sha256 in str(error.value)
    write(tmp_path / "debian" / "mnist", SMALL)
    assert dpmac.data.load("mnist").source == str(tmp_path / "debian" / "mnist")


# --- checking -------------------------------------------------------------------------------------------------------


PACKED = gzip.compress(SMALL[IMAGES])
DAMAGE = {
    "cut short": (False, SMALL[IMAGES][:-1], "is cut short: 87 of 88 bytes"),
    "empty": (False, b"", "is cut short: 0 of 88 bytes"),
    "altered": (False, flip(SMALL[IMAGES], 50), "is altered"),
    "longer": (False, SMALL[IMAGES] + b"\x00", "is longer than 88 bytes"),
    "packed, cut short": (True, PACKED[:-9], "does not unpack"),
    "packed, altered inside": (True, flip(PACKED, len(PACKED) // 2), ""),
    "packed, altered checksum": (True, flip(PACKED, len(PACKED) - 6), "does not unpack"),
    "packed, something else": (True, gzip.compress(flip(SMALL[IMAGES], 50)), "is altered"),
    "packed, a bomb": (True, gzip.compress(SMALL[IMAGES] + bytes(10**6)), "is longer than 88 bytes"),
    "another file": (False, SMALL[LABELS], "is cut short"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named_with_both_digests_and_the_ways_to_replace_it(small, monkeypatch, tmp_path, kind):
    packed, content, wrong = DAMAGE[kind]
    folder = write(tmp_path / "env" / "mnist", SMALL, packed)
    path = folder / (IMAGES + ".gz" * packed)
    path.write_bytes(content)
    write(tmp_path / "debian" / "mnist", SMALL)  # a good copy further on is no reason to keep silent
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path / "env"))
    for act in (dpmac.data.load, dpmac.data.find, dpmac.data.fetch):
        with pytest.raises(DataError) as error:
            act("mnist")
        text = str(error.value)
        assert f"mnist: {path} {wrong}" in text
        assert f"expected SHA-256, unpacked: {small.files[0].sha256}" in text
        assert len(set(re.findall(r"\b[0-9a-f]{64}\b", text))) == 2  # the other is the one found
        assert sha(content) in text or packed
        assert {"dpmac data fetch mnist", "apt install dataset-mnist    (Debian, Ubuntu)"} <= set(error.value.fix)
        assert (error.value.name, error.value.path) == ("mnist", path)
    with pytest.raises(DataError):
        dpmac.data.load("mnist", download=True)  # would hide the damage
    assert path.read_bytes() == content


def test_a_mixed_up_file_is_named_for_what_it_is(small, monkeypatch, tmp_path):
    other = contents(offset=1)
    files = tuple(DataFile(name, sha(content), len(content)) for name, content in other.items())
    monkeypatch.setitem(CATALOGUE, "fashion-mnist", replace(small, name="fashion-mnist", files=files))
    folder = write(tmp_path / "data", other)
    with pytest.raises(DataError, match=rf"{IMAGES}\.gz is fashion-mnist/{IMAGES}"):
        dpmac.data.load("mnist", path=folder)
    assert dpmac.data.load("fashion-mnist", path=folder).name == "fashion-mnist"


def test_a_file_that_vanishes_after_the_search_is_missing(small, tmp_path):
    with pytest.raises(DataError, match=f"missing {tmp_path / IMAGES}"):
        fetching.read(small, small.files[0], tmp_path)
    _content, wrong, _found = small.files[0].inspect(tmp_path)
    assert "cannot be read" in wrong


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x08", b"\x00\x00\x09\x01\x00\x00\x00\x00", idx(np.zeros(3))[:-1]])
def test_the_parser_refuses_what_is_not_idx(small, content):
    with pytest.raises(DataError, match="not an IDX file"):
        loading._idx(small, content)


def test_images_and_labels_must_match(small, monkeypatch, tmp_path):
    files = {**SMALL, LABELS: SMALL[TEST_LABELS]}
    listed = tuple(DataFile(name, sha(content), len(content)) for name, content in files.items())
    monkeypatch.setitem(CATALOGUE, "mnist", replace(small, files=listed))
    with pytest.raises(DataError, match=r"\(12, 2, 3\) images for \(5,\) labels"):
        dpmac.data.load("mnist", path=write(tmp_path / "data", files))
