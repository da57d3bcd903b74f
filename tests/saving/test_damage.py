"""A folder that was cut short, edited, mixed up or forged gives an error that names the file; never another model."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from saved_models import all_same, answers, made

import dpmac
from dpmac import ArgumentError
from dpmac.saving import open_folder
from dpmac.saving.manifest import FILES, digest_of, sealed

NAMES = ("table", "closed form", "labels")


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    return {name: made(name)[0].save(folder / name.replace(" ", "-"), extra={"a": 1}, searched="no") for name in NAMES}


@pytest.fixture(params=NAMES)
def folder(request, originals, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(originals[request.param], tmp_path / "run")


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(folder, name, kinds=(ValueError,)):
    """The error that opening gives: of a plain kind, and it names the file."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        dpmac.load(folder)
    assert type(caught.value) in kinds, caught.value
    assert str(folder / name) in str(caught.value)
    return str(caught.value)


def test_all_files_of_the_format_are_tried(originals):
    there = {name for folder in originals.values() for name in files_of(folder)}
    assert there == {*FILES, "dpmac.json"}


def test_a_file_that_is_cut_short_or_grew(folder):
    for name in files_of(folder):
        path = folder / name
        whole = path.read_bytes()
        for length in {0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:length])
            refused(folder, name)
        path.write_bytes(whole + b"\n")
        refused(folder, name)
        path.write_bytes(whole)
    dpmac.load(folder)


@pytest.mark.parametrize("pieces", [40, pytest.param(300, marks=pytest.mark.long)])
def test_a_byte_that_flipped(pieces, folder):
    """Every byte of the manifest with the long tests: its digest of itself stands in it, those of the others beside."""
    for name in files_of(folder):
        path = folder / name
        whole = path.read_bytes()
        step = 1 if name == "dpmac.json" and pieces > 100 else max(1, len(whole) // pieces)
        for place in range(0, len(whole), step):
            spoilt = bytearray(whole)
            spoilt[place] ^= 1 << (place % 8)
            path.write_bytes(spoilt)
            refused(folder, name)
        path.write_bytes(whole)


def test_a_file_that_is_gone_or_is_no_file(folder):
    for name in files_of(folder):
        path = folder / name
        whole = path.read_bytes()
        path.unlink()
        assert "no such file" in refused(folder, name, (FileNotFoundError,))
        path.mkdir()
        assert "not a file" in refused(folder, name)
        path.rmdir()
        path.write_bytes(whole)


def test_a_link_is_not_followed(folder, tmp_path):
    for name in files_of(folder):
        path, outside = folder / name, tmp_path / "outside"
        path.rename(outside)  # the very bytes that the manifest wants
        path.symlink_to(outside)
        assert "is a link" in refused(folder, name)
        path.unlink()
        path.symlink_to(tmp_path / "nowhere")
        assert "is a link" in refused(folder, name)
        path.unlink()
        outside.rename(path)
    dpmac.load(folder)


def test_a_folder_may_itself_be_reached_by_a_link(originals, tmp_path):
    model, x = made("table")
    (tmp_path / "latest").symlink_to(originals["table"], target_is_directory=True)
    assert all_same(answers(dpmac.load(tmp_path / "latest"), x), answers(model, x))


def test_a_file_of_another_model(originals, tmp_path):
    for name in files_of(originals["table"]):
        folder = shutil.copytree(originals["table"], tmp_path / "run", dirs_exist_ok=True)
        if (originals["labels"] / name).exists() and name not in ("result.json", "declared.json"):  # the same
            shutil.copy(originals["labels"] / name, folder / name)
            with pytest.raises((ValueError, FileNotFoundError), match=r"run/\w+"):
                dpmac.load(folder)


def test_a_format_of_another_version(folder):
    path = folder / "dpmac.json"
    for format_ in ("dpmac-model-2", "dpmac-model-0", None, 1, ["dpmac-model-1"]):
        manifest = json.loads(path.read_text())
        path.write_bytes(sealed({**manifest, "format": format_, "dpmac": "9.0"}))
        assert "'9.0'" in refused(folder, "dpmac.json")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"format": "dpmac-model-1"}', b"[" * 9000]
)
def test_a_manifest_that_is_none(content, originals, tmp_path):
    folder = shutil.copytree(originals["table"], tmp_path / "run")
    (folder / "dpmac.json").write_bytes(content)
    refused(folder, "dpmac.json")


def test_a_path_that_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere: there is no such folder"):
        dpmac.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"dpmac\.json: there is no such file"):
        dpmac.load(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"file is no folder"):
        dpmac.load(str(tmp_path / "file"))
    made("strings")[0].run_.save(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"a run of Run\.save"):
        dpmac.load(tmp_path / "run")


