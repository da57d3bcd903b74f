"""One training from a job to a folder, with fits that only pretend: what is said to be spent, left and removed."""

from __future__ import annotations

import math
import signal
import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpmac.checks import ArgumentError
from dpmac.cli import scores, training
from dpmac.cli.ending import Failed
from dpmac.cli.jobs import CHECKPOINT, JOB, OWN_LEDGER, Job
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.files import part_of
from dpmac.privacy import Entry, Ledger
from dpmac.privacy.statement import not_less, round_up
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.defaults import safe_delta
from talking import Meeting, Talking

SCHEMA = {
    "columns": {"a": {"kind": "number", "low": 0, "high": 1}, "ill": {"kind": "category", "values": ["no", "yes"]}},
    "target": "ill",
}
NUMBER = {**SCHEMA, "target": "a"}
TABLE = {"a": [0.0, 0.25, 0.5, 0.75], "ill": ["no", "yes", "no", "yes"]}


@pytest.fixture
def job(tmp_path):
    own = {"rows": 100, "name": "run", "purpose": "why", "data_set": "rows of 2026"}
    return Job(str(tmp_path / "t.csv"), SCHEMA, str(tmp_path / "book"), 2.0, **own)


@pytest.fixture
def folder(tmp_path, job):
    job.begin(tmp_path / "run")
    return tmp_path / "run"


def paying(monkeypatch, count, error=None):
    """A fit that releases so often, and ends with an error or well."""
    seen = []

    def fit(estimator, table, public, job):
        seen.append(SimpleNamespace(estimator=estimator, table=table, public=public, job=job))
        for _ in range(count):
            estimator.ledger.append(Entry("training step", 4.0, 0.5))
        if error is not None:
            raise error

    monkeypatch.setattr(training, "_fit", fit)
    monkeypatch.setattr(training, "_saved", lambda _, where, __: where)
    return seen


def trained(job, folder, public=None):
    return training.train(job, folder, TABLE, public, quiet=True, world=SINGLE_PROCESS)


# --- ends -------------------------------------------------------------------------------------------------------------

ERRORS = {
    "interrupted": KeyboardInterrupt(),
    "argument": ArgumentError("X", 1, "give another"),
    "failed": Failed("no"),
    "disk": OSError(28, "No space left on device"),
    "total": ArgumentError("total_epsilon", 1.0, "lower epsilon"),
    "bug": TypeError("a bug"),
}


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("name", ERRORS)
def test_an_end_before_anything_is_spent_leaves_nothing_and_says_so_where_its_code_does_not(
    name, before, job, folder, monkeypatch, capsys
):
    for _ in range(before):
        Ledger.at(job.ledger, job.data_set).append(Entry("mean", 8.0, 1.0))
    paying(monkeypatch, 0, ERRORS[name])
    with pytest.raises(type(ERRORS[name])) as end:
        trained(replace(job, before=before), folder)
    assert end.value is ERRORS[name]
    assert not folder.exists()
    quiet = name in ("argument", "bug")  # code 2 says it; a bug is told by its traceback
    assert capsys.readouterr().err == ("" if quiet else "dpmac: nothing was spent\n")


@pytest.mark.parametrize("delta", [None, 1e-8])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("name", ERRORS)
def test_an_end_after_something_is_spent_says_how_much_the_ledger_holds_in_all(
    name, before, delta, job, folder, monkeypatch, capsys
):
    """And never with the code that says that nothing was; the folder stays, with what a resume needs."""
    for _ in range(before):
        Ledger.at(job.ledger, job.data_set).append(Entry("mean", 8.0, 1.0))
    paying(monkeypatch, 1, ERRORS[name])
    with pytest.raises(Failed if name == "argument" else type(ERRORS[name])) as end:
        trained(replace(job, before=before, delta=delta), folder)
    if name == "argument":
        assert (end.value.code, str(end.value)) == (1, str(ERRORS[name]))
    spent = Ledger.read(job.ledger)
    assert len(spent) == before + 1
    at = safe_delta(100) if delta is None else delta
    held = f"the ledger {job.ledger} holds epsilon {round_up(spent.epsilon(at))} at delta {not_less(at)} in all"
    assert capsys.readouterr().err == (
        f"dpmac: stopped after 1 releases; {held}\ndpmac: resume it with  dpmac resume {folder}\n"
    )
    assert Job.load(folder) == job


