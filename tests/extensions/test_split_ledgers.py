"""The ledger as one split sees it: what it is charged, what it holds, and what is recorded in the whole one."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

import dpmac
from dpmac import Machine
from dpmac.checks import ArgumentError
from dpmac.extensions import split_ledgers
from dpmac.extensions.accounts import Account
from dpmac.extensions.provenance import Origin, check_origin
from dpmac.extensions.split_ledgers import SplitLedger
from dpmac.extensions.splits import Splits
from dpmac.mac import FixedPrediction
from dpmac.methods import DPMean
from dpmac.nets import LOSSES, DenseNetwork
from dpmac.privacy import Entry, JointClip, Ledger, Mechanism, Persons, Plan, PrivateRows
from dpmac.privacy.entry import PERSON
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer

ONE, DELTA = Entry("mean", 4.0, 1.0), 1e-5
IDS = np.arange(400)


def divided(path=None, ledger=None, by="id"):
    if ledger is None:
        ledger = Ledger(path, "visits")
    ledger.divide({"train": 0.7, "test": 0.3}, by=by)
    places = ledger.splits.of(IDS)
    return ledger, IDS[places == 0], IDS[places == 1]


def rows(ids):
    return PrivateRows(torch.zeros(len(ids), 2))


def mean(ids, ledger, noise=4.0):
    return DPMean(noise).fit(rows(ids), SystemNoise(), ledger)


def test_a_release_is_recorded_under_its_split_and_charged_to_it_alone(tmp_path):
    whole, train, test = divided(tmp_path / "book")
    ours, theirs = whole.split("train", train), whole.split("test", test)
    mean(train, ours), mean(train, ours), mean(test, theirs, 2.0)
    assert [e.split for e in whole.entries] == ["train", "train", "test"]
    assert Ledger.load(tmp_path / "book").entries == whole.entries
    assert (len(ours), len(theirs)) == (2, 1)
    assert ours.mechanisms() == (Mechanism(4.0, 1.0, 2, "mean"),)
    assert whole.epsilon(DELTA) == max(ours.epsilon(DELTA), theirs.epsilon(DELTA)) == theirs.epsilon(DELTA)
    mean(IDS, whole)  # from all rows: in both
    assert (len(ours), len(theirs)) == (3, 2)
    assert whole.epsilon(DELTA) == theirs.epsilon(DELTA) > ours.epsilon(DELTA)


def test_rows_whose_ids_were_not_given_are_refused_and_nothing_is_spent():
    whole, train, test = divided()
    ours = whole.split("test", test)
    for others in (IDS, train, test[:-1]):
        with pytest.raises(ArgumentError, match=rf"{len(test)} rows were said to be in the split 'test'"):
            mean(others, ours)
    assert not len(whole)


def test_persons_are_counted_as_persons_and_by_the_ids_of_the_division():
    whole, train, _ = divided(by="")
    twice = np.repeat(train, 2)
    ours = whole.split("train", twice)
    assert (ours.rows, ours.persons) == (2 * len(train), len(train))
    DPMean(4.0).fit(PrivateRows(torch.zeros(len(twice), 2), groups=twice), SystemNoise(), ours)
    assert (whole.entries[0].unit, whole.entries[0].split) == (PERSON, "train")
    other, others, _ = divided()
    with pytest.raises(ArgumentError, match="may have rows in several splits"):
        other.split("train", others).check_unit(Persons.of(others, name="household").unit)
    with pytest.raises(ArgumentError, match="persons were said to be in the split"):
        ours.check_unit(PERSON, len(train) + 1)


def test_an_account_is_held_to_the_costliest_split():
    whole, train, test = divided(ledger=Ledger.init(total_epsilon=2.0, delta=DELTA))
    ours, theirs = whole.split("train", train), whole.split("test", test)
    made = []
    for ledger in (ours, theirs):
        with pytest.raises(ArgumentError, match="total_epsilon="):
            list(map(ledger.append, [ONE] * 100))
        made.append(len(ledger))
        assert ledger.epsilon(DELTA) <= 2.0 < (ledger.epsilon(DELTA) + 0.5)
    assert made[0] == made[1] > 1  # each has the whole total to itself
    assert whole.epsilon(DELTA) <= 2.0
    with pytest.raises(ArgumentError, match="total_epsilon="):
        whole.append(ONE)


def test_what_is_left_is_left_of_the_splits_own():
    whole, train, test = divided(ledger=Ledger.init(total_epsilon=2.0, delta=DELTA))
    whole.split("train", train).append(Entry("mean", 3.0, 1.0))
    assert whole.split("test", test).remaining() == pytest.approx(2.0, abs=1e-3)
    assert whole.split("train", train).remaining() == pytest.approx(whole.remaining(), abs=1e-6)
    assert whole.remaining() < 1.5  # of a release from all rows


def test_a_plan_is_allowed_for_its_own_split_and_used_up():
    whole, train, test = divided(ledger=Ledger.init(total_epsilon=2.0, delta=DELTA))
    ours = whole.split("train", train)
    most = [Mechanism(4.0, count=3)]
    whole.split("test", test).append(Entry("mean", 2.8, 1.0))
    ours.check_plan(most)
    with pytest.raises(ArgumentError, match="total_epsilon"):
        whole.check_plan(most)  # on top of what the other split has given
    with pytest.raises(ArgumentError, match="total_epsilon"):
        ours.check_plan([Mechanism(4.0, count=30)])
    ours.append(Entry("mean", 2.8, 1.0))
    with pytest.raises(ArgumentError, match="total_epsilon"):
        ours.check_plan(most)  # on top of what this one has


def test_a_model_of_one_split_is_made_and_scored_for_the_dearer_of_the_two(tmp_path):
    """From end to end: the model says what its own rows paid, and the ledger what the dearest did."""
    whole, train, test = divided(tmp_path / "book")
    x = np.random.default_rng(0).normal(size=(len(IDS), 3)).clip(-1, 1)
    y = (x[:, 0] > 0).astype(int)
    ours, theirs = whole.split("train", train), whole.split("test", test)
    mean(test, theirs, 8.0)  # in between, and none of its business
    quick = {"batch_size": len(train), "epochs": 4, "classes": [0, 1], "feature_range": (-1, 1)}
    model = dpmac.DPMACClassifier(epsilon=1.0, ledger=ours, random_state=0, **quick)
    clone(model).fit(x[train], y[train])
    first = ours.epsilon(DELTA)
    model.set_params(delta=DELTA).fit(x[train], y[train])
    assert 0.99 < first < ours.epsilon(DELTA)  # two fits: the second plan counts the first
    assert model.privacy_.epsilon == ours.epsilon(DELTA) == whole.epsilon(DELTA)
    check_origin(theirs, model=model.network_)  # the whole ledger holds it
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        check_origin(Ledger(), model=model.network_)
    with pytest.raises(ArgumentError, match="were said to be in the split"):
        clone(model).fit(x, y)
    before = len(whole)
    model.save(tmp_path / "model")
    kept = Ledger.read(tmp_path / "model" / "ledger.jsonl")
    assert kept.entries == ours.entries
    assert kept.data_set == "visits (split train)"
    assert dpmac.load(tmp_path / "model").privacy_.epsilon == model.privacy_.epsilon
    assert len(whole) == before


def test_a_training_on_a_split_is_resumed(tmp_path, monkeypatch):
    """Killed, and gone on with after another split was released from, it ends where it would have ended."""
    x = np.random.default_rng(0).normal(size=(len(IDS), 3)).clip(-1, 1)
    y = (x[:, 0] > 0).astype(int)
    known = Splits((("train", 0.7), ("test", 0.3)), "id", "11" * 32)
    monkeypatch.setattr(Splits, "drawn", lambda *_: known)

    def model(name):
        whole, train, test = divided(tmp_path / f"{name}.ledger")
        whole.split("test", test).append(ONE)
        return _model(tmp_path / name, whole.split("train", train), len(train)), x[train], y[train]

    whole, *table = model("whole")
    whole.fit(*table)
    cut, *table = model("cut")
    append = SplitLedger.append
    monkeypatch.setattr(SplitLedger, "append", lambda book, e: append(book, e) if len(book) < 25 else _stop())
    with pytest.raises(KeyboardInterrupt):
        cut.fit(*table)
    monkeypatch.setattr(SplitLedger, "append", append)
    ledger, train, test = divided(ledger=Ledger.load(tmp_path / "cut.ledger"))
    ledger.split("test", test).append(ONE)
    ours = ledger.split("train", train)
    gone_on = _model(tmp_path / "cut", ours, len(train)).fit(*table)
    assert ours.mechanisms() == whole.privacy_.ledger.mechanisms()
    assert len(ledger) == len(ours) + 2
    for a, b in zip(gone_on.network_.state_dict().values(), whole.network_.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def _model(folder, ledger, rows):
    machine = Machine(checkpoint=folder)
    known = {"classes": [0, 1], "feature_range": (-1, 1), "random_state": 0, "batch_size": rows, "epochs": 30}
    return dpmac.DPMACClassifier(epsilon=2.0, ledger=ledger, machine=machine, **known)


def _stop():
    raise KeyboardInterrupt


def test_threads_and_notes_are_the_whole_ledgers(tmp_path):
    whole, train, test = divided(tmp_path / "book")
    views = [whole.split("train", train), whole.split("test", test)]
    with views[0].noting(purpose="study", model="first", run="r1"):
        views[0].append(ONE)
    noted = whole.entries[0]
    assert (noted.purpose, noted.model, noted.run) == ("study", "first", "r1")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: views[k % 2].append(ONE), range(40)))
    assert len(Ledger.load(tmp_path / "book")) == 41
    assert (len(views[0]), len(views[1])) == (21, 20)
    with views[0].exclusive():
        views[0].append(ONE)
    assert views[0].head(0) == whole.head(0)
    assert views[1].head(20) == whole.head([k for k, e in enumerate(whole.entries, 1) if e.split == "test"][-1])
    assert views[1].head(21) is None


def test_a_copy_of_it_records_nothing_and_it_is_not_divided_further(tmp_path):
    whole, train, _ = divided()
    ours = whole.split("train", train)
    with pytest.raises(RuntimeError, match="came out of a pickle"):
        pickle.loads(pickle.dumps(ours)).append(ONE)
    with pytest.raises(ArgumentError, match="divide all"):
        ours.divide({"a": 0.5, "b": 0.5})
    with pytest.raises(ArgumentError, match="the data set is not divided"):
        ours.split("train", train)
    assert repr(ours) == f"Ledger(0 releases, split 'train' of {len(train)} rows)"
    with pytest.raises(RuntimeError, match="pickle"):
        ours.until(0).append(ONE)


def test_a_long_name_of_the_data_set_does_not_lose_a_copy(tmp_path):
    whole, train, _ = divided(ledger=Ledger(data_set="é" * 30))
    assert json.dumps(whole.data_set) != whole.data_set
    ours = whole.split("train", train)
    ours.append(ONE)
    ours.save(tmp_path / "copy")
    assert "train" in Ledger.read(tmp_path / "copy").data_set


@pytest.mark.parametrize(("length", "kept"), [(184, True), (185, False)])
def test_the_longest_name_that_fits_into_a_copy_stays(tmp_path, length, kept):
    whole, train, _ = divided(ledger=Ledger(data_set="x" * length))
    ours = whole.split("train", train)
    assert ours.data_set == f"{'x' * length * kept} (split train)".lstrip()
    ours.append(ONE)
    ours.save(tmp_path / "copy")
    assert Ledger.read(tmp_path / "copy").data_set == ours.data_set


def test_it_has_begun_when_the_whole_ledger_has():
    whole, train, test = divided()
    ours, theirs = whole.split("train", train), whole.split("test", test)
    assert not ours.begun
    theirs.append(ONE)
    assert ours.begun


def test_all_splits_have_one_unit():
    """Also where the other splits alone have released: a statement of the whole ledger is of one unit."""
    whole, train, test = divided()
    ours, theirs = whole.split("train", train), whole.split("test", test)
    theirs.append(ONE)
    person = Entry("mean", 4.0, 1.0, unit=f"{PERSON} by id")
    for refused in (lambda: ours.check_unit(person.unit), lambda: ours.append(person)):
        with pytest.raises(ArgumentError, match="whose unit of privacy is a row, not a person by id"):
            refused()
    assert len(whole) == 1
    other = f"{PERSON} by household"
    fresh, train, _ = divided()
    for refused in (
        fresh.split("train", train).check_unit,
        lambda u: fresh.append(Entry("m", 4.0, 1.0, unit=u, split="test")),
    ):
        with pytest.raises(ArgumentError, match="may have rows in several splits"):
            refused(other)


def test_a_seeded_run_is_replayed_in_its_split_only():
    whole, train, test = divided()
    ours = whole.split("train", train)
    with ours.noting(run="r"):
        DPMean(4.0).fit(rows(train), SeededNoise(1), ours)
    whole.split("test", test).append(ONE)
    again = ours.replaying("r", 0)
    DPMean(4.0).fit(rows(train), SeededNoise(1), again)
    assert len(whole) == 2
    DPMean(4.0).fit(rows(train), SeededNoise(1), again)
    assert [e.split for e in whole.entries] == ["train", "test", "train"]


# --- what other splits have shaped ------------------------------------------------------------------------------------


def trained(network, x, ledger, before=()):
    plan = Plan(delta=DELTA, n=len(x), batch_size=20, steps=2, noise_multiplier=2.0, before=before)
    y = (x[:, :1] > 0.5).float()
    trainer = Trainer(network, LOSSES["sigmoid"], plan, bound=JointClip(1.0), zstep=FixedPrediction())
    return trainer.fit(x, y, ledger=ledger)


def test_a_model_that_begins_from_another_splits_is_not_called_this_splits():
    """Its statement would give the figure of these rows, and the model tells of the others as well."""
    whole, train, test = divided()
    x = torch.rand(len(IDS), 3)
    start = DenseNetwork([3, 1], "relu", source=SeededNoise(0))
    first = trained(start, x[train], whole.split("train", train)).model
    made = len(whole)
    with pytest.raises(ArgumentError, match="another split of the data set has shaped"):
        trained(first, x[test], whole.split("test", test))
    assert len(whole) == made
    again = trained(first, x[train], ours := whole.split("train", train), ours.mechanisms())
    assert len(again.ledger) == 2 * made
    everybodys = trained(first, x[test], whole, whole.mechanisms())
    assert everybodys.ledger.epsilon(DELTA) > ours.until(2 * made).epsilon(DELTA)


@pytest.mark.parametrize("kind", [dpmac.DPMACAutoencoder, dpmac.DPMACPCA])
def test_ranges_of_another_split_are_not_those_of_this_splits_codes(kind):
    whole, train, test = divided()
    table = {"a": np.random.default_rng(0).random(len(IDS)), "b": np.arange(len(IDS)) % 7.0}
    parts = [{name: column[ids] for name, column in table.items()} for ids in (train, test)]
    schema = dpmac.Schema.estimate(
        parts[0], epsilon=1.0, delta=DELTA, categories={}, ledger=whole.split("train", train)
    )
    made = len(whole)
    settings = {"code_size": 1, "method": "closed-form"} if kind is dpmac.DPMACAutoencoder else {"n_components": 1}
    with pytest.raises(ArgumentError, match="another split of the data set has shaped"):
        kind(**settings, epsilon=1.0, delta=DELTA, schema=schema, ledger=whole.split("test", test)).fit(parts[1])
    assert len(whole) == made
    kind(**settings, epsilon=1.0, delta=DELTA, schema=schema, ledger=whole.split("train", train)).fit(parts[0])


def test_codes_by_another_splits_model_are_warned_of_and_counted():
    whole, train, test = divided()
    x = np.random.default_rng(0).random((len(IDS), 4))
    known = {"epsilon": 1.0, "delta": DELTA, "feature_range": (0.0, 1.0)}
    pca = dpmac.DPMACPCA(2, **known, ledger=whole.split("train", train)).fit(x[train])
    codes, y = pca.transform(x[test]), test % 2
    later = dpmac.DPMACClassifier(epsilon=1.0, delta=DELTA, classes=[0, 1], epochs=1, ledger=whole.split("test", test))
    with pytest.warns(dpmac.PrivacyWarning, match="made by another private estimator"):
        later.fit(codes, y)
    assert any("how the rows were made" in note for note in later.privacy_.notes)


def test_a_release_that_another_reader_sees_first_is_counted_once_by_all(monkeypatch):
    """A thread that watches, or a handler of Ctrl-C, asks for the entries while they are being put together."""
    whole, train, _ = divided()
    ours = whole.split("train", train)
    for _ in range(3):
        whole.append(replace(ONE, split="train"))
    plain, asked = split_ledgers.replace, []

    def interrupted(entry, **more):
        if not asked:
            asked.append(True)
            assert len(ours) == 3
        return plain(entry, **more)

    monkeypatch.setattr(split_ledgers, "replace", interrupted)
    assert len(ours) == 3
    for _ in range(4):
        whole.append(replace(ONE, split="train"))
    assert len(ours) == 7
    assert ours.mechanisms() == (Mechanism(4.0, 1.0, 7, "mean"),)


def test_an_account_that_is_opened_later_holds_for_a_split_that_is_held():
    whole, train, _ = divided()
    ours = whole.split("train", train)
    whole._set_account(Account(2.0, DELTA))
    assert ours.account == whole.account
    assert ours.remaining() == whole.remaining()


# --- a name of a run is no proof of what it released ------------------------------------------------------------------


def test_a_split_with_as_many_releases_does_not_hold_those_of_another():
    """Whatever the test rows' split has released besides: what the training rows have shaped is not theirs."""
    whole, train, test = divided()
    x = torch.rand(len(IDS), 3)
    start = DenseNetwork([3, 1], "relu", source=SeededNoise(0))
    first = trained(start, x[train], whole.split("train", train)).model
    theirs = whole.split("test", test)
    for _ in range(3):
        theirs.append(ONE)
    made = len(whole)
    assert first.origin.missing_in(theirs) == first.origin
    with pytest.raises(ArgumentError, match="another split of the data set has shaped"):
        trained(first, x[test], theirs, theirs.mechanisms())
    assert len(whole) == made


