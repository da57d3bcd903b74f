"""Files are on the disk before they have their name; descriptors are given back; systems without links or folders."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from dpmac import files
from dpmac.files import created, opened_in_place, part_of, parts_of, sync, whole_file, write_new

TEXT = "Łódź\r\nend\n"


@pytest.fixture
def opened(monkeypatch):
    """Every descriptor that is opened, and how."""
    seen, really = [], os.open

    def open_(path, flags, *rest):
        seen.append((really(path, flags, *rest), flags))
        return seen[-1][0]

    monkeypatch.setattr(os, "open", open_)
    return seen


def is_open(handle):
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_all_of_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, mode):
    seen, sync_, move = [], os.fsync, Path.replace

    def fsync(handle):
        sync_(handle)
        seen.append(os.fstat(handle).st_size)

    def replace(part, where):
        seen.append(Path(where).name)
        return move(part, where)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    with whole_file(tmp_path / "page", mode) as handle:
        handle.write(TEXT if mode == "w" else TEXT.encode())
    assert seen == [len(TEXT.encode()), "page"]
    assert (tmp_path / "page").read_bytes() == TEXT.encode()
    assert [one.name for one in tmp_path.iterdir()] == ["page"]


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path):
    def broken():
        with whole_file(tmp_path / "page") as handle:
            handle.write("half")
            raise KeyboardInterrupt

    (tmp_path / "page").write_text("before")
    with pytest.raises(KeyboardInterrupt):
        broken()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page", "before")]


def test_what_is_written_to_a_new_file_is_in_it(tmp_path):
    write_new(tmp_path / "a", b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    with created(tmp_path / "b", "x") as handle:
        handle.write(TEXT)
    assert (tmp_path / "b").read_bytes() == TEXT.encode()


def test_what_a_killed_process_left_of_a_file_is_found_and_nothing_beside_it(tmp_path):
    left = part_of(tmp_path / "a")
    for path in (left, tmp_path / "a", part_of(tmp_path / "a.b"), tmp_path / ".a.part"):
        path.touch()
    assert parts_of(tmp_path / "a") == [left]
    assert parts_of(tmp_path / "nowhere" / "a") == []


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_new_file_is_open_to_whom_the_umask_says_and_no_program(tmp_path):
    before = os.umask(0)
    try:
        write_new(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666


def test_what_is_overwritten_in_place_has_no_buffer_and_can_be_read(tmp_path):
    """What a buffer held would come out when nobody expects it."""
    (tmp_path / "a").write_bytes(b"abc")
    with opened_in_place(tmp_path / "a") as handle:
        assert handle.read(1) == b"a"
        handle.write(b"x")
        assert (tmp_path / "a").read_bytes() == b"axc"


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_file_that_is_refused_is_closed(tmp_path, opened):
    (tmp_path / "a").write_text("mine")
    os.link(tmp_path / "a", tmp_path / "hard")
    with pytest.raises(OSError, match="hard"):
        opened_in_place(tmp_path / "hard")
    assert [is_open(handle) for handle, _ in opened] == [False]


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be waited for")
@pytest.mark.parametrize("name", ["a", "."])
def test_a_file_and_a_folders_names_are_waited_for_and_closed_also_if_that_fails(tmp_path, opened, monkeypatch, name):
    (tmp_path / "a").write_text("mine")
    waited, really = [], os.fsync

    def fsync(handle):
        really(handle)
        waited.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    sync(tmp_path / name)
    assert waited == [(tmp_path / name).stat().st_ino]

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        sync(tmp_path / name)
    assert [is_open(handle) for handle, _ in opened] == [False, False]
    assert {flags for _, flags in opened} == {os.O_RDONLY}  # a file that may only be read can be waited for, too


def test_where_a_folder_cannot_be_opened_only_files_are_waited_for_and_opened_to_write(tmp_path, opened, monkeypatch):
    """Windows: no folder can be opened, and only what is opened to be written can be waited for."""
    (tmp_path / "a").write_text("mine")
    folder, file = tmp_path, tmp_path / "a"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "name", "nt")
        sync(folder)
        assert opened == []
        sync(file)
    assert [flags for _, flags in opened] == [os.O_RDWR]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this is that system")
def test_a_system_that_opens_no_file_without_following_links_refuses_them_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "own").write_text("abc")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    try:
        with monkeypatch.context() as elsewhere:
            elsewhere.delattr(os, "O_NOFOLLOW")
            importlib.reload(files)
        with pytest.raises(OSError, match="link"):
            files.opened_in_place(tmp_path / "link")
        with pytest.raises(FileExistsError):
            files.created(tmp_path / "link")
        with files.opened_in_place(tmp_path / "own") as handle:
            handle.write(b"x")
        files.write_new(tmp_path / "new", b"x")
    finally:
        importlib.reload(files)
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "own").read_text() == "xbc"