def test_errors_name_the_file_from_within_the_folder_too(originals, tmp_path, monkeypatch):
    folder = shutil.copytree(originals["table"], tmp_path / "run")
    monkeypatch.chdir(folder)
    (folder / "history.json").write_text("{")
    resealed(folder)
    with pytest.raises(ValueError, match=r"^history\.json does not hold"):
        dpmac.load(".")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser reads everything")
def test_a_file_that_may_not_be_read(folder):
    (folder / "model.safetensors").chmod(0)
    refused(folder, "model.safetensors")


# --- forged: edited, with digests and seal that fit -------------------------------------------------------------------

JUNK = (
    *(None, True, -1, 0, 2**70, 1.5, "", "x", [], {}, [[]], {"x": 1}, {"float": "x"}, {"tuple": 3}, {"dict": [1]}),
    *({"object": ["Ledger", {}]}, {"object": ["JointClip", {"kappa": -1}]}, {"array": {"dtype": "O", "shape": [9]}}),
    *({"array": {"dtype": "<f8", "shape": [10**9], "values": [1.0]}}, {"activation": ["mine", True]}, {"own": 3}),
    *({"path": "/etc/passwd"}, {"path": 3}, {"ledger": None}, {"optimizer": "Adam"}, {"schema": {"columns": {}}}),
)


def places(tree, path=()):
    """Every place in a tree of JSON."""
    yield path
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def replaced(tree, path, value):
    if not path:
        return value
    changed = copy.deepcopy(tree)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


def resealed(folder, **manifest):
    """Digests and seal that fit what is in the folder now."""
    found = {**json.loads((folder / "dpmac.json").read_text()), **manifest}
    found["files"] = {name: digest_of(folder / name) for name in found["files"]}
    (folder / "dpmac.json").write_bytes(sealed(found))


def loads_or_names_a_file(folder):
    try:
        dpmac.load(folder)
    except (ValueError, FileNotFoundError) as found:
        error = found
    else:
        return
    assert type(error) in (ValueError, FileNotFoundError, ArgumentError)
    assert str(folder) in str(error)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_forged_manifest_gives_a_model_or_a_named_error(name, data, originals, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged") / "run"
    shutil.copytree(originals[name], folder)
    manifest = json.loads((folder / "dpmac.json").read_text())
    path = data.draw(
        st.sampled_from([p for p in places(manifest) if p and p[0] in ("arguments", "fitted", "estimator")])
    )
    forged = replaced(manifest, path, data.draw(st.sampled_from(JUNK)))
    (folder / "dpmac.json").write_bytes(sealed(forged))
    loads_or_names_a_file(folder)


def test_a_manifest_that_claims_a_feature_map_of_the_users_own_is_refused(originals, tmp_path):
    folder = shutil.copytree(originals["table"], tmp_path / "run")
    manifest = json.loads((folder / "dpmac.json").read_text())
    (folder / "dpmac.json").write_bytes(sealed(replaced(manifest, ("arguments", "feature_map"), True)))
    assert "the model has none" in refused(folder, "dpmac.json")


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_forged_file_gives_a_model_or_a_named_error(name, data, originals, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged") / "run"
    shutil.copytree(originals[name], folder)
    path = folder / data.draw(st.sampled_from([n for n in files_of(folder) if n != "dpmac.json"]))
    whole = path.read_bytes()
    if path.suffix == ".json":
        tree = json.loads(whole)
        where = data.draw(st.sampled_from(list(places(tree))))
        path.write_text(json.dumps(replaced(tree, where, data.draw(st.sampled_from(JUNK)))))
    else:
        place = data.draw(st.integers(0, min(len(whole), 700) - 1))  # where headers are
        path.write_bytes(whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :])
    resealed(folder)
    loads_or_names_a_file(folder)


def test_a_manifest_cannot_point_out_of_its_folder(originals, tmp_path):
    folder = shutil.copytree(originals["table"], tmp_path / "run")
    (tmp_path / "secret").write_bytes(b"x")
    manifest = json.loads((folder / "dpmac.json").read_text())
    for name in ("../secret", str(tmp_path / "secret"), "checkpoint/../../secret", "evaluation.json"):
        files = {**manifest["files"], name: {"sha256": hashlib.sha256(b"x").hexdigest(), "bytes": 1}}
        (folder / "dpmac.json").write_bytes(sealed({**manifest, "files": files}))
        assert "lists files" in refused(folder, "dpmac.json")
    fewer = {name: digest for name, digest in manifest["files"].items() if name != "model.safetensors"}
    (folder / "dpmac.json").write_bytes(sealed({**manifest, "files": fewer}))
    refused(folder, "dpmac.json")


def test_an_evaluation_is_read_with_the_same_care(originals, tmp_path):
    folder = shutil.copytree(originals["table"], tmp_path / "run")
    path = folder / "evaluation.json"
    for content in (b"{", b"[]", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"evaluation\.json"):
            open_folder(folder).evaluation()
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="is a link"):
        open_folder(folder).evaluation()
