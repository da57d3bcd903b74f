"""One writer at a time: threads wait, another process is refused before it spends, and told who writes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from dpmac import ArgumentError
from dpmac.extensions import writers
from dpmac.extensions.writers import sole_writer, writer_file_of
from dpmac.privacy import Entry, Ledger

ONE = Entry("mean", 4.0, 1.0)
FORK = multiprocessing.get_context("fork")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="file locks")


@pytest.fixture
def book(tmp_path):
    Ledger(tmp_path / "book").append(ONE)
    return tmp_path / "book"


@pytest.fixture
def handles(monkeypatch):
    """Which writers' files are open: each keeps its lock for as long."""
    there, really_open, really_close = set(), os.open, os.close

    def opened(path, *more):
        handle = really_open(path, *more)
        if str(path).endswith(".writer"):
            there.add(handle)
        return handle

    def closed(handle):
        there.discard(handle)
        really_close(handle)

    monkeypatch.setattr(writers.os, "open", opened)
    monkeypatch.setattr(writers.os, "close", closed)
    return lambda: there


def holding(path, channel):
    with Ledger.load(path).exclusive():
        channel.send("held")
        channel.recv()
    channel.send("let go")


@pytest.fixture
def held(book):
    """The ledger, held by another process."""
    mine, theirs = FORK.Pipe()
    child = FORK.Process(target=holding, args=(book, theirs))
    child.start()
    assert mine.recv() == "held"
    yield book, child, mine
    child.kill()
    child.join()


def test_another_process_is_refused_and_told_who_writes_and_what_to_do(held):
    path, child, channel = held
    before = path.read_bytes()
    words = (
        rf"process {child.pid} on {socket.gethostname()} has been writing to it since \d{{4}}-\d\d-\d\d \d\d:\d\d UTC"
    )
    ledger = Ledger.load(path)
    for write in (
        lambda: ledger.append(ONE),
        lambda: ledger.exclusive().__enter__(),
        lambda: Ledger.load(path).append(ONE),
    ):
        with pytest.raises(ArgumentError, match=rf"^ledger='.*book': {words}, and .* one writer: wait until .* start"):
            write()
    assert path.read_bytes() == before
    assert len(ledger) == 1
    channel.send("go on")
    assert channel.recv() == "let go"
    ledger.append(ONE)
    assert len(Ledger.load(path)) == 2
    assert not writer_file_of(path).exists()


def test_a_writer_that_was_killed_is_in_nobodys_way(held):
    path, child, _ = held
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert writer_file_of(path).exists()
    Ledger.load(path).append(ONE)
    assert not writer_file_of(path).exists()


def test_reading_is_for_all(held):
    path, _, _ = held
    assert len(Ledger.read(path)) == len(Ledger.load(path)) == 1


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b'{"process": "x"}', b"\xff" * 2000])
def test_a_file_that_says_nothing_is_still_a_lock(book, said, handles):
    import fcntl

    with open(writer_file_of(book), "wb") as other:
        other.write(said)
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ArgumentError, match="another process is writing to it"):
            Ledger.load(book).append(ONE)
        assert handles() == set()


def test_what_it_says_is_shown_without_control_characters(book):
    import fcntl

    with open(writer_file_of(book), "w") as other:
        json.dump({"process": 3, "host": "a\x1b[2Jb", "since": "\n"}, other)
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ArgumentError) as error:
            Ledger.load(book).append(ONE)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("said", ["mine", "", '{"process": 3}'])
def test_a_link_under_its_name_is_not_written_through(book, tmp_path, said, handles):
    mine = tmp_path / "letter"
    mine.write_text(said)
    for link in (Path.symlink_to, Path.hardlink_to):
        link(writer_file_of(book), mine)
        with sole_writer(book):
            assert mine.read_text() == said
            Ledger.load(book).append(ONE)  # without the lock: the ledger's size still tells
        assert mine.read_text() == said
        writer_file_of(book).unlink()
    assert handles() == set()


@pytest.mark.parametrize("said", [b"age,income\n39,50\n", b'{"processes": 3}', b"\x00"])
def test_somebodys_file_under_its_name_is_neither_written_to_nor_removed(book, said, handles):
    writer_file_of(book).write_bytes(said)
    with sole_writer(book):
        Ledger.load(book).append(ONE)
    assert writer_file_of(book).read_bytes() == said
    assert handles() == set()


