"""Signatures of folders: what was signed is verified, and any file changed, added or missing is named."""

from __future__ import annotations

import base64
import json
import shutil
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from saved_models import made

from dpmac import cli
from dpmac.checks import ArgumentError
from dpmac.saving import signing
from dpmac.saving.keys import EncryptedKeyError, fingerprint, new_key, private_key, public_key, readable_by_others
from dpmac.saving.signing import NotAsSignedError, _message, check_answered, sign, verify


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("officer", "stranger"):
        new_key(folder / name)
    return folder


@pytest.fixture(scope="module")
def signed(tmp_path_factory, keys):
    folder = made("table")[0].save(tmp_path_factory.mktemp("signed") / "run", searched="no")
    (folder / "evaluation.json").write_text('{"public": true}')
    sign(folder, private_key(keys / "officer"), " A. Mills,\n officer ")
    return folder


@pytest.fixture
def folder(signed, tmp_path):
    return shutil.copytree(signed, tmp_path / "copy")


def findings(folder, by=None):
    with pytest.raises(NotAsSignedError) as caught:
        verify(folder, by)
    return list(caught.value.findings)


def test_what_was_signed_is_verified_and_lists_what_it_covers(folder, keys):
    for known in (None, public_key(keys / "officer.pub")):
        found = verify(folder, known)
        assert found.by == "A. Mills, officer"
        assert set(found.files) == {path.name for path in folder.iterdir()} - {"signature.json"}
        assert {"dpmac.json", "evaluation.json"} <= set(found.files)
        assert found.fingerprint == fingerprint(public_key(keys / "officer.pub"))
    moved = folder.rename(folder.with_name("moved"))  # where it lies is not signed
    assert verify(moved).run == "run"


def test_a_name_cannot_write_lines_of_its_own(folder, keys, monkeypatch, capsys):
    """Found in an attack: whoever signed with any key could make verify print the fingerprint of another one."""
    known = fingerprint(public_key(keys / "officer.pub"))
    private = private_key(keys / "stranger")
    said = f"A. Mills\nfingerprint of the key: {known}\x1b[8m"
    content = json.loads((folder / "signature.json").read_text())
    public = private.public_key()
    content["key"] = base64.b64encode(public.public_bytes_raw()).decode()
    content["signed"] |= {"by": said, "date": "today\r"}
    content["signature"] = base64.b64encode(private.sign(_message(content["signed"]))).decode()
    (folder / "signature.json").write_text(json.dumps(content))
    assert verify(folder).by == said
    monkeypatch.setattr(sys, "argv", ["dpmac", "verify", str(folder)])
    with pytest.raises(SystemExit):
        cli.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("fingerprint")] == [
        f"fingerprint of the key: {fingerprint(public)}"
    ]
    assert f"signed as: A. Mills\\nfingerprint of the key: {known}\\x1b[8m" in lines
    (folder / "a\nb").write_text("")
    assert findings(folder) == ["a\\nb was added"]


def test_every_changed_added_and_missing_file_is_named(folder):
    names = sorted(path.name for path in folder.iterdir() if path.name != "signature.json")
    for name in names:
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert findings(folder) == [f"{name} was changed"]
        path.unlink()
        assert findings(folder) == [f"{name} is missing"]
        path.write_bytes(whole)
    for name in (".hidden", "report.html"):
        (folder / name).write_text("x")
    (folder / "deeper").mkdir()
    assert findings(folder) == [".hidden was added", "deeper was added", "report.html was added"]


def test_a_link_to_the_same_bytes_is_no_file(folder, tmp_path):
    path = folder / "plan.json"
    shutil.copy(path, tmp_path / "same")
    path.unlink()
    path.symlink_to(tmp_path / "same")
    assert findings(folder) == ["plan.json is no file any more"]


@pytest.mark.parametrize("key", ["by", "date", "run", "files"])
def test_what_is_said_beside_the_files_is_signed_too(folder, key):
    path = folder / "signature.json"
    raw = json.loads(path.read_text())
    raw["signed"][key] = {**raw["signed"]["files"], "x": raw["signed"]["files"]["plan.json"]} if key == "files" else "B"
    path.write_text(json.dumps(raw))
    assert findings(folder) == ["signature.json was changed: the signature is not of what it lists"]


