"""Priors: the same rows for the same seed on every machine, from public arguments alone; nothing released."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.extensions.outputs import remember
from dpmac.priors import PRIORS, PicturePrior, PublicRows, RangePrior, SchemaPrior, WordsPrior
from dpmac.priors.draws import Draws, ranks
from dpmac.privacy import Ledger, Origin
from dpmac.privacy.entry import Entry
from dpmac.tables import Category, Date, Number, Schema, TableEncoder

SCHEMA = Schema(
    {
        "age": Number(0.0, 100.0),
        "dose": Number(-1.0, 1.0, missing=True),
        "ward": Category(["a", "b", "c"], missing=True),
        "day": Date("2020-01-01", "2020-12-31"),
        "ill": Category(["no", "yes"]),
    },
    target="ill",
)


def released() -> Origin:
    ledger = Ledger()
    ledger.append(Entry("ranges", 1.0, 1.0))
    return Origin.of(ledger)


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_draws_the_same_rows_at_every_call(kind):
    one, again = PRIORS[kind].sample(), PRIORS[kind].sample()
    assert PRIORS[kind].kind == kind
    first = one.drawn(7)
    torch.manual_seed(1)
    np.random.seed(1)
    assert torch.equal(first.nan_to_num(), again.drawn(7).nan_to_num())
    assert torch.equal(first.nan_to_num(), one.drawn(7).nan_to_num())
    assert 1 <= len(first) <= 7
    assert one.described()
    assert set(one.arguments()) <= set(PRIORS[kind].__init__.__code__.co_varnames)


@pytest.mark.parametrize("kind", [kind for kind in PRIORS if kind != PublicRows.kind])
def test_another_seed_draws_other_rows_and_the_same_arguments_make_the_same_prior(kind):
    one = PRIORS[kind].sample()
    known = one.arguments()
    same, other = PRIORS[kind](**known), PRIORS[kind](**{**known, "seed": known["seed"] + 1})
    assert torch.equal(one.drawn(50).nan_to_num(), same.drawn(50).nan_to_num())
    assert not torch.equal(one.drawn(50).nan_to_num(), other.drawn(50).nan_to_num())
    for count in (0, -1, 1.5, 10**9):
        with pytest.raises(ArgumentError, match="rows"):
            one.drawn(count)


def test_the_rows_are_these_on_every_machine():
    """The digests were computed once; a machine with other rows would train other models."""
    found = {}
    for prior in (SchemaPrior(SCHEMA), RangePrior(0.0, [1.0, 50.0], 2), WordsPrior(100, 9)):
        rows = prior.drawn(3_000).double().nan_to_num(nan=-7.0).numpy()
        found[prior.kind] = hashlib.sha256(rows.astype("<f8").tobytes()).hexdigest()[:16]
    assert found == DIGESTS


def test_pictures_are_these_on_every_machine_and_more_of_them_begin_alike():
    few, many = (PicturePrior(16, 18, 3, "mixed", seed=1).drawn(rows) for rows in (300, 520))
    assert torch.equal(few, many[:300])
    assert torch.equal(few, torch.round(few))  # whole greys
    assert hashlib.sha256(few.numpy().astype(np.uint8).tobytes()).hexdigest()[:16] == "3637493652752935"
    half = PicturePrior(16, 18, 3, "mixed", white=127.5, seed=1).drawn(300)
    assert torch.equal(half, few / 2)


DIGESTS = {"schema": "e67e8592ff2985fb", "range": "59a6434780d9b87e", "words": "6ea09c56ff977f39"}


def test_rows_of_a_schema_are_codes_that_its_encoder_takes():
    codes = SchemaPrior(SCHEMA).drawn(5_000)
    assert codes.shape == (5_000, 4)
    age, dose, ward, day = codes.T
    assert bool((age >= 0).all() and (age <= 100).all())
    assert 0.08 < float(torch.isnan(dose).double().mean()) < 0.12
    assert not bool(torch.isnan(age).any())
    assert set(ward[~torch.isnan(ward)].tolist()) == {0.0, 1.0, 2.0, 3.0}
    low, high = SCHEMA.columns["day"].days
    assert bool(((day >= low) & (day <= high) & (day == day.floor())).all())
    assert bool(torch.isfinite(TableEncoder(SCHEMA)(codes)).all())


def test_columns_of_a_world_hang_together_and_no_two_worlds_alike():
    columns = {f"x{k}": Number(0.0, 1.0) for k in range(6)}
    codes = SchemaPrior(Schema(columns)).drawn(4_000)
    first, second = (np.corrcoef(block.numpy().T) for block in torch.split(codes, 2_000))
    apart = ~np.eye(6, dtype=bool)
    assert np.abs(first[apart]).max() > 0.15
    assert np.abs((first - second)[apart]).max() > 0.15


def test_words_follow_zipfs_law_and_texts_end_in_padding():
    rows = WordsPrior(1_000, 12, first=5, padding=2).drawn(4_000)
    words = (rows >= 5) & (rows != 2)
    counts = words.sum(dim=1)
    assert counts.min() == 5
    assert counts.max() == 12
    assert bool((words.int().diff(dim=1) <= 0).all())  # padding follows
    common = torch.bincount(rows[words] - 5, minlength=1_000)
    expected = (1 / (np.arange(1_000) + 10)) / (1 / (np.arange(1_000) + 10)).sum()
    assert common[:20].sum() / common.sum() == pytest.approx(expected[:20].sum(), rel=0.05)


def test_what_private_rows_have_shaped_is_refused():
    import dataclasses

    shaped = dataclasses.replace(SCHEMA, origin=released())
    for prior in (lambda: SchemaPrior(shaped), lambda: PublicRows([["1"]], "rows", schema=shaped)):
        with pytest.raises(ArgumentError, match="private rows have shaped it"):
            prior()
    assert SchemaPrior(shaped.as_public("rows of other people")).drawn(3).shape == (3, 4)


def test_outputs_of_a_private_model_are_no_public_rows():
    codes = np.random.default_rng(0).normal(size=(300, 3))
    remember(codes, released())
    with pytest.raises(ArgumentError, match="no private row has shaped"):
        PublicRows(codes, "codes of somebody's PCA")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PublicRows([[1.0]], " "), "called"),
        (lambda: PublicRows([1.0], "a vector"), "table"),
        (lambda: PublicRows([["x"]], "texts"), "table"),
        (lambda: RangePrior(1.0, 0.0, 2), "low, high"),
        (lambda: RangePrior([0.0, 1.0, 2.0], 5.0, 2), "low"),
        (lambda: RangePrior(0.0, float("inf"), 2), "high"),
        (lambda: SchemaPrior(SCHEMA, seed=-1), "seed"),
        (lambda: WordsPrior(0), "vocabulary"),
        (lambda: WordsPrior(10, 4), "length"),
    ],
)
def test_bad_arguments_are_named(make, name):
    with pytest.raises(ArgumentError, match=name):
        make()


def test_draws_have_their_laws():
    draw = Draws(0, "test")
    normal, uniform = draw.normal(200_000), draw.uniform(200_000)
    assert abs(normal.mean()) < 0.01
    assert normal.std() == pytest.approx(1.0, abs=0.01)
    assert (np.abs(normal) > 2).mean() == pytest.approx(0.0455, abs=0.004)
    assert uniform.mean() == pytest.approx(0.5, abs=0.005)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert sorted(draw.order(9)) == list(range(9))
    assert ranks(np.array([3.0, -1.0, 2.0, 2.0])).tolist() == [0.875, 0.125, 0.375, 0.625]