@pytest.mark.parametrize("spent", [0, 1])
def test_a_run_that_was_gone_on_with_stays_whatever_ends_it(spent, job, folder, monkeypatch):
    (folder / CHECKPOINT).mkdir()
    Checkpoints(folder / CHECKPOINT).path.touch()
    paying(monkeypatch, spent, Failed("no"))
    with pytest.raises(Failed):
        trained(job, folder)
    assert (folder / JOB).exists()
    assert Checkpoints(folder / CHECKPOINT).path.exists()


def test_what_was_spent_is_read_off_the_file(job, folder, monkeypatch, capsys):
    """An interruption may come between a line there and the ledger's own count."""

    def fit(*_):
        other = Ledger.at(job.ledger, job.data_set)
        other.append(Entry("training step", 4.0, 0.5))
        raise KeyboardInterrupt

    paying(monkeypatch, 0)
    monkeypatch.setattr(training, "_fit", fit)
    with pytest.raises(KeyboardInterrupt):
        trained(job, folder)
    assert "stopped after 1 releases" in capsys.readouterr().err
    assert (folder / JOB).exists()


# --- a training that ends well ----------------------------------------------------------------------------------------


def test_releases_say_what_they_were_for_and_the_estimator_keeps_its_checkpoint_until_the_model_is_safe(
    job, folder, monkeypatch
):
    seen = paying(monkeypatch, 2)
    done = trained(job, folder)
    (entry, _) = Ledger.read(job.ledger).entries
    assert (entry.model, entry.purpose, Ledger.read(job.ledger).data_set) == ("run", "why", "rows of 2026")
    (given,) = seen
    assert done.estimator is given.estimator
    assert (given.table, given.job, given.estimator.machine.world) == (TABLE, job, SINGLE_PROCESS)
    kept = given.estimator.machine.checkpoint
    assert (kept.folder, kept._keep) == (folder / CHECKPOINT, True)
    assert (done.folder, done.evaluation) == (folder, None)


def leftovers(folder):
    """All that an unfinished run has, in its folder and beside it; and things of others."""
    (folder / CHECKPOINT).mkdir()
    own = folder / OWN_LEDGER
    part = part_of(folder)
    part.mkdir()
    ours = [folder / CHECKPOINT / "state", folder / JOB, own, guard_file_of(own), part / "weights"]
    others = [folder / "ledger.jsonl", folder / "dpmac.json", folder.parent / "else"]
    for path in (*ours, *others):
        path.touch()
    return [*ours, part, folder / CHECKPOINT], others


def test_only_what_an_unfinished_run_needs_is_removed(folder):
    ours, others = leftovers(folder)
    training.tidy(folder)
    assert [path for path in ours if path.exists()] == []
    assert all(path.exists() for path in others)
    training.tidy(folder)  # again, as a resume does that was killed here


def test_a_model_that_was_written_elsewhere_leaves_the_run_to_be_gone_on_with(job, folder, monkeypatch, tmp_path):
    paying(monkeypatch, 1)
    assert trained(job, folder).folder == folder
    assert not (folder / JOB).exists()
    job.save(folder)
    monkeypatch.setattr(training, "_saved", lambda *_: tmp_path / "elsewhere")
    assert trained(job, folder).folder == tmp_path / "elsewhere"
    assert (folder / JOB).exists()


def test_a_folder_with_a_model_or_a_ledger_in_it_is_not_discarded(tmp_path, job):
    for name, gone in (("dpmac.json", False), (OWN_LEDGER, True)):
        folder = tmp_path / name
        job.begin(folder)
        (folder / CHECKPOINT).mkdir()
        (folder / name).touch()
        training.discard(folder)
        assert (folder / name).exists()
        assert (folder / JOB).exists() is not gone
        assert (folder / CHECKPOINT).exists() is not gone
    job.begin(tmp_path / "empty")
    training.discard(tmp_path / "empty")
    assert not (tmp_path / "empty").exists()
    training.discard(tmp_path / "never")


