"""The ledger's file at its edges: what the chain notices by itself, torn and failed writes, renewals, the disk."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions import ledger_file as chain
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.privacy import Entry, Ledger

STEP = Entry("step", 1.5, 0.5)
OLD = json.dumps({"label": "old", "noise_multiplier": 2.0, "sample_rate": 0.5, "seeded": False, "scales": {}})
OLD_HEADER = '{"format": "dpmac-ledger-1"}'


@pytest.fixture
def path(tmp_path):
    """A ledger of four releases, and no witness beside it: the chain is alone."""
    ledger = Ledger(tmp_path / "ledger", "hospital")
    for number in range(4):
        ledger.append(Entry(f"release {number}", 1.0 + number, 0.5))
    guard_file_of(ledger.path).unlink()
    return ledger.path


def lines_of(path):
    return path.read_text().splitlines()


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines))


def labels(path):
    return [entry.label for entry in Ledger.read(path).entries]


def full(*_):
    raise OSError(28, "No space left on device")


# --- what the chain notices by itself ---------------------------------------------------------------------------------


def test_a_header_of_an_older_version_does_not_switch_the_chain_off(path):
    write(path, OLD_HEADER, *lines_of(path)[1:3])
    with pytest.raises(ValueError, match="line 2: chained, in a file whose header says that there is no chain"):
        Ledger.load(path)


def test_a_count_below_zero_does_not_hide_that_lines_were_cut(path):
    header, *lines = lines_of(path)
    write(path, header.replace('"000000000004"', '"-00000000001"'), *lines[:2])
    with pytest.raises(ValueError, match="line 1: edited"):
        Ledger.load(path)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_lower_count_does_not_hide_that_lines_were_cut(path, count):
    """Its head is the digest of a line that is not the one that is counted last."""
    header, *lines = lines_of(path)
    write(path, header.replace('"000000000004"', f'"{count:012d}"'), *lines[:count])
    with pytest.raises(ValueError, match="line 1: edited" if count == 0 else f"line {count + 1}: not the line"):
        Ledger.load(path)


@pytest.mark.parametrize("place", [1, 2, 5])
def test_an_unreadable_line_is_named(path, place):
    lines = lines_of(path)
    lines[place - 1] = lines[place - 1][:-1]
    write(path, *lines)
    with pytest.raises(ValueError, match=rf"ledger, line {place}: damaged"):
        Ledger.load(path)


@pytest.mark.parametrize("said", ["1e999", '"many"', "null", "[4]"])
def test_a_count_that_is_none_is_an_error_of_the_first_line(path, said):
    header, *lines = lines_of(path)
    write(path, header.replace('"000000000004"', said), *lines)
    with pytest.raises(ValueError, match="line 1: damaged"):
        Ledger.load(path)


@pytest.mark.parametrize("text", ["", "{}\n", '{"format": "a picture"}\n', "{}"])
def test_what_is_no_ledger_is_called_that(tmp_path, text):
    (tmp_path / "notes").write_text(text)
    with pytest.raises(ValueError, match="notes is not a dpmac ledger"):
        Ledger.load(tmp_path / "notes")


# --- a last line without its end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", ["1", "[]", '"x"', "null", "{}", '{"label": 1e999}', '{"label": NaN}', '{"chain": 0}'])
def test_a_torn_last_line_that_happens_to_be_json_is_dropped(path, torn):
    with path.open("a") as handle:
        handle.write(torn)
    ledger = Ledger.load(path)
    assert len(ledger) == 4
    ledger.append(STEP)
    assert labels(path)[4:] == ["step"]


def test_a_torn_line_that_is_longer_than_what_is_written_next_leaves_nothing_behind(path):
    with path.open("a") as handle:
        handle.write('{"label": "' + "x" * 5000)
    ledger = Ledger.load(path)
    ledger.append(STEP)
    assert "xxx" not in path.read_text()
    ledger.append(STEP)
    assert labels(path)[4:] == ["step", "step"]


@pytest.mark.parametrize("rest", ['{"label": "torn', None], ids=["torn", "no newline"])
def test_a_write_that_fails_after_a_torn_line_is_made_again(path, rest, monkeypatch):
    if rest is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.write_text(path.read_text() + rest)
    ledger = Ledger.load(path)
    with monkeypatch.context() as broken:
        broken.setattr(chain.os, "fsync", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                ledger.append(STEP)
    assert len(Ledger.read(path)) == 4
    ledger.append(STEP)
    ledger.append(STEP)
    assert labels(path)[4:] == ["step", "step"]
    assert Ledger.read(path).entries == ledger.entries


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_of_version_0_1_without_its_last_newline_loses_no_payment(tmp_path, count):
    path = tmp_path / "ledger"
    path.write_text("\n".join([OLD_HEADER, *[OLD] * count]))
    ledger = Ledger.load(path)
    assert len(ledger) == count
    ledger.append(STEP)
    assert labels(path) == ["old"] * count + ["step"]


def test_what_the_system_takes_in_small_pieces_is_written_whole():
    class Slow:
        def __init__(self, most):
            self.most, self.got = most, b""

        def write(self, text):
            self.got += bytes(text[: self.most])
            return min(self.most, len(text))

    for most in (1, 2, 3, 7, 100):
        handle = Slow(most)
        chain._write_all(handle, b"0123456789")
        assert handle.got == b"0123456789"


# --- where a ledger may begin -----------------------------------------------------------------------------------------


def test_a_file_of_one_byte_is_somebodys(tmp_path):
    (tmp_path / "ledger").write_text("x")
    with pytest.raises(ArgumentError, match="already there"):
        Ledger(tmp_path / "ledger")
    assert (tmp_path / "ledger").read_text() == "x"


def test_the_longest_name_of_a_data_set_is_what_the_error_says_and_fits_into_a_sector(tmp_path):
    """A disk writes a sector of 512 bytes whole or not at all, and the header is overwritten in place."""
    with pytest.raises(ArgumentError) as refused:
        Ledger(tmp_path / "long", data_set="x" * 1000)
    found = re.search(r"at most (\d+) characters", str(refused.value))
    assert found is not None
    longest = int(found[1])
    with pytest.raises(ArgumentError):
        Ledger(tmp_path / "long", data_set="x" * (longest + 1))
    ledger = Ledger(tmp_path / "long", data_set="x" * longest)
    ledger.append(STEP)
    header = (tmp_path / "long").read_bytes().splitlines(keepends=True)[0]
    assert len(header) <= 512
    assert Ledger.load(tmp_path / "long").data_set == "x" * longest


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_ledger_is_open_to_whom_the_umask_says_and_no_program(tmp_path):
    for umask, mode in ((0o027, 0o640), (0, 0o666)):
        before = os.umask(umask)
        try:
            Ledger(tmp_path / f"{mode}").append(STEP)
        finally:
            os.umask(before)
        assert (tmp_path / f"{mode}").stat().st_mode & 0o777 == mode


def test_a_ledger_whose_file_is_gone_is_not_begun_anew_by_its_writer(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.append(STEP)
    for seen in (True, False):
        (tmp_path / "ledger").unlink(missing_ok=True)
        if not seen:
            guard_file_of(tmp_path / "ledger").unlink()
        with pytest.raises(FileNotFoundError):
            ledger.append(STEP)
        assert not (tmp_path / "ledger").exists()
    assert len(ledger) == 1


# --- renewing a file of an older version, or with other line ends -----------------------------------------------------


def test_a_renewed_file_is_then_appended_to_in_place(tmp_path):
    """Whoever waits for its lock would otherwise find another file there, every time."""
    path = tmp_path / "ledger"
    write(path, OLD_HEADER, OLD)
    ledger = Ledger.load(path)
    ledger.append(STEP)
    renewed = path.stat().st_ino
    with path.open("rb"):  # so that the number is not given to another file
        ledger.append(STEP)
        assert path.stat().st_ino == renewed
    assert labels(path) == ["old", "step", "step"]


@pytest.mark.parametrize("breaks", ["fsync", "replace"])
def test_a_renewal_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, breaks):
    path = tmp_path / "ledger"
    write(path, OLD_HEADER, OLD)
    before, ledger = path.read_bytes(), Ledger.load(path)
    with monkeypatch.context() as broken:
        broken.setattr(*((chain.os, "fsync", full) if breaks == "fsync" else (Path, "replace", full)))
        with pytest.raises(OSError, match="No space"):
            ledger.append(STEP)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["ledger"]
    ledger.append(STEP)
    assert labels(path) == ["old", "step"]


def test_other_line_ends_are_mended_by_the_next_release(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    ledger = Ledger.load(path)
    ledger.append(STEP)
    ledger.append(STEP)
    assert b"\r" not in path.read_bytes()
    assert labels(path) == [*(f"release {number}" for number in range(4)), "step", "step"]
    assert Ledger.load(path).data_set == "hospital"


# --- what is on the disk, and not only with the system ----------------------------------------------------------------


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """What happens in a folder, in order: a file or the folder is waited for (and what is in it), a file is moved."""
    seen, sync, move = [], os.fsync, Path.replace

    def fsync(handle):
        sync(handle)
        found = os.fstat(handle)
        if os.path.samestat(found, tmp_path.stat()):
            seen.append(("folder", sorted(one.name for one in tmp_path.iterdir())))
        else:
            seen.extend(
                ("file", one.name, one.read_text().count("\n"))
                for one in tmp_path.iterdir()
                if os.path.samestat(found, one.stat())
            )

    def replace(part, place):
        seen.append(("moved", part.name, Path(place).name))
        return move(part, place)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    return seen


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be waited for")
def test_the_name_of_a_new_ledger_is_on_the_disk_before_its_first_release_returns(tmp_path, disk):
    """A line in a file that no folder lists is lost by a power cut, as if it had never been written."""
    ledger = Ledger(tmp_path / "ledger")
    ledger._file.guarded = False
    ledger.append(STEP)
    assert disk == [("file", "ledger", 2), ("folder", ["ledger", "ledger.writer"])]
    disk.clear()
    ledger.append(STEP)
    assert disk == [("file", "ledger", 3)]


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be waited for")
def test_a_renewed_file_is_on_the_disk_before_it_takes_the_old_ones_place_and_so_is_its_new_name(tmp_path, disk):
    path = tmp_path / "ledger"
    write(path, OLD_HEADER, OLD, OLD)
    ledger = Ledger.load(path)
    ledger._file.guarded = False
    ledger.append(STEP)
    moved = next(place for place, what in enumerate(disk) if what[0] == "moved")
    part = disk[moved][1]
    assert ("file", part, 3) in disk[:moved]
    there = ("folder", ["ledger", "ledger.writer"])
    assert disk[moved:] == [("moved", part, "ledger"), there, ("file", "ledger", 4)]


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path):
    """Found in an attack: a label of 60 million characters was loaded, and took a gigabyte."""
    path = tmp_path / "ledger"
    Ledger(path).append(Entry("a" * 100, 1.0, 0.5))
    whole = path.read_text()
    for longer, said in ((2**17, "a text of 131,072 characters"), (2**21, "are the most")):
        path.write_text(whole.replace("a" * 100, "a" * longer))
        with pytest.raises(ValueError, match=said):
            Ledger.read(path)


@pytest.mark.parametrize("word", ["purpose", "model", "run"])
@pytest.mark.parametrize("said", ["x" * 70_000, "\udc80", 3])
def test_words_that_no_ledger_could_be_read_with_are_refused_before_they_are_written(word, said, tmp_path):
    ledger = Ledger(tmp_path / "book")
    with pytest.raises(ArgumentError, match=f"^{word}="), ledger.noting(**{word: said}):
        ledger.append(STEP)
    ledger.append(STEP)
    assert len(Ledger.load(tmp_path / "book")) == 1


@pytest.mark.parametrize(
    "entry",
    [
        Entry("l" * 70_000, 4.0, 1.0),
        Entry("mean", 4.0, 1.0, unit="person by " + "g" * 70_000),
        Entry("mean", 4.0, 1.0, scales={"p" * 70_000: 1.0}),
        Entry("mean", 4.0, 1.0, scales={f"a partition of some length {place}": 1.0 for place in range(30_000)}),
    ],
    ids=["label", "unit", "partition", "partitions"],
)
@pytest.mark.parametrize("path", ["book", None])
def test_a_release_that_could_not_be_read_again_is_refused_and_the_ledger_stays_whole(entry, path, tmp_path):
    """It would be written and paid for, and all that the ledger holds would be out of reach."""
    ledger = Ledger(path and tmp_path / path)
    with pytest.raises(ArgumentError, match=r"^release="):
        ledger.append(entry)
    ledger.append(STEP)
    ledger.save(tmp_path / "copy")
    assert len(Ledger.load(tmp_path / "copy")) == 1