def test_a_file_that_cannot_be_read_is_somebodys(book, handles, monkeypatch):
    def unreadable(*_):
        raise OSError(5, "input/output error")

    monkeypatch.setattr(writers.os, "pread", unreadable)
    writer_file_of(book).touch()
    with sole_writer(book):
        assert writer_file_of(book).read_bytes() == b""
    assert writer_file_of(book).exists()
    assert handles() == set()


def test_a_file_that_its_writer_removes_meanwhile_is_made_anew(book, handles, monkeypatch):
    """Between opening and locking: a lock on a file that nobody finds keeps nobody out."""
    import fcntl

    lock, turns = fcntl.flock, []

    def late(handle, how):
        turns.append(how)
        if len(turns) == 1:
            writer_file_of(book).unlink()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with sole_writer(book):
        assert len(turns) == 2
        assert len(handles()) == 1
        assert os.path.samestat(os.fstat(*handles()), os.stat(writer_file_of(book)))
    assert handles() == set()


def test_a_link_to_the_locked_file_is_not_the_file(book):
    place = writer_file_of(book)
    handle = os.open(book, os.O_RDONLY)
    try:
        assert writers._is_at(handle, book)
        place.symlink_to(book)
        assert not writers._is_at(handle, place)
    finally:
        os.close(handle)


def test_a_lock_is_given_back_though_its_file_stays_and_another_has_the_handle(book, monkeypatch):
    import fcntl

    def kept(*_, **__):
        raise PermissionError("not yours to remove")

    with sole_writer(book):
        (right,) = (one for place, one in writers._RIGHTS.items() if place == writer_file_of(book))
        also = os.dup(right.handle)
        monkeypatch.setattr(Path, "unlink", kept)
    with open(writer_file_of(book), "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(also)


def forking(path, channel):
    with sole_writer(path):
        child = os.fork()
        if not child:
            signal.pause()
        channel.send(child)
        signal.pause()


def test_a_child_that_outlives_a_killed_writer_keeps_nobody_out(book):
    mine, theirs = FORK.Pipe()
    writer = FORK.Process(target=forking, args=(book, theirs))
    writer.start()
    child = mine.recv()
    try:
        writer.kill()
        writer.join()
        with sole_writer(book):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("mask", [0o022, 0])
def test_whoever_may_write_beside_the_ledger_may_lock_it(book, mask):
    before = os.umask(mask)
    try:
        with sole_writer(book):
            assert writer_file_of(book).stat().st_mode & 0o777 == 0o666 & ~mask
    finally:
        os.umask(before)


def test_what_a_killed_writer_left_is_taken_over(book):
    long = b'{"process": ' + b"3" * 900
    for left in (b"", b'{"process": 3, "host": "a", "since": "b"}\n', b'{"process": 3, "ho', long):
        writer_file_of(book).write_bytes(left)
        with sole_writer(book):
            assert json.loads(writer_file_of(book).read_bytes())["process"] == os.getpid()
        assert not writer_file_of(book).exists()


def test_it_is_taken_again_inside_and_given_back_once(book):
    with sole_writer(book):
        with sole_writer(book):
            Ledger.load(book).append(ONE)
        assert writer_file_of(book).exists()
    assert not writer_file_of(book).exists()


def test_threads_wait_for_each_other_by_path_or_object(book):
    order, inside = [], threading.Event()

    def later():
        inside.wait()
        with sole_writer(book):
            order.append("second")

    other = threading.Thread(target=later)
    other.start()
    with Ledger.load(book).exclusive():
        inside.set()
        other.join(0.1)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_a_forked_process_has_no_part_in_its_parents_right(book):
    """It would write beside the parent, whose own next release would then be refused."""

    def child(channel):
        try:
            Ledger.load(book).append(ONE)
        except ArgumentError as error:
            channel.send(str(error))
        else:
            channel.send("written")

    mine, theirs = FORK.Pipe()
    with sole_writer(book):
        process = FORK.Process(target=child, args=(theirs,))
        process.start()
        assert f"process {os.getpid()} on" in mine.recv()
        process.join()
    with sole_writer(book):  # and does not keep it
        pass


def test_a_stale_ledger_is_refused_at_the_beginning_and_not_at_its_first_release(book):
    stale = Ledger.load(book)
    Ledger.load(book).append(ONE)
    with pytest.raises(RuntimeError, match="changed by someone else"), stale.exclusive():
        raise AssertionError("it began")


def test_a_disk_without_locks_has_none(book, handles, monkeypatch):
    import fcntl

    def none(handle, how):
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with sole_writer(book):
        assert handles() == set()
    monkeypatch.setattr(writers.os, "open", lambda *_: none(0, 0))
    with sole_writer(book):
        pass