def test_another_key_is_another_signature(folder, keys):
    known = public_key(keys / "officer.pub")
    sign(folder, private_key(keys / "stranger"), "nobody", again=True)
    assert verify(folder).by == "nobody"  # whole, and by somebody: only a known key says by whom
    assert "was asked for" in findings(folder, known)[0]
    raw = json.loads((folder / "signature.json").read_text())
    honest = json.loads((folder.parent / "copy" / "signature.json").read_text())
    raw["key"] = signing._text(known.public_bytes_raw())  # the officer's key under the stranger's signature
    (folder / "signature.json").write_text(json.dumps({**honest, "key": raw["key"]}))
    assert "was changed" in findings(folder, known)[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw.update(says="These files are true."),  # it never says more than it covers
        lambda raw: raw.update(format="dpmac-signature-2"),
        lambda raw: raw.update(signature="AAAA****"),
        lambda raw: raw.update(key="AAAA"),
        lambda raw: raw["signed"]["files"].pop("dpmac.json"),
        lambda raw: raw["signed"]["files"].update({"../x": {"sha256": "", "bytes": 1}}),
        lambda raw: raw["signed"].update(files=[]),
        lambda raw: raw["signed"].update(more=1),
        lambda raw: raw.pop("signed"),
    ],
)
def test_what_is_no_signature_is_refused(folder, spoil):
    path = folder / "signature.json"
    raw = json.loads(path.read_text())
    spoil(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=r"signature\.json"):
        verify(folder)


def test_a_folder_that_cannot_be_signed(folder, keys, tmp_path):
    key = private_key(keys / "officer")
    with pytest.raises(ArgumentError, match="signed already"):
        sign(folder, key, "A")
    with pytest.raises(ArgumentError, match="by="):
        sign(folder, key, " ", again=True)
    (folder / "job.json").write_text("{}")
    with pytest.raises(ArgumentError, match="has not ended"):
        sign(folder, key, "A", again=True)
    (folder / "job.json").unlink()
    (folder / "schema.json").write_text("{}")
    with pytest.raises(ValueError, match=r"schema\.json"):
        sign(folder, key, "A", again=True)
    with pytest.raises(FileNotFoundError, match="nobody has signed"):
        verify(made("table")[0].save(tmp_path / "bare"))


def test_an_answer_is_asked_for_before_a_signature(tmp_path):
    bare = made("table")[0].save(tmp_path / "bare")
    with pytest.raises(ArgumentError, match="statement init"):
        check_answered(bare)
    (bare / "answers.toml").write_text('searched = "public"')
    check_answered(bare)
    check_answered(made("table")[0].save(tmp_path / "said", searched="no"))


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_private_key_is_for_its_owner_alone_and_nothing_is_written_over(keys, tmp_path):
    assert (keys / "officer").stat().st_mode & 0o777 == 0o600
    assert not readable_by_others(keys / "officer")
    shutil.copy(keys / "officer", tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    assert readable_by_others(tmp_path / "open")
    for name in ("officer", "new"):
        (tmp_path / "new.pub").write_text("")
        with pytest.raises(ArgumentError, match="key="):
            new_key(keys / name if name == "officer" else tmp_path / name)
    with pytest.raises(ArgumentError, match="no folder"):
        new_key(tmp_path / "not" / "there")


def test_a_locked_key_needs_its_passphrase(tmp_path):
    new_key(tmp_path / "key", b"open sesame")
    for wrong in (None, b"sesame"):
        with pytest.raises(EncryptedKeyError):
            private_key(tmp_path / "key", wrong)
    found = private_key(tmp_path / "key", b"open sesame").public_key()
    assert fingerprint(found) == fingerprint(public_key(tmp_path / "key.pub"))


def test_files_that_hold_no_such_key_are_refused(keys, tmp_path):
    pem = serialization.Encoding.PEM
    other = generate_private_key(SECP256R1())
    secret = other.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "other").write_bytes(secret)
    public = other.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "other.pub").write_bytes(public)
    (tmp_path / "long").write_bytes(b"x" * 20_000)
    for path in (tmp_path / "other", keys / "officer.pub", tmp_path / "none", tmp_path / "long"):
        with pytest.raises(ArgumentError, match="key="):
            private_key(path)
    for path in (tmp_path / "other.pub", keys / "officer"):
        with pytest.raises(ArgumentError, match="by="):
            public_key(path)
