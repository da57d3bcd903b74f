"""What is written is a new file under a name that nobody can guess; no link leads it elsewhere."""

from __future__ import annotations

import ast
import os
import re
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac import files
from dpmac.files import created, opened_in_place, part_of, parts_of, whole_file, write_new
from walking import MODULES, calls, name_of, tree_of

WRITERS = {"write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile", "to_csv", "save_file", "tofile"}
LOOKED_AT = {
    ("extensions/ledger_file.py", "open"),  # the ledger: made and appended to where its user says that it is
    ("cli/places.py", "open"),  # may the ledger be appended to? Nothing is written
    ("training/exclusive.py", "open"),  # a folder, to lock it
    ("extensions/writers.py", "open"),  # a lock beside the ledger: a plain file with one name, or none is taken
}
NAMES = st.text(st.sampled_from("ab.[]*? é0"), min_size=1, max_size=8).filter(lambda name: name.strip("."))


@pytest.fixture
def outside(tmp_path):
    """A file of somebody's, and a folder from elsewhere beside it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "precious").write_text("mine")
    return tmp_path / "precious"


def writes(tree):
    """The functions by which a module opens a file for writing, but for those of dpmac.files."""
    for node, function, owner in calls(tree):
        modes = [*node.args, *(word.value for word in node.keywords)]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        writing = owner == "os" or any(re.fullmatch(r"[rwaxbt+]*[wax+][bt+]*", text) for text in texts)
        if (function == "open" and writing) or (function in WRITERS and owner):
            yield function


def test_no_module_but_one_opens_files_for_writing():
    found = {(name_of(path), function) for path in MODULES for function in writes(tree_of(path))}
    assert {(name, function) for name, function in found if name != "files.py"} == LOOKED_AT


@pytest.mark.parametrize("line", ["path.write_text('x')", "open(path, 'w')", "path.open(mode='r+b')", "os.open(p, f)"])
def test_the_walk_would_catch_a_write(line):
    assert list(writes(ast.parse(line)))


def test_a_link_under_the_final_name_is_replaced_and_not_followed(outside):
    link = outside.parent / "folder" / "report.html"
    link.symlink_to(outside)
    with whole_file(link) as handle:
        handle.write("a page")
    assert outside.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_text() == "a page"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_under_the_temporary_name_is_refused(there, outside, monkeypatch):
    """Even for whoever could guess it."""
    monkeypatch.setattr(files, "uuid4", lambda: UUID(int=0))
    where, target = outside.parent / "folder" / "page", outside if there else outside.with_name("new")
    part_of(where).symlink_to(target)

    def written():
        with whole_file(where, "wb") as handle:
            handle.write(b"x")

    with pytest.raises(FileExistsError):
        written()
    assert outside.read_text() == "mine"
    assert not outside.with_name("new").exists()


def test_a_new_file_is_new(outside):
    link = outside.parent / "folder" / "a"
    link.symlink_to(outside.with_name("new"))
    for path in (outside, link):
        with pytest.raises(FileExistsError):
            write_new(path, b"x")
        with pytest.raises(FileExistsError):
            created(path, "x")
    assert outside.read_text() == "mine"
    assert not outside.with_name("new").exists()


def test_a_temporary_name_cannot_be_guessed(tmp_path):
    names = {part_of(tmp_path / "a").name for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"\.a\.[0-9a-f]{32}\.part", name) for name in names)


def test_what_is_overwritten_in_place_is_a_plain_file_with_one_name(outside):
    folder = outside.parent / "folder"
    (folder / "link").symlink_to(outside)
    os.link(outside, folder / "hard")
    os.mkfifo(folder / "pipe")
    for name in ("link", "hard", "pipe"):
        with pytest.raises(OSError, match=name):
            opened_in_place(folder / name)
    (folder / "own").write_bytes(b"abc")
    with opened_in_place(folder / "own") as handle:
        handle.write(b"x")
    assert (folder / "own").read_bytes() == b"xbc"


@example("a", "a.b")
@example("[ab]", "a")
@given(NAMES, NAMES)
def test_leftovers_are_those_of_one_name_alone(tmp_path_factory, mine, other):
    folder = tmp_path_factory.mktemp("left")
    for name in (mine, other):
        part_of(folder / name).touch()
    left = {path.name for path in parts_of(folder / mine)}
    assert len(left) == (2 if mine == other else 1)
    assert all(name.rsplit(".", 2)[0] == f".{mine}" for name in left)
    assert parts_of(folder / "nowhere" / "a") == []
