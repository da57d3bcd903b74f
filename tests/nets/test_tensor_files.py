"""Safetensors files whose header says something else: a ValueError that names the file, whatever is wrong."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pytest
import torch
from safetensors import safe_open

from dpmac import DPMACPCA, DenseNetwork, DPMACAutoencoder, Network
from dpmac.methods.pca import ReleasedPCA
from dpmac.nets.feature_maps import ToRange, load_feature_map, save_feature_map
from dpmac.nets.files import read_tensors, write_tensors
from dpmac.randomness import SeededNoise
from dpmac.saving.closed_form import load_closed_form, save_closed_form


def network(path):
    DenseNetwork([2, 3, 1], source=SeededNoise(0)).save(path)
    return Network.load


def feature_map(path):
    save_feature_map(ToRange(torch.zeros(2), torch.ones(2)), path)
    return load_feature_map


def components(path):
    DPMACPCA(1, epsilon=8.0, delta=1e-3).fit(np.eye(30, 3)).pca_.save(path)
    return ReleasedPCA.load


def closed_form(path):
    model = DPMACAutoencoder(1, epsilon=8.0, delta=1e-3, method="closed-form").fit(np.eye(30, 3))
    save_closed_form(model.autoencoder_, path)
    return load_closed_form


@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")
@pytest.mark.parametrize("kind", [network, feature_map, components, closed_form])
def test_a_header_with_any_value_of_another_kind(kind, tmp_path):
    path = tmp_path / "x.safetensors"
    load = kind(path)
    load(path)
    header, tensors = read_tensors(path, _format(path), "it")
    tried = 0
    for where in _places(header):
        for odd in (None, [], {}, "x", [[1]], {"kind": []}):
            write_tensors(path, _with(header, where, odd), tensors)
            try:
                load(path)
            except ValueError as error:
                tried += str(path) in str(error) or "=" in str(error)  # an ArgumentError names the argument
    assert tried > 10
    for gone in tensors:
        write_tensors(path, header, {other: tensor for other, tensor in tensors.items() if other != gone})
        with pytest.raises(ValueError, match="does not hold a whole"):
            load(path)


def _format(path):
    with safe_open(str(path), framework="pt") as handle:
        return json.loads(handle.metadata()["dpmac"])["format"]


def _places(tree, above=()):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        if (*above, key) != ("format",):
            yield (*above, key)
            yield from _places(value, (*above, key))


def _with(tree, where, value):
    if not where:
        return value
    key, *rest = where
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[key] = _with(tree[key], rest, value)
    return copy


def test_what_was_read_does_not_change_with_the_file(tmp_path):
    """Tensors that are views of a file change with it, and a file that is cut then kills the process."""
    path = tmp_path / "x"
    write_tensors(path, {"format": "f"}, {"a": torch.ones(5000)})
    _, tensors = read_tensors(path, "f", "it")
    with path.open("r+b") as handle:
        handle.seek(200)
        handle.write(bytes(3000))
        handle.truncate(1000)
    assert float(tensors["a"].sum()) == 5000


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_file_is_written_under_its_own_name_with_the_users_permissions(tmp_path):
    """A writer that goes by another name first leaves that file behind when it is killed."""
    before = os.umask(0o027)
    try:
        write_tensors(tmp_path / "x", {"format": "f"}, {"a": torch.ones(2)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert torch.equal(read_tensors(tmp_path / "x", "f", "it")[1]["a"], torch.ones(2))
