"""Blocks that are recorded and replayed: the same sums, the same events, no stale number, nothing random inside."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from dpmac.kernels.dense import DensePart
from dpmac.kernels.recording import WARM, Graph, Recording, Sums, Work
from dpmac.mac import AdamCoordinates, FirstOrder, OptimizerStep, ZStep
from dpmac.mac.zsteps import FixedPrediction
from dpmac.methods import Gradients
from dpmac.nets import DenseNetwork, loss
from dpmac.nets.activations import TANH
from dpmac.privacy import Bound, JointClip, Ledger, Normalise, PerLayerClip, Plan, PrivateRows, release
from dpmac.privacy.gaussian_release import BrokenPromiseError, ReleaseRequest
from dpmac.privacy.partition import Partition
from dpmac.privacy.query import Query
from dpmac.privacy.sampling import Columns, PoissonSampler
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step, Trainer
from dpmac.training.step import ours

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@dataclass
class Played:
    """A graph without CUDA: reads its own buffers when it is played, and writes where it wrote before."""

    work: Work
    columns: Columns
    spots: Sequence[Tensor]
    plays: int = 0
    _sums: Sums = field(init=False)

    def __post_init__(self) -> None:
        self.spots = [tensor.clone() for tensor in self.spots]
        self._sums = self.work(self.columns, *self.spots)

    def __call__(self, spots: Sequence[Tensor]) -> Sums:
        self.plays += 1
        for mine, given in zip(self.spots, spots, strict=True):
            mine.copy_(given)
        totals, kept = self.work(self.columns, *self.spots)
        for place, total in zip(self._sums[0], totals, strict=True):
            place.copy_(total)
        self._sums[1].copy_(kept)
        return self._sums


def summed(columns: Columns, at: Tensor) -> Sums:
    return [columns[0][at].sum(dim=0)], torch.tensor(True)


def test_a_replay_gives_what_the_work_gives_in_memory_of_its_own() -> None:
    table, recording = (torch.arange(40.0).reshape(10, 4),), Recording(Played)
    found = []
    for turn in range(6):
        at = torch.tensor([turn, turn + 1])
        found.append((recording.sums(summed, (), table, at)[0][0], summed(table, at)[0][0]))
    assert isinstance(recording._made, Played)
    assert recording._made.plays == 6 - WARM
    assert all(torch.equal(a, b) for a, b in found), "a later replay has overwritten an earlier sum"


def test_threads_that_share_a_query_do_not_sum_each_others_rows() -> None:
    """The first thread is between copying its spots in and its replay when the second one comes."""
    inside, table = threading.Event(), (torch.arange(10.0).reshape(10, 1),)

    class Slow(Played):
        def __call__(self, spots: Sequence[Tensor]) -> Sums:
            for mine, given in zip(self.spots, spots, strict=True):
                mine.copy_(given)
            inside.set()
            second.join(0.3)  # would go on here without a lock
            return self.work(self.columns, *self.spots)

    recording, found = Recording(Slow), dict[str, float]()
    for _ in range(WARM):
        recording.sums(summed, (), table, torch.tensor([0, 0]))

    def ask(name: str, rows: list[int]) -> None:
        found[name] = float(recording.sums(summed, (), table, torch.tensor(rows))[0][0])

    def later() -> None:
        inside.wait(5)
        ask("second", [8, 9])

    second = threading.Thread(target=later)
    second.start()
    ask("first", [1, 2])
    second.join()
    assert found == {"first": 3.0, "second": 17.0}


def test_memory_that_moved_is_recorded_anew() -> None:
    table, weights, recording = (torch.ones(10, 4),), torch.ones(4), Recording(Played)

    def work(columns: Columns, at: Tensor) -> Sums:
        return [columns[0][at] @ weights], torch.tensor(True)

    for _ in range(4):
        recording.sums(work, (weights,), table, torch.tensor([1]))
    first = recording._made
    weights.mul_(2)  # in place: the graph reads it as it is
    assert recording.sums(work, (weights,), table, torch.tensor([1]))[0][0].item() == 8
    assert recording._made is first
    weights.data = 3 * torch.ones(4)
    assert recording.sums(work, (weights,), table, torch.tensor([1]))[0][0].item() == 12
    assert recording._made is None
    recording.sums(work, (weights,), table, torch.tensor([1, 2]))
    assert recording._seen == 1, "another number of spots is another graph"


def test_what_cannot_be_recorded_is_computed_plainly_and_said_once() -> None:
    def refuse(work: Work, columns: Columns, spots: Sequence[Tensor]) -> Played:
        raise RuntimeError("operation not permitted when stream is capturing")

    table, recording = (torch.ones(3, 2),), Recording(refuse)
    for _ in range(WARM):
        recording.sums(summed, (), table, torch.tensor([0]))
    with pytest.warns(UserWarning, match="not recorded as a CUDA graph"):
        recording.sums(summed, (), table, torch.tensor([0]))
    assert recording.sums(summed, (), table, torch.tensor([0, 1]))[0][0].tolist() == [2, 2]


@dataclass(frozen=True)
class Strange(FixedPrediction):
    """Somebody's own Z-step."""


def step_of(zstep: ZStep, bound: Bound, device: str = "cpu") -> Step:
    network = DenseNetwork((6, 5, 3), "tanh", source=SeededNoise(1)).to(device)
    return Step(network, loss("softmax"), zstep, Gradients(), bound)


