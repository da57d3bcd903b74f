"""Commands in several processes: who speaks, with which code all end, and what each must see."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from dpmac import training
from dpmac.checks import ArgumentError
from dpmac.cli.ending import Failed, Told
from dpmac.cli.jobs import Job
from dpmac.cli.several import _ended_as_interrupted, check_same, leads_here, rows_of, said_once, several
from dpmac.extensions.world import SINGLE_PROCESS, WorldError
from talking import talk

BAD = ArgumentError("--out", "run", "it exists")


def once(*errors):
    """Processes that each end with an error, or None, where all look by themselves: what each raises."""

    def work(world):
        with said_once(world):
            if errors[world.rank] is not None:
                raise errors[world.rank]

    return [one.error for one in talk(len(errors), work)]


def test_an_error_of_all_is_the_first_ones_to_say_and_all_end_with_its_code():
    first, *others = once(*(ArgumentError("--out", "run", "it exists") for _ in range(3)))
    assert type(first) is ArgumentError
    assert [(type(one), one.code) for one in others] == [(Told, 2), (Told, 2)]
    bugs = once(TypeError("a bug"), TypeError("a bug"))
    assert type(bugs[0]) is TypeError
    assert (type(bugs[1]), bugs[1].code) == (Told, 1)


def test_an_error_of_the_first_alone_ends_all_with_its_code():
    for error, code in ((BAD, 2), (Failed("no room"), 1), (TypeError("a bug"), 1)):
        first, *others = once(error, None, None)
        assert first is error
        assert [(type(one), one.code) for one in others] == [(Told, code)] * 2


@pytest.mark.parametrize("rank", [1, 2])
def test_an_error_of_another_is_said_by_it_and_named_by_the_first(rank):
    errors = [None, None, None]
    errors[rank] = BAD
    ended = once(*errors)
    assert type(ended[0]) is Failed
    assert f"process {rank} could not begin" in str(ended[0])
    assert ended[rank] is BAD
    assert (type(ended[3 - rank]), ended[3 - rank].code) == (Told, 1)


def test_errors_that_differ_are_each_said():
    mine, other = ArgumentError("--out", "a", "it exists"), ArgumentError("--out", "b", "it exists")
    assert once(mine, other) == [mine, other]


def test_without_an_error_all_go_on_and_alone_an_error_is_only_raised():
    assert once(None, None) == [None, None]
    with said_once(SINGLE_PROCESS):
        pass
    with pytest.raises(ArgumentError), said_once(SINGLE_PROCESS):
        raise BAD


# --- the same file ----------------------------------------------------------------------------------------------------


def same(*files):
    return [one.error for one in talk(len(files), lambda world: check_same(world, str(files[world.rank])))]


@pytest.mark.parametrize("odd", [1, 2])
def test_whoever_sees_another_file_stops_all(odd, tmp_path):
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "t.csv").write_text("a\n1\n")
    files = [tmp_path / str(rank) / "t.csv" for rank in range(3)]
    assert same(*files) == [None] * 3
    files[odd].write_text("a\n1\n2\n")
    for error in same(*files):
        assert f"process {odd} sees another file" in str(error)
    files[odd].write_text("a\n1\n")
    files[odd] = files[odd].rename(files[odd].with_name("u.csv"))
    assert all(isinstance(error, ArgumentError) for error in same(*files))


def test_all_files_of_a_folder_are_looked_at(tmp_path):
    for rank in "01":
        for name in ("a.parquet", "sub/b.parquet", "sub/z.parquet"):
            path = tmp_path / rank / "rows" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"1234")
    folders = [tmp_path / rank / "rows" for rank in "01"]
    assert same(*folders) == [None, None]
    for name in ("a.parquet", "sub/z.parquet"):
        (folders[1] / name).write_bytes(b"12345")
        assert all("process 1 sees another file" in str(error) for error in same(*folders))
        (folders[1] / name).write_bytes(b"1234")
    (folders[0] / "sub" / "y.parquet").write_bytes(b"")
    assert all(isinstance(error, ArgumentError) for error in same(*folders))


def test_all_files_of_a_folder_of_pictures_are_looked_at(tmp_path):
    def same_pictures():
        def work(world):
            check_same(world, str(tmp_path / str(world.rank) / "rows"), pictures=True)

        return [one.error for one in talk(2, work)]

    for rank in "01":
        for name in ("cat/a.png", "dog/b.jpg"):
            path = tmp_path / rank / "rows" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"1234")
    assert same_pictures() == [None, None]
    (tmp_path / "1" / "rows" / "dog" / "b.jpg").write_bytes(b"12345")
    assert all("process 1 sees another file" in str(error) for error in same_pictures())


def test_pictures_are_divided_as_they_lie():
    table = SimpleNamespace(part=lambda rank, size: ("part", rank, size))
    world = SimpleNamespace(rank=1, size=3)
    for groups in (None, "who"):
        job = Job("/rows", {}, "", 1.0, pictures={"images": None}, groups=groups)
        assert rows_of(world, table, job) == ("part", 1, 3)


def test_one_process_needs_no_file_to_compare():
    check_same(SINGLE_PROCESS, "nowhere")


# --- ends -------------------------------------------------------------------------------------------------------------


def ended(rank, error, monkeypatch, size=3):
    """What the command of one of several processes ends with."""

    @contextmanager
    def together():
        yield SimpleNamespace(rank=rank, size=size, leads=rank == 0)

    monkeypatch.setattr(training, "together", together)
    with pytest.raises(BaseException) as end, several() as world:  # noqa: PT012
        assert (world.rank, world.size) == (rank, size)
        raise error
    return end.value


CASES = [
    (1, BAD, 2, f"dpmac: process 1: {BAD}\n"),
    (2, BAD, 2, f"dpmac: process 2: {BAD}\n"),
    (1, WorldError("another process has stopped"), 1, "dpmac: process 1: another process has stopped\n"),
    (2, WorldError("another process has stopped"), 1, ""),
    (1, KeyboardInterrupt(), 130, ""),
    (2, KeyboardInterrupt(), 130, ""),
]


@pytest.mark.parametrize(("rank", "error", "code", "said"), CASES)
def test_a_process_that_does_not_lead_says_what_the_first_cannot_know(rank, error, code, said, monkeypatch, capsys):
    end = ended(rank, error, monkeypatch)
    assert (type(end), end.code) == (Told, code)
    assert capsys.readouterr().err == said


def test_the_first_process_and_bugs_end_as_they_would_alone(monkeypatch, capsys):
    bug = TypeError("a bug")
    assert ended(0, BAD, monkeypatch) is BAD
    assert ended(1, bug, monkeypatch) is bug
    assert ended(0, BAD, monkeypatch, size=1) is BAD
    assert capsys.readouterr().err == ""


def test_the_second_of_two_ends_as_one_of_many(monkeypatch):
    end = ended(1, BAD, monkeypatch, size=2)
    assert (type(end), end.code) == (Told, 2)


def test_a_process_alone_is_ended_by_the_signal_as_ever():
    before = signal.getsignal(signal.SIGTERM)
    with several() as world:
        assert world.size == 1
        assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(("rank", "leads"), [(None, True), ("0", True), ("1", False), ("2", False)])
def test_who_speaks_before_anybody_has_talked(rank, leads, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert leads_here() is leads


@pytest.fixture
def handlers():
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield before
    for one, handler in before.items():
        signal.signal(one, handler)


def test_a_process_that_is_told_to_end_ends_as_interrupted_and_only_once(handlers):
    with pytest.raises(KeyboardInterrupt), _ended_as_interrupted():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)  # it is ending


def test_once_told_to_end_it_is_deaf_to_the_signal(handlers):
    signal.signal(signal.SIGINT, lambda *_: None)  # somebody who goes on all the same
    with _ended_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_process_that_is_ending_goes_on_to(handlers):
    with _ended_as_interrupted():
        try:
            raise ValueError
        except ValueError:
            signal.raise_signal(signal.SIGTERM)


def test_the_signal_is_as_before_afterwards(handlers):
    with _ended_as_interrupted():
        assert signal.getsignal(signal.SIGTERM) is not handlers[signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == handlers[signal.SIGTERM]
    with _ended_as_interrupted():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # somebody else's now
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_in_another_thread_signals_are_not_touched():
    def work(_):
        with _ended_as_interrupted():
            return signal.getsignal(signal.SIGTERM)

    assert [one.value for one in talk(1, work)] == [signal.getsignal(signal.SIGTERM)]