@pytest.mark.parametrize("few", [1, 4])
def test_the_same_name_of_a_run_in_two_splits_is_no_proof_either(few):
    whole, train, test = divided()
    one, other = whole.split("train", train), whole.split("test", test)
    for book, noise, count in ((one, 0.5, 2), (other, 50.0, few)):
        with book.noting(run="r"):
            for _ in range(count):
                book.append(Entry("mean", noise, 1.0))
    assert Origin.of(one).missing_in(other) == Origin.of(one)
    assert Origin.of(one).within(whole)
    assert not Origin.of(one).missing_in(one)


def test_what_two_splits_have_shaped_under_one_name_is_not_forgotten():
    whole, train, test = divided()
    one, other = whole.split("train", train), whole.split("test", test)
    for book, noise, count in ((one, 0.5, 1), (other, 50.0, 5)):
        with book.noting(run="r"):
            for _ in range(count):
                book.append(Entry("mean", noise, 1.0))
    both = Origin.merged(Origin.of(one), Origin.of(other))
    assert both == Origin.merged(Origin.of(other), Origin.of(one)) == Origin.of(whole)
    assert both.missing_in(other)
    assert both.missing_in(one)
    assert both.within(whole)
    assert Origin.from_dict(both.to_dict()) == both


def test_releases_of_two_splits_are_of_two_runs_unless_somebody_says_otherwise():
    whole, train, test = divided()
    books = whole, whole.split("train", train), whole.split("test", test)
    for book in books:
        book.append(ONE)
    assert len({entry.run for entry in whole.entries}) == 3
    assert [books[1].entries[-1].run, books[2].entries[-1].run] == [book.run for book in books[1:]]
    with whole.noting(run="named"):
        assert {book.run for book in books} == {"named"}