def test_only_pieces_of_ours_are_recorded() -> None:
    mine = step_of(FixedPrediction(), JointClip(1.0))
    reads = mine.query().reads
    assert reads is not None
    assert {t.data_ptr() for t in reads} == {p.data_ptr() for p in mine.network.parameters()}
    assert mine.query() is mine.query()
    assert step_of(Strange(), JointClip(1.0)).query().reads is None
    assert ours(AdamCoordinates())
    network = DenseNetwork((3, 4, 2), source=SeededNoise(0))
    for name in ("part", "back", "forward", "write_gradient"):  # a method put in place of the class's
        assert ours(network)
        setattr(network.weight_layers[1], name, lambda *_: None)
        assert not ours(network), name
        delattr(network.weight_layers[1], name)
    assert not ours((1, type("Own", (torch.optim.Adam,), {})))


def rows(device: str) -> PrivateRows:
    draw = SeededNoise(5)
    x, labels = draw.normal((300, 6)).float(), (draw.uniform(300) * 3).long()
    return PrivateRows(x.to(device), torch.eye(3)[labels].to(device))


@needs_cuda
@pytest.mark.parametrize("bound", [JointClip(0.3), PerLayerClip(0.3), Normalise()], ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("zstep", [FixedPrediction(), AdamCoordinates(steps=4)], ids=lambda z: type(z).__name__)
@pytest.mark.parametrize("micro_batch", [None, 64])
def test_graphs_give_what_plain_steps_give(bound: Bound, zstep: ZStep, micro_batch: int | None) -> None:
    """A seeded training of 12 steps, recorded and not: the same weights and the same ledger."""

    def train(recorded: bool) -> tuple[list[Tensor], Ledger, Query]:
        step, ledger, table = step_of(zstep, bound, "cuda"), Ledger(), rows("cuda")
        if not recorded:
            object.__setattr__(step, "_reads", lambda: None)
        updater = OptimizerStep(0.05).start(step.network, 12)
        source, sampler = SeededNoise(3), PoissonSampler(300, 0.3, SeededNoise(4))
        for _ in range(12):
            batch = table.sample(sampler)
            answer = release(
                batch, step.query(), noise_multiplier=1.0, source=source, ledger=ledger, micro_batch=micro_batch
            )
            updater.apply(step.polynomials(answer))
        return [p.detach().clone() for p in step.network.parameters()], ledger, step.query()

    plain, plain_ledger, _ = train(False)
    played, ledger, query = train(True)
    assert query.recording._made is not None, "nothing was recorded"
    assert ledger.entries == plain_ledger.entries
    assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(plain, played, strict=True))


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_the_blocks_of_a_release_that_are_replayed_sum_to_what_plain_blocks_do(rate: float) -> None:
    """Without CUDA: a graph that writes every block's sums to one memory, five blocks a release, six releases.

    The second block is computed before the first one's sums are rounded. A replay that handed out its own memory would
    add the second block twice.
    """
    table = PrivateRows(torch.arange(150.0, dtype=torch.float64).unsqueeze(1) / 150)

    def sums(query: Query, seed: int) -> Tensor:
        batch = table.everything() if rate == 1.0 else table.sample(PoissonSampler(150, rate, SeededNoise(seed)))
        request = ReleaseRequest.of(batch, query, 1.0, SeededNoise(seed), 1.0, 32)
        spend = batch.spend

        def here(*given: Any) -> Any:
            batch.__dict__["device"] = torch.device("cpu")  # where the rows are
            return spend(*given)

        batch.__dict__.update(device=SimpleNamespace(type="cuda"), spend=here)
        (total,), on_grid = request.sums(SeededNoise(seed))
        assert on_grid
        return total

    parts, partitions = lambda x: [DensePart(0.9 * x)], (Partition("a", (1,), 1.0),)
    plain, replayed = Query("test", partitions, parts), Query("test", partitions, parts, reads=())
    replayed.recording.kind = Played
    for seed in range(6):
        assert torch.equal(sums(plain, seed), sums(replayed, seed))
    assert isinstance(replayed.recording._made, Played)
    assert replayed.recording._made.plays >= 20


@needs_cuda
def test_a_replay_checks_the_promise_and_draws_fresh_noise() -> None:
    size = torch.full((1,), 0.5, device="cuda")
    table, ledger = PrivateRows(torch.ones(50, 2, device="cuda")), Ledger()
    query = Query("test", (Partition("a", (2,), 1.0),), lambda x: [DensePart(x * size)], (size,))

    def ask() -> Tensor:
        return release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=ledger)["a"]

    found = [ask() for _ in range(6)]
    assert query.recording._made is not None
    assert len({tuple(one.tolist()) for one in found}) == 6
    size.fill_(0.9)  # sqrt(2) * 0.9 > 1: the promise is broken inside the graph
    with pytest.raises(BrokenPromiseError):
        ask()
    assert len(ledger) == 6


def test_first_order_too() -> None:
    step = step_of(FixedPrediction(), Normalise())
    assert Step(step.network, step.loss, step.zstep, FirstOrder(), step.bound).query().reads is not None


@needs_cuda
def test_a_training_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Graph] = []

    class Counted(Graph):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(Recording.__init__, "__defaults__", (Counted, *Recording.__init__.__defaults__[1:]))
    x, y = SeededNoise(5).normal((300, 6)).float(), torch.eye(3)[(SeededNoise(6).uniform(300) * 3).long()]
    network = DenseNetwork((6, 5, 3), "tanh", source=SeededNoise(1)).to("cuda")
    Trainer(network, loss("softmax"), Plan(300, 60, 12, 1.0, 1e-4)).fit(x, y)
    assert len(made) == 1


def test_copies_of_our_own_pieces_are_ours() -> None:
    assert ours(copy.deepcopy(step_of(FixedPrediction(), JointClip(1.0)).network))
    strange = replace(TANH, name="mine")
    assert not ours(DenseNetwork((6, 5, 3), strange, source=SeededNoise(1)))
