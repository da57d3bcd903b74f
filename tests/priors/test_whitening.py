"""Whitening by drawn rows: what it does to drawn rows, what it follows from, and that each row is mapped by itself."""

from __future__ import annotations

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import Affine, Whitening, load_feature_map, save_feature_map
from dpmac.priors import PublicRows, RangePrior, SchemaPrior, WhiteningOptions, whitened
from dpmac.priors import whitening as module
from dpmac.tables import Category, Number, Schema, TableEncoder

SCHEMA = Schema({"age": Number(0.0, 100.0, missing=True), "ward": Category(["a", "b", "c"]), "dose": Number(0.0, 1.0)})


def test_drawn_rows_become_white():
    """With power 1/2 and hardly a floor, features that are not redundant have equal variances and no correlation."""
    prior = RangePrior(0.0, [1.0, 5.0, 30.0], 3)
    chain = whitened(Affine(0.0, torch.tensor([1.0, 0.3, 0.1])), prior, WhiteningOptions(floor=1e-9, length=3.0))
    out = chain(prior.drawn(20_000))
    assert torch.allclose(torch.cov(out.T), torch.eye(3, dtype=torch.float64) * torch.var(out[:, 0]), atol=1e-3)
    assert torch.allclose(out.mean(dim=0), torch.zeros(3, dtype=torch.float64), atol=1e-4)
    assert float(torch.linalg.vector_norm(out, dim=1).mean()) == pytest.approx(3.0, rel=1e-4)


def test_power_zero_only_centres_and_scales():
    prior = RangePrior(0.0, 1.0, 4)
    _, last = whitened(Affine(), prior, WhiteningOptions(power=0.0)).feature_maps
    assert torch.allclose(last.matrix, torch.eye(4, dtype=torch.float64) * last.matrix[0, 0], atol=1e-5)


def test_few_directions_are_the_longest():
    prior = RangePrior(0.0, [10.0, 1.0, 0.1], 3)
    chain = whitened(Affine(), prior, WhiteningOptions(directions=1))
    assert chain.shape_after((3,)) == (1,)
    matrix = chain.feature_maps[1].matrix[:, 0].abs()
    assert float(matrix[0]) > 50 * float(matrix[2])


def test_the_same_content_is_computed_once_and_other_content_anew(monkeypatch):
    counted = []
    plain = module._whitening
    monkeypatch.setattr(module, "_whitening", lambda *given: (counted.append(1), plain(*given))[1])
    monkeypatch.setattr(module, "_known", type(module._known)())
    options = WhiteningOptions(rows=500)
    for _ in range(2):
        first = whitened(TableEncoder(SCHEMA), SchemaPrior(SCHEMA), options)
    assert len(counted) == 1
    others = [
        whitened(TableEncoder(SCHEMA, 5), SchemaPrior(SCHEMA), options),
        whitened(TableEncoder(SCHEMA), SchemaPrior(SCHEMA, seed=1), options),
        whitened(TableEncoder(SCHEMA), SchemaPrior(SCHEMA), WhiteningOptions(rows=500, power=0.25)),
    ]
    assert len(counted) == 4
    assert all(not torch.equal(first.feature_maps[1].centre, one.feature_maps[1].centre) for one in others[:2])
    for place in range(module._KEPT + 2):
        whitened(Affine(0.0, 1.0 + place), RangePrior(0.0, 1.0, 2), WhiteningOptions(rows=10))
    assert len(module._known) == module._KEPT


def test_public_rows_of_equal_shape_and_other_numbers_are_other_content():
    one, other = (PublicRows(torch.rand(20, 2, generator=torch.Generator().manual_seed(s)), "rows") for s in (0, 1))
    maps = [whitened(Affine(), prior).feature_maps[1].matrix for prior in (one, other)]
    assert not torch.equal(*maps)


def test_a_whitened_map_is_saved_and_loaded_bit_for_bit(tmp_path):
    chain = whitened(TableEncoder(SCHEMA), SchemaPrior(SCHEMA), WhiteningOptions(rows=500))
    save_feature_map(chain, tmp_path / "map.safetensors")
    again = load_feature_map(tmp_path / "map.safetensors")
    rows = SchemaPrior(SCHEMA, seed=9).drawn(40)
    assert torch.equal(chain(rows), again(rows))
    assert chain.notes() == again.notes()
    assert "drawn from the schema alone" in again.notes()[0]
    assert "500 rows" in again.notes()[0]


def test_a_row_is_mapped_by_itself():
    chain = whitened(TableEncoder(SCHEMA), SchemaPrior(SCHEMA), WhiteningOptions(rows=500))
    rows = SchemaPrior(SCHEMA, seed=9).drawn(8)
    changed = rows.clone()
    changed[3] = torch.nan
    kept = [n for n in range(8) if n != 3]
    assert torch.equal(chain(rows)[kept], chain(changed)[kept])


def test_drawn_rows_without_finite_features_are_left_out():
    rows = torch.rand(5_000, 2, generator=torch.Generator().manual_seed(0))
    spoiled = rows.repeat_interleave(2, dim=0)
    spoiled[1::2] = torch.nan
    maps = [whitened(Affine(), PublicRows(given, "rows")).feature_maps[1] for given in (rows, spoiled)]
    torch.testing.assert_close(maps[0].matrix, maps[1].matrix, rtol=1e-6, atol=1e-6)
    assert "5,000 rows" in maps[1].notes()[0]


def test_bad_arguments_are_named():
    prior = RangePrior(0.0, 1.0, 2)
    for bad in ({"power": -1.0}, {"floor": 0.0}, {"length": 0.0}, {"rows": 1}, {"directions": 0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            WhiteningOptions(**bad)
    with pytest.raises(ArgumentError, match="prior"):
        whitened(Affine(), "schema")
    with pytest.raises(ArgumentError, match="same features"):
        whitened(Affine(0.0, 0.0), prior)
    with pytest.raises(ArgumentError, match="finite"):
        whitened(Affine(0.0, 1.0), PublicRows([[float("nan"), 1.0], [1.0, 1.0]], "rows"))
    for centre, matrix in (([0.0], [[1.0], [2.0]]), ([0.0], [1.0])):
        with pytest.raises(ArgumentError, match="centre, matrix"):
            Whitening(torch.tensor(centre), torch.tensor(matrix), "rows")
    with pytest.raises(ArgumentError, match="prior"):
        Whitening(torch.zeros(1), torch.zeros(1, 1), "")