# --- saving and scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("a file is in the way")])
def test_a_model_that_cannot_be_saved_is_saved_elsewhere(error, monkeypatch, tmp_path, capsys):
    from dpmac import saving

    asked = []

    def save(estimator, folder, **answers):
        assert answers == {"searched": "no", "ranges_from": None}
        asked.append(folder)
        if len(asked) == 1:
            raise error
        return folder

    monkeypatch.setattr(saving, "save", save)
    monkeypatch.setattr(training.tempfile, "tempdir", str(tmp_path))
    found = training._saved(SimpleNamespace(), tmp_path / "run", Job("", {}, "", 1.0, searched="no"))
    assert asked == [tmp_path / "run", found]
    assert (found.name, found.parent.parent) == ("run", tmp_path)
    said = "No space left on device" if isinstance(error, OSError) else "a file is in the way"
    assert capsys.readouterr().err == f"dpmac: {tmp_path / 'run'}: {said}; the model is written to {found} instead\n"


def test_scores_are_of_public_rows_and_kept_beside_the_model(job, tmp_path, monkeypatch, capsys):
    asked = []

    def evaluation_of(*what, **more):
        asked.append((what[2:], more))
        return {"scores": {"accuracy": 0.5}}

    monkeypatch.setattr(scores, "evaluation_of", evaluation_of)
    scored = replace(job, public_test="/somewhere/public.csv")
    assert training._evaluated(None, tmp_path, None, scored) is None
    assert training._evaluated(None, tmp_path, TABLE, job) is None
    assert asked == []
    assert training._evaluated(None, tmp_path, TABLE, scored) == {"scores": {"accuracy": 0.5}}
    assert asked == [((TABLE, "public.csv"), {"public": True})]
    assert "0.5" in (tmp_path / scores.KEPT).read_text()
    monkeypatch.setattr(scores, "keep", lambda *_: 1 / 0)
    assert training._evaluated(None, tmp_path, TABLE, scored) is None
    assert "but not its scores on the public rows" in capsys.readouterr().err


@pytest.mark.parametrize("groups", [None, "who"])
def test_public_rows_are_watched_by_a_classifier_alone_and_persons_are_always_named(groups, job):
    asked = []
    fake = SimpleNamespace(fit=lambda table, **more: asked.append((table, more)))
    for schema, public in ((SCHEMA, None), (SCHEMA, TABLE), (NUMBER, None), (NUMBER, TABLE)):
        training._fit(fake, "rows", public, replace(job, schema=schema, groups=groups))
    plain = ("rows", {"groups": groups})
    assert asked == [plain, ("rows", {"public_validation": (TABLE, TABLE["ill"]), "groups": groups}), plain, plain]


# --- other processes --------------------------------------------------------------------------------------------------


def test_a_process_that_does_not_lead_fits_its_own_rows_with_books_in_memory(job, folder, monkeypatch, capsys):
    seen = paying(monkeypatch, 1)
    world = Talking(1, Meeting(2))
    training.follow(job, folder, TABLE, "public", world)
    (given,) = seen
    assert given.table == {name: cells[2:] for name, cells in TABLE.items()}
    assert (given.public, given.estimator.machine.world, given.estimator.ledger.path) == ("public", world, None)
    kept = given.estimator.machine.checkpoint
    assert (kept.folder, kept._keep) == (folder / CHECKPOINT, True)
    assert not (folder.parent / "book").exists()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("fitted", [False, True])
