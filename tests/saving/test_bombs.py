"""A small folder that claims to be large is refused, and the refusal costs little memory.

Every claim is tried in a process that may take ROOM bytes more than it has: whatever takes more before the refusal ends
in another error than ours.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save
from saved_models import made

import dpmac
from dpmac import ArgumentError, DPMACClassifier
from dpmac.limits import JSON_BYTES, LEDGER_BYTES, STACK, TENSOR_BYTES, TEXT
from dpmac.nets import Network
from dpmac.nets.feature_maps import LowFrequencies, load_feature_map
from dpmac.saving.manifest import NAME, digest_of, sealed
from dpmac.tables import Category, Number, Schema

ROOM = 2**27
LARGE = 24_000


def refusal(action):
    """What ``action`` raises, in a process of its own that may take ROOM bytes more than it has; None if nothing."""
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "None"
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            action()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(here, said[:3000].encode())
            os._exit(0)
    os.close(here)
    with os.fdopen(there, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(pid, 0)
    return said


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    return {name: made(name)[0].save(folder / name.replace(" ", "-")) for name in ("strings", "table", "labels")}


@pytest.fixture
def copy_of(originals, tmp_path):
    return lambda name: shutil.copytree(originals[name], tmp_path / "model")


def resealed(folder, change=lambda manifest: None):
    manifest = json.loads((folder / NAME).read_text())
    manifest["files"] = {name: digest_of(folder / name) for name in manifest["files"]}
    change(manifest)
    (folder / NAME).write_bytes(sealed(manifest))


def with_header(path, change):
    """The safetensors file ``path`` with another header of ours, and the same tensors."""
    raw = path.read_bytes()
    header = json.loads(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]["dpmac"])
    change(header)
    path.write_bytes(save(load(raw), metadata={"dpmac": json.dumps(header)}))


def wide(header):
    header["input_shape"] = [LARGE]
    header["stack"] = [{"layer": "dense", "inputs": LARGE, "units": LARGE}, *header["stack"]]


def wider(header):
    header["stack"][0] |= {"units": LARGE * LARGE}


def deep(header):
    header["stack"] += [{"layer": "flatten"}] * STACK


def filters(header):
    header["stack"] = [{"layer": "conv2d", "channels": 2**10, "units": 2**10, "kernel_size": [2**6, 2**6]}]


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (wide, "claims a weight of shape (24000, 24000)"),
        (wider, "claims a weight of shape (576000000, 4)"),
        (filters, "claims a weight of shape (1024, 1024, 64, 64)"),
        (deep, "1,000 are the most"),
    ],
)
def test_layers_are_compared_with_the_tensors_that_are_there(copy_of, claim, message):
    folder = copy_of("strings")
    with_header(folder / "model.safetensors", claim)
    resealed(folder)
    said = refusal(lambda: dpmac.load(folder))
    assert said.startswith("ValueError")
    assert str(folder / "model.safetensors") in said
    assert message in said


def test_an_example_that_would_be_blown_up_on_its_way_is_refused(copy_of):
    """A window that slides over nothing but padding has few weights, and gives images of any size."""
    path = copy_of("strings") / "model.safetensors"
    tensors = {
        "1.weight": np.zeros((1, 1, 1, 1), np.float32),
        "1.bias": np.zeros(1, np.float32),
        "4.weight": np.zeros((1, 1), np.float32),
        "4.bias": np.zeros(1, np.float32),
    }
    stack = [
        {"layer": "unflatten", "shape": [1, 2, 2]},
        {"layer": "conv2d", "channels": 1, "units": 1, "kernel_size": [1, 1], "padding": [10**5, 10**5]},
        {"layer": "avgpool2d", "kernel_size": [2 * 10**5 + 2] * 2, "stride": [1, 1]},
        {"layer": "flatten"},
        {"layer": "dense", "inputs": 1, "units": 1},
    ]
    header = {"format": "dpmac-network-2", "input_shape": [4], "stack": stack}
    path.write_bytes(save(tensors, metadata={"dpmac": json.dumps(header)}))
    with pytest.raises(ValueError, match="more than 16,777,216 numbers on its way"):
        Network.load(path)


def fitted(**values):
    return lambda manifest: manifest["fitted"].update(values)


def labels(dtype, values):
    return fitted(classes_={"array": {"dtype": dtype, "shape": [len(values)], "values": values}})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("strings", labels("<U400000000", ["a", "b", "c"]), "too large"),
        ("strings", labels("O", ["a" * 10**7, "b" * 10**7, "c"]), "a text of 10,000,000 characters"),
        ("strings", labels("<U9", ["x"] * 10**5), "do not belong together"),
        ("strings", fitted(n_features_in_=10**12), "do not belong together"),
        ("strings", fitted(n_features_in_=3), "do not belong together"),
        ("table", fitted(n_features_in_=10**6), "do not belong together"),
        ("labels", fitted(_indicator={"dict": [["dtype", "<U400000000"]]}), "do not belong together"),
    ],
    ids=["width of labels", "length of labels", "classes", "inputs", "fewer inputs", "columns", "dtype of labels"],
)
def test_what_was_fitted_is_no_larger_than_the_model(copy_of, name, change, message):
    folder = copy_of(name)
    resealed(folder, change)
    said = refusal(lambda: dpmac.load(folder))
    assert re.match(r"(ValueError|ArgumentError): ", said)
    assert str(folder) in said
    assert message in said


@pytest.mark.parametrize(
    ("name", "most"),
    [("model.safetensors", TENSOR_BYTES), ("ledger.jsonl", LEDGER_BYTES), ("history.json", JSON_BYTES)],
)
def test_files_that_are_too_large_are_not_even_hashed(copy_of, name, most):
    folder = copy_of("strings")
    os.truncate(folder / name, most + 1)
    with pytest.raises(ValueError, match=rf"{name} has {most + 1:,} bytes, and {most:,} are the most"):
        dpmac.load(folder)


def test_a_manifest_without_end_is_refused(copy_of):
    folder = copy_of("strings")
    os.truncate(folder / NAME, 2**40)
    said = refusal(lambda: dpmac.load(folder))
    assert f"{folder / NAME} does not hold what it should (it is larger than" in said


def test_a_header_is_no_longer_than_its_file(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match=r"a header of 4,611,686,018,427,387,904 bytes"):
        Network.load(path)


def test_a_plan_has_steps_within_reason(copy_of):
    folder = copy_of("strings")
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(plan | {"steps": 10**18}))
    resealed(folder)
    with pytest.raises(ValueError, match=r"plan\.json .*1,000,000,000 are the most"):
        dpmac.load(folder)


def test_a_feature_map_of_cosines_is_no_larger_than_it_may_be(tmp_path):
    path = tmp_path / "front.safetensors"
    arguments = {"side": {"plain": 10**6}, "count": {"plain": 10**6}, "centre": {"plain": 0.0}}
    feature_map = {"kind": "low-frequencies", "arguments": arguments}
    header = {"format": "dpmac-front-1", "front": feature_map}
    path.write_bytes(save({"nothing": np.zeros(0)}, metadata={"dpmac": json.dumps(header)}))
    assert "ArgumentError: side=1000000" in refusal(lambda: load_feature_map(path))
    for side, count in ((512, 129), (10, 101)):
        with pytest.raises(ArgumentError, match="count="):
            LowFrequencies(side, count)


def chain_of(count, path):
    arguments = {"side": {"plain": 20}, "count": {"plain": 20}, "centre": {"plain": 0.0}}
    maps = [{"kind": "low-frequencies", "arguments": arguments}] * count
    header = {"format": "dpmac-front-1", "front": {"kind": "chain", "arguments": {"feature_maps": {"fronts": maps}}}}
    path.write_bytes(save({"nothing": np.zeros(0)}, metadata={"dpmac": json.dumps(header)}))
    return path


def test_a_chain_of_feature_maps_is_no_larger_than_it_may_be(tmp_path, monkeypatch):
    """5,696 bytes that asked for forty bases of 268 MB each took as much memory as there was."""
    monkeypatch.setattr("dpmac.nets.feature_maps.saving.MADE", 20_000)
    assert len(load_feature_map(chain_of(2, tmp_path / "two")).feature_maps) == 2
    with pytest.raises(ValueError, match="more than 20,000 numbers beside those in the file"):
        load_feature_map(chain_of(3, tmp_path / "three"))
    with pytest.raises(ValueError, match="a chain of 1,001 feature maps"):
        load_feature_map(chain_of(STACK + 1, tmp_path / "many"))


# --- what load would refuse is refused before a fit is paid for, or by save -------------------------------------------


def test_a_name_or_a_value_without_end_is_refused_in_a_schema():
    endless = "x" * (TEXT + 1)
    Category(["x" * TEXT])
    for make in (
        lambda: Category([endless]),
        lambda: Schema({endless: Number(0, 1)}),
        lambda: Schema({"a": Number(0, 1)}, name=endless),
    ):
        with pytest.raises(ArgumentError, match="65,537 characters, and 65,536 are the most") as error:
            make()
        assert len(str(error.value)) < 300


def test_a_label_without_end_is_refused_before_anything_is_spent():
    x, ledger = np.zeros((40, 2)), dpmac.Ledger()
    y = np.array(["x" * (TEXT + 1), "b"] * 20)
    with pytest.raises(ArgumentError, match="65,536 are the most"):
        DPMACClassifier((2,), ledger=ledger).fit(x, y)
    assert len(ledger) == 0


def test_save_refuses_what_load_would_refuse(tmp_path):
    model = made("strings")[0]
    before = model.privacy_
    try:
        model.privacy_ = dpmac.estimators.Privacy(before.ledger, before.delta, ("x" * (TEXT + 1),))
        with pytest.raises(ArgumentError, match="65,537 characters"):
            model.save(tmp_path / "model")
    finally:
        model.privacy_ = before
    assert not list(tmp_path.iterdir())


def test_many_values_take_no_square_of_their_number():
    """A list of 200,000 was compared with itself."""
    values = [str(k) for k in range(200_000)]
    Category(values)
    with pytest.raises(ArgumentError, match=r"\['7'\]"):
        Category([*values, "7"])
