"""The door: right noise for every layer, the event written first. (Promises checked: test_query.py.)"""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch

from doorway import ONE, go
from dpmac.checks import ArgumentError
from dpmac.kernels import padding
from dpmac.privacy import (
    DensePart,
    GramPart,
    JointClip,
    Ledger,
    Normalise,
    OuterPart,
    Partition,
    PerLayerClip,
    PrivateRows,
    Unbounded,
    gaussian_release,
)
from dpmac.privacy.noise import Grid
from dpmac.randomness import SeededNoise, SystemNoise


def blocks(count, shape):
    return [Partition(f"layer {k}", shape) for k in range(count)]


# --- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 7])
@pytest.mark.parametrize("make", [lambda k: PerLayerClip(tuple(0.1 * 3**i for i in range(k))), lambda k: Normalise()])
def test_noise_scale_of_every_layer_within_two_percent(layers, make):
    """Enough draws that a scale wrong by 2 % is 9 standard errors off: 100,000 draws, standard error 0.22 %."""
    bound, sigma = make(layers), 1.7
    partitions = bound.promise(blocks(layers, (250, 400)))
    for k, noisy in enumerate(go(partitions, sigma=sigma, source=SeededNoise(layers))):
        threshold = bound.threshold[k] if isinstance(bound, PerLayerClip) else 1.0
        expected = sigma * math.sqrt(layers) * threshold  # the paper's sqrt(MK), written out again here
        assert abs(float(noisy.std()) / expected - 1) < 0.01
        assert abs(float(noisy.mean())) < 6 * expected / math.sqrt(noisy.numel())


def test_joint_noise_has_no_penalty_for_layers():
    partitions = JointClip((0.5, 2.0)).promise(blocks(2, (250, 400)))
    for noisy, kappa in zip(go(partitions, sigma=3.0), (0.5, 2.0), strict=True):
        assert abs(float(noisy.std()) / (3.0 * kappa) - 1) < 0.01


@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(5)], ids=repr)
def test_noise_is_independent_between_coordinates_layers_and_steps(source):
    draws = 40_000
    partitions = PerLayerClip(1.0).promise(blocks(2, (draws, 2)))
    columns = torch.cat([noisy for _ in range(2) for noisy in go(partitions, source=source)], dim=1).T
    assert columns.shape[0] == 8  # two coordinates, two layers, two steps
    correlation = torch.corrcoef(columns) - torch.eye(8)
    assert correlation.abs().max() < 6 / math.sqrt(draws)
    lagged = torch.corrcoef(torch.stack([columns[0, :-1], columns[0, 1:]]))[0, 1]
    assert abs(float(lagged)) < 6 / math.sqrt(draws)


def test_noise_is_centred_on_the_sum_and_divided_by_the_constant():
    rows = torch.full((50, 1), 0.02, dtype=torch.float64)
    partitions = [Partition("a", (40_000,), 10.0)]
    (noisy,) = go(partitions, lambda x: [DensePart(x.expand(-1, 40_000))], rows=rows, sigma=0.5, divisor=4.0)
    assert float(noisy.mean()) == pytest.approx(50 * 0.02 / 4, abs=6 * 5.0 / 4 / 200)
    assert float(noisy.std()) == pytest.approx(5.0 / 4, rel=0.02)


def test_the_divisor_is_not_the_realised_batch_size():
    """Two tables, one with two places blank, same seed: the outputs differ by these rows' sum over the constant."""
    table = PrivateRows(torch.ones(6, 1, dtype=torch.float64))

    def share(x):
        return [DensePart(x.expand(-1, 3) * 0.5)]

    few, many = (
        go([Partition("a", (3,), 1.0)], share, rows=rows, source=SeededNoise(1), divisor=8.0)[0]
        for rows in (table.without(2).without(0), table)
    )
    assert torch.allclose(many - few, torch.full((3,), 2 * 0.5 / 8.0, dtype=torch.float64), atol=1e-5)


def test_an_empty_batch_is_pure_noise_and_is_charged():
    ledger = Ledger()
    (noisy,) = go([Partition("a", (5, 3), 2.0)], rate=1e-9, ledger=ledger)
    assert noisy.shape == (5, 3)
    assert float(noisy.abs().min()) > 0
    assert [e.sample_rate for e in ledger.entries] == [1e-9]