def test_a_process_that_does_not_lead_stops_until_its_steps_are_done(fitted, job, folder, monkeypatch):
    def fit(estimator, *_):
        if fitted:
            estimator.run_ = "there"
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(training, "_fit", fit)
    before = signal.getsignal(signal.SIGINT)
    try:
        if fitted:
            training.follow(job, folder, TABLE, None, Talking(1, Meeting(2)))
        else:
            with pytest.raises(KeyboardInterrupt):
                training.follow(job, folder, TABLE, None, Talking(1, Meeting(2)))
    finally:
        signal.signal(signal.SIGINT, before)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def handler():
    """Ctrl-C as it is outside of a command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interruption_stops_the_steps_and_a_second_one_does_not_stop_the_ending(handler):
    with pytest.raises(KeyboardInterrupt), training._interrupts_between_steps(lambda: True):  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)  # the ending goes on
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # what follows is written down in peace


def test_an_interruption_after_the_steps_waits(handler, capsys):
    with training._interrupts_between_steps(lambda: False):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().err == "dpmac: the steps are done: finishing, so that nothing paid for is lost\n"
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("error", [None, ValueError])
def test_ctrl_c_is_as_before_when_the_training_is_over(error, handler):
    try:
        with training._interrupts_between_steps(lambda: True):
            assert signal.getsignal(signal.SIGINT) is not handler
            if error is not None:
                raise error
    except ValueError:
        pass
    assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_signals_are_left_alone(handler):
    seen = []

    def work():
        try:
            with training._interrupts_between_steps(lambda: True):
                seen.append(signal.getsignal(signal.SIGINT))
        except ValueError as error:  # signals are the main thread's
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    assert seen == [handler]


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"epochs": 3.5}, {"epochs": 2, "batch_size": 7.0}, {"batch_size": 7.0}])
def test_the_steps_and_the_delta_are_the_estimators(more, job):
    for delta in (None, 1e-8):
        asked = replace(job, epsilon=math.inf, delta=delta, **more)
        model = asked.estimator(Ledger(), None)
        plan = model._plan(job.rows, model._schedule(job.rows), Ledger())
        assert training.steps_of(asked) == plan.steps
        assert training.delta_of(asked) == plan.delta


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_unless_it_is_to_be_quiet(quiet, job, folder, monkeypatch):
    watched, work = [], []
    shown, work_shown = training.shown, training.work_shown
    monkeypatch.setattr(training, "work_shown", lambda *, show: work.append(show) or work_shown(show=False))
    monkeypatch.setattr(training, "shown", lambda watch: (watched.append(watch), shown(None))[1])
    paying(monkeypatch, 1)
    training.train(job, folder, TABLE, None, quiet=quiet, world=SINGLE_PROCESS)
    assert [watch is None for watch in watched] == [quiet]
    assert work == [not quiet]


def test_a_ledger_whose_name_was_asked_about_is_begun_beside_a_similar_one(job, folder, monkeypatch):
    Ledger(f"{job.ledger}s").append(Entry("mean", 4.0, 1.0))
    with pytest.raises(ArgumentError, match="books is beside it"):
        Ledger.at(job.ledger)
    paying(monkeypatch, 1)
    training.train(job, folder, TABLE, None, quiet=True, world=SINGLE_PROCESS)
    assert len(Ledger.read(job.ledger)) == 1


def test_releases_of_others_are_counted_from_the_first_since_the_run_began(tmp_path):
    ledger, checkpoints = Ledger(), Checkpoints(tmp_path / "kept")
    for run in ("before", "other", checkpoints.run, "other"):
        with ledger.noting(run=run):
            ledger.append(Entry("mean", 4.0, 1.0))
    job = Job("", {}, "", 1.0, before=1)
    assert training._of_others(ledger, job, checkpoints) == 2


def test_errors_name_lines_where_one_process_has_all_rows_of_a_table(job):
    several = SimpleNamespace(size=2)
    pictures = replace(job, pictures={"images": None})
    for asked, world in ((job, several), (pictures, SINGLE_PROCESS), (pictures, several)):
        assert isinstance(training._lines(asked, world), nullcontext)
    assert not isinstance(training._lines(job, SINGLE_PROCESS), nullcontext)


def test_scores_of_pictures_are_of_public_rows(job, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(scores, "evaluation_of_pictures", lambda *what, **more: asked.append((what[1:], more)) or {})
    estimator = SimpleNamespace(predict_proba=lambda pixels: f"p of {pixels}")
    public = SimpleNamespace(pixels="pixels", labels="labels")
    scored = replace(job, public_test="/somewhere/album", pictures={"images": None})
    training._evaluated(estimator, tmp_path, public, scored)
    assert asked == [(("p of pixels", "labels", "album"), {"public": True})]
