"""The sets themselves: drawn by seed, upright, rightly labelled; and the real files, where they are."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from small_mnist import no_other_network, sha

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.data import CATALOGUE, DataError, fetching
from dpmac.data.catalogue import DataFile, Listing

REAL = [Path(os.environ.get("DPMAC_DATA") or "/nowhere"), Path(__file__).parents[3] / "shared" / "data"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    no_other_network(monkeypatch)


def usps_file(monkeypatch, folder):
    """A file of the right form whose pixels tell digit, number and position."""
    data = np.zeros((256, 1100, 10), dtype=np.uint8)
    data[0], data[1], data[2] = np.arange(1100)[:, None] // 256, np.arange(1100)[:, None] % 256, np.arange(10)
    data[3] = 255  # the fourth pixel of the first *column*
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"data": data}, do_compression=True)
    content = stream.getvalue()
    file = DataFile("usps_all.mat", sha(content), len(content))
    monkeypatch.setitem(CATALOGUE, "usps", replace(CATALOGUE["usps"], files=(file,)))
    folder.mkdir()
    (folder / file.name).write_bytes(content)
    return folder


def test_usps_is_drawn_by_seed(monkeypatch, tmp_path):
    folder = usps_file(monkeypatch, tmp_path / "usps")
    data, again, other = (dpmac.data.load("usps", path=tmp_path, seed=seed) for seed in (0, 0, 1))
    assert data.source == str(folder)
    assert (data.x_train.shape, data.x_test.shape, data.shape) == ((5000, 256), (5000, 256), (16, 16))
    assert data.y_train.bincount().tolist() == data.y_test.bincount().tolist() == [500] * 10
    images = torch.cat([data.x_train, data.x_test]).reshape(-1, 16, 16).mul(255).round().long()
    labels = torch.cat([data.y_train, data.y_test])
    assert (images[:, 3, 0] == 255).all()  # upright: the file goes down the columns
    assert torch.equal((images[:, 2, 0] + 1) % 10, labels)  # the file's digits are 1 to 9, then 0
    drawn = images[:, 2, 0] * 1100 + images[:, 0, 0] * 256 + images[:, 1, 0]
    assert len(drawn.unique()) == 10_000  # no image twice, none in both parts
    assert data.x_train.equal(again.x_train)
    assert data.x_test.equal(again.x_test)
    assert not data.x_train.equal(other.x_train)
    for part in (data.y_train, data.y_test):  # well mixed: every stretch has every digit
        assert all(len(stretch.unique()) == 10 for stretch in part.split(100))
    assert sha(drawn.numpy().astype("<i8").tobytes()) == PINNED_USPS  # the same draw on every platform
    with pytest.raises(ArgumentError, match="seed=-1"):
        dpmac.data.load("usps", path=tmp_path, seed=-1)


PINNED_USPS = "620bcaf695954729a261173cee6a80ec0eb882db809e2912bb4802d61587b2e7"
PINNED_DIGITS = "cc51d265160a720e463648b6a5a726fbf3f28a1cc217fe04b0cf645df575df39"


@pytest.mark.parametrize("data", [{"data": np.zeros((256, 9, 10), dtype=np.uint8)}, {"other": np.zeros(3)}, None])
def test_usps_of_another_form(monkeypatch, tmp_path, data):
    stream = io.BytesIO()
    if data is not None:
        scipy.io.savemat(stream, data)
    content = stream.getvalue() or b"no MATLAB file at all, but long enough to have a header" * 9
    file = DataFile("usps_all.mat", sha(content), len(content))
    monkeypatch.setitem(CATALOGUE, "usps", replace(CATALOGUE["usps"], files=(file,)))
    (tmp_path / file.name).write_bytes(content)
    with pytest.raises(DataError, match=r"not 256 x 1100 x 10|not a MATLAB file"):
        dpmac.data.load("usps", path=tmp_path)


def test_digits_need_nothing(tmp_path):
    data, again, other = (dpmac.data.load("digits", seed=seed, path=tmp_path) for seed in (0, 0, 1))
    assert (data.x_train.shape, data.x_test.shape, data.shape) == ((1437, 64), (360, 64), (8, 8))
    assert data.source.startswith("scikit-learn ")
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    counts = torch.cat([data.y_train, data.y_test]).bincount()
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (data.y_test.bincount() - counts * 360 / 1797).abs().max() < 1
    rows = torch.cat([data.x_train, data.x_test]).unique(dim=0)
    assert len(rows) == len(other.x_train.new_tensor(_all_digits()).unique(dim=0))  # every image, once
    assert data.x_train.equal(again.x_train)
    assert not data.x_test.equal(other.x_test)
    drawn = (data.x_test * 16).round().numpy().astype(np.uint8).tobytes()
    assert sha(drawn) == PINNED_DIGITS
    assert (dpmac.data.fetch("digits") / "digits.csv.gz").exists()


def _all_digits():
    from sklearn.datasets import load_digits

    return load_digits().data / 16


def test_the_catalogue_is_sound():
    assert list(CATALOGUE) == ["adult", "digits", "mnist", "fashion-mnist", "usps"]
    for name, entry in CATALOGUE.items():
        assert isinstance(entry, Listing)
        assert entry.name == name
        assert entry.licence
        assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in entry.mirrors)
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0 for file in entry.files)
    for name in ("MNIST", "", None, 3, ["mnist"]):
        with pytest.raises(ArgumentError, match=r"name=.*: give one of adult, digits, mnist, fashion-mnist, usps"):
            dpmac.data.load(name)


def test_importing_is_light():
    code = "import sys, dpmac.data; assert not {'torch', 'numpy', 'scipy', 'sklearn', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the real files, where they are ---------------------------------------------------------------------------------

COUNTS = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "fashion-mnist": ([6000] * 10, [1000] * 10),
    "usps": ([500] * 10, [500] * 10),
}


def real_folder(name):
    """Where this machine has the real files: $DPMAC_DATA, the data handed out with the repository, Debian's folder."""
    folders = [base / name for base in (*REAL, fetching.DEBIAN)]
    return next((f for f in folders if all(file.on_disk(f) for file in CATALOGUE[name].files)), None)


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_data_where_they_are(name):
    folder = real_folder(name)
    if folder is None:  # nothing to read here: then the error has to say how to get it
        with pytest.raises(DataError, match=f"dpmac data fetch {name}"):
            dpmac.data.load(name, path="/nowhere")
        return
    entry = CATALOGUE[name]
    data = dpmac.data.load(name, path=folder)  # checks the digests on the way
    width = entry.shape[0] * entry.shape[1]
    assert data.x_train.shape == (entry.train_rows, width)
    assert data.x_test.shape == (entry.test_rows, width)
    assert (data.y_train.bincount().tolist(), data.y_test.bincount().tolist()) == COUNTS[name]
    for part in (data.x_train, data.x_test):
        assert (part.min(), part.max()) == (0, 1)
    # upright and rightly labelled: the nearest class mean of the training rows is right most of the time
    means = torch.stack([data.x_train[data.y_train == c].mean(dim=0) for c in range(10)])
    right = (torch.cdist(data.x_test, means).argmin(dim=1) == data.y_test).float().mean()
    assert right > 0.65