def test_released_numbers_lie_on_a_grid_far_finer_than_the_noise():
    partitions = [Partition("a", (1000,), 3.0)]
    (noisy,) = go(partitions, sigma=1.0)
    grid = Grid.of(1.0, partitions).step * 3.0
    assert torch.equal(noisy, torch.round(noisy / grid) * grid)
    assert grid < 3.0 * 1e-6


def test_symmetric_noise_is_half_the_variance_off_the_diagonal():
    """(N + N^T) / 2: deviation sigma on the diagonal, sigma / sqrt 2 off it, equal triangles, nothing else related."""
    d, scale, sigma = 300, 2.0, 1.5
    partitions = [Partition("a", (2, d, d), scale, symmetric=True)]
    source = SeededNoise(2)

    def nothing_at_all(x):
        return [GramPart(torch.zeros(len(x), 2, dtype=torch.float64), torch.zeros(len(x), d, dtype=torch.float64))]

    releases = [go(partitions, nothing_at_all, sigma=sigma, source=source)[0] for _ in range(8)]
    noisy = releases[0]
    assert torch.equal(noisy, noisy.transpose(1, 2))
    upper = noisy[:, *torch.triu_indices(d, d, 1)]
    assert float(upper.std()) == pytest.approx(sigma * scale / math.sqrt(2), rel=0.01)
    diagonals = torch.cat([torch.diagonal(each, dim1=1, dim2=2) for each in releases])
    assert float(diagonals.std()) == pytest.approx(sigma * scale, rel=0.04)  # 4,800 draws: standard error 1 %
    assert abs(float(torch.corrcoef(upper)[0, 1])) < 6 / math.sqrt(upper.shape[1])


@pytest.mark.parametrize("sigma", [np.float16(1.0), torch.tensor(1.0, dtype=torch.float16)], ids=["numpy", "torch"])
def test_a_half_precision_multiplier_is_a_plain_number_here(sigma):
    """Found in review: times a small scale it was 0 in half precision, and the bare sums came out."""
    ledger = Ledger()
    (noisy,) = go([Partition("a", (4000,), 1e-9)], sigma=sigma, ledger=ledger)
    assert float(noisy.std()) == pytest.approx(1e-9, rel=0.1)
    assert type(ledger.entries[0].noise_multiplier) is float


def test_what_is_released_has_no_graph_to_the_rows():
    rows = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    (noisy,) = go([Partition("a", (1,), 10.0)], lambda x: [DensePart(x)], rows=rows)
    assert not noisy.requires_grad


# --- the ledger -----------------------------------------------------------------------------------------------------


def test_the_event_is_written_before_anything_is_returned(tmp_path):
    class StopError(Exception):
        pass

    class Failing(SystemNoise):
        def steps(self, sizes, bits, device="cpu"):
            assert len(Ledger.load(tmp_path / "ledger.jsonl")) == 1  # on the disk before the first noise is drawn
            raise StopError

    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(StopError):
        go([Partition("a", (2,), 1.0)], source=Failing(), ledger=ledger)
    assert len(ledger) == 1


def test_the_ledger_holds_what_was_done():
    ledger = Ledger()
    partitions = PerLayerClip((0.5, 2.0)).promise([Partition("a", (2,)), Partition("b", (3,))])
    go(partitions, sigma=1.3, rate=0.25, source=SeededNoise(0), ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.label, entry.noise_multiplier, entry.sample_rate, entry.seeded) == ("test", 1.3, 0.25, True)
    assert entry.scales == pytest.approx({"a": 0.5 * math.sqrt(2), "b": 2.0 * math.sqrt(2)})


def test_a_seed_of_the_noise_or_of_the_sampler_marks_the_entry():
    ledger = Ledger()
    go(ONE, source=SystemNoise(), ledger=ledger)
    go(ONE, source=SeededNoise(0), ledger=ledger)
    go(ONE, rate=0.5, source=SystemNoise(), ledger=ledger)  # go() samples by a seed
    assert [entry.seeded for entry in ledger.entries] == [False, True, True]


def test_without_noise_the_sums_are_exact_and_the_ledger_says_not_private():
    ledger = Ledger()
    rows = torch.arange(6, dtype=torch.float64)[:, None]
    (exact,) = go(Unbounded().promise(ONE), lambda x: [DensePart(x)], rows=rows, sigma=0.0, ledger=ledger)
    assert exact.tolist() == [15.0]
    assert math.isinf(ledger.epsilon(1e-5))


# --- rows and blocks ------------------------------------------------------------------------------------------------


def test_row_order_and_micro_batches_change_nothing_beyond_rounding():
    draw = SeededNoise(9)
    rows = draw.normal((301, 6)).float()
    bound = PerLayerClip(0.3)
    partitions = bound.promise([Partition("a", (4, 6))])
    mixing = draw.normal((6, 4)).float()

    def contribute(x):
        return bound.apply([OuterPart(x @ mixing, x)])

    def noisy(table, micro):
        return go(partitions, contribute, rows=table, source=SeededNoise(4), micro_batch=micro)[0]

    reference = noisy(rows, None)
    order = torch.argsort(draw.uniform(301))
    for table, micro in [(rows, 1), (rows, 7), (rows, 300), (rows[order], None), (rows[order], 64)]:
        assert torch.allclose(noisy(table, micro), reference, atol=2e-5)


def test_sums_are_made_in_blocks_of_bounded_length(monkeypatch):
    """The rounding bound counts blocks of a fixed length, whatever the micro-batch is."""
    rows, lengths = SeededNoise(3).normal((500, 1)) * 1e-3, []

    def listening(x):
        lengths.append(len(x))
        return [DensePart(x)]

    for longest in (32, 128, 4096):
        monkeypatch.setattr(padding, "MAX_BLOCK", longest)
        for micro in (1, 100, None):
            lengths.clear()
            (found,) = go(ONE, listening, rows=rows, sigma=0.0, micro_batch=micro)
            assert float(found) == pytest.approx(float(rows.sum()), abs=1e-15)
            assert set(lengths) == {min(longest, {1: 32, 100: 128, None: 504}[micro])}


def test_every_block_has_one_public_shape_and_the_filling_adds_nothing():
    """Found in review: kernels round by shape, so the number of rows must not reach another row's shape."""
    shapes = set()

    def contribute(x):
        shapes.add(tuple(x.shape))
        return [DensePart(0.01 * torch.ones_like(x))]  # the filling would add to the sum if it were not dropped

    for n in (37, 39, 40):
        (found,) = go(ONE, contribute, rows=torch.ones(n, 1, dtype=torch.float64), sigma=0.0, micro_batch=64)
        assert float(found) == pytest.approx(0.01 * n)
    assert shapes == {(40, 1)}


def test_a_kernel_that_rounds_by_spot_moves_no_other_row():
    """The attack of two reviews: rows whose share flips its sign with its spot, beside one row that comes or goes.

    Whatever the spots are, the others' shares add up to the same; with rows packed in order, the row at the front
    shifted all others by one spot, and the sum by their number.
    """
    signs = torch.tensor([1.0, -1.0] * 32, dtype=torch.float64)[:, None]

    def by_spot(x):
        return [DensePart(0.5 * signs[: len(x)] * (x == 1).double())]

    def sums(table):
        asked = {"rows": table, "sigma": 0.0, "rate": 1.0}
        return [float(go(ONE, by_spot, **asked, source=SeededNoise(s))[0]) for s in range(60)]

    table = PrivateRows(torch.tensor([2.0] + [1.0, 2.0] * 20, dtype=torch.float64)[:, None])
    assert sums(table) == sums(table.without(0))
    assert statistics.pstdev(sums(table)) > 0.5  # the spots do vary


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "more", "message"),
    [
        (ONE, {"sigma": -1.0}, "noise_multiplier=-1.0"),
        (ONE, {"sigma": math.nan}, "noise_multiplier=nan"),
        (ONE, {"sigma": 1e-30}, "noise_multiplier=1e-30"),
        (ONE, {"divisor": 0.0}, "divisor=0.0"),
        (ONE, {"micro_batch": 0}, "micro_batch=0"),
        (Unbounded().promise(ONE), {}, "choose a Bound"),
        ([Partition("a", (1,), 0.0)], {}, "scale of partition 'a'=0.0"),
        ([Partition("a", (1,), 1e-200)], {}, "scale of partition 'a'=1e-200"),
    ],
)
def test_bad_arguments_are_named_before_a_row_is_touched(partitions, more, message):
    with pytest.raises(ArgumentError, match=message):
        go(partitions, lambda x: pytest.fail("a row was touched"), **more)


def test_more_rows_than_the_rounding_argument_covers_are_refused(monkeypatch):
    monkeypatch.setattr(gaussian_release, "MAX_ROWS", 3)
    with pytest.raises(ArgumentError, match="4 expected rows"):
        go(ONE)
