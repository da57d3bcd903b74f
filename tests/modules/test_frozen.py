"""A frozen module as a feature map: public blocks, on the user's word, saved as weights, refused if it mixes rows."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from zoo import CLASSES, CROSS_ENTROPY, chain, numbers, whole

from dpmac.checks import ArgumentError
from dpmac.mac import OptimizerStep
from dpmac.modules import FrozenModule, as_public
from dpmac.nets import DenseNetwork, loss
from dpmac.nets.feature_maps import Affine, Chain, load_feature_map, save_feature_map
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer
from dpmac.training.distributed_sync import plain

ROWS, WORDS, WIDTH = 64, 11, 6
PLAN = Plan(ROWS, 32, 3, 1.0, 1e-3)


class Words(nn.Module):
    """Tokens, 0 is padding -> a transformer layer -> the mean of the words."""

    def __init__(self, layers=1):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 8, batch_first=True), layers)

    def forward(self, tokens):
        there = (tokens != 0).unsqueeze(2)
        found = self.inner(self.table(tokens), src_key_padding_mask=tokens == 0) * there
        return found.sum(dim=1) / there.sum(dim=1).clamp(min=1)


def encoder():
    torch.manual_seed(1)
    return chain(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, WIDTH))


def sentences(rows=ROWS, seed=1):
    found = whole(rows, seed, WORDS, 7)
    found[:, 0] = found[:, 0].clamp(min=1)
    found[:, 4:] *= whole(rows, seed + 1, 2, 1)  # some are short
    return found


def network():
    return DenseNetwork([WIDTH, CLASSES], "tanh", source=SeededNoise(1))


def trained(feature_map, x, head=None, **more):
    """A run of a head of ours, or of a torch module."""
    y = whole(ROWS, 2, CLASSES)
    if head is None:
        trainer = Trainer.dp_sgd(network(), loss("softmax"), PLAN, JointClip(1.0), feature_map=feature_map, **more)
        return trainer.fit(x, torch.eye(CLASSES)[y])
    return Trainer.dp_sgd(head, CROSS_ENTROPY, PLAN, JointClip(1.0), feature_map=feature_map, **more).fit(x, y)


def test_it_is_the_module_in_evaluation_mode_without_gradients():
    module = encoder()
    feature_map = FrozenModule(module, "ImageNet").train()
    x = numbers(9, 1, 5)
    features = feature_map(x)
    assert features.dtype == torch.float64
    assert not features.requires_grad
    assert module.training  # the caller's own is left alone
    assert torch.equal(features, copy.deepcopy(module).eval()(x).double())
    assert feature_map.shape_after((5,)) == (WIDTH,)
    assert all(not p.requires_grad for p in feature_map.parameters())
    with torch.no_grad():
        module[0].weight.add_(1.0)
    assert torch.equal(feature_map(x), features)


@pytest.mark.parametrize("head", [None, "module"])
def test_a_head_behind_it_is_a_head_on_its_features(head):
    """Computed inside the table or beforehand: the same training, and raw rows in ``outputs``."""
    feature_map, x = FrozenModule(encoder(), "ImageNet"), numbers(ROWS, 1, 5)
    made = None if head is None else nn.Linear(WIDTH, CLASSES)
    more = {"source": SeededNoise(3), "wstep": OptimizerStep(0.1)}
    behind = trained(feature_map, x, made, **more)
    beforehand = trained(None, feature_map(x).float(), made, **more)
    for one, other in zip(behind.model.parameters(), beforehand.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(behind.outputs(x), beforehand.outputs(feature_map(x).float()))
    moved = [p for p in behind.model.parameters() if p.requires_grad]
    assert len(behind.ledger.entries[0].scales) <= len(moved)  # a partition for each of the head's, and for no other


@pytest.mark.parametrize("head", [None, "module"])
def test_the_statement_names_what_it_was_trained_on(head, tmp_path):
    made = None if head is None else nn.Linear(WIDTH, CLASSES)
    for feature_map in (FrozenModule(encoder(), "ImageNet."), Chain((Affine(), FrozenModule(encoder(), "ImageNet")))):
        run = trained(feature_map, numbers(ROWS, 1, 5), made)
        said = "which the user called public: a frozen module, Sequential, trained on ImageNet;"
        assert said in str(run.statement())
    folder = run.save(tmp_path / "run")
    assert said in (folder / "statement.txt").read_text()
    back = load_feature_map(folder / "front.safetensors", modules=[encoder()])
    assert torch.equal(back(numbers(9, 1, 5)), feature_map(numbers(9, 1, 5)))
    assert said in str(trained(back, numbers(ROWS, 1, 5), made).statement())


def test_features_are_computed_in_public_blocks_each_row_at_its_own_place(monkeypatch):
    """The module sees blocks of one shape, whether a row is there or not, and computes each row once."""
    feature_map, x = FrozenModule(encoder(), "ImageNet"), numbers(300, 1, 5)
    feature_map.shape_after((5,))
    seen = []
    forward = type(feature_map.module).forward
    monkeypatch.setattr(
        type(feature_map.module), "forward", lambda own, rows: seen.append(len(rows)) or forward(own, rows)
    )
    table = PrivateRows(x)
    whole_table, less = (one.behind(feature_map) for one in (table, table.without(7)))
    assert len({*seen} - {32}) == 1  # beside the check on made-up rows: one public size
    assert sum(size for size in seen if size != 32) >= 600
    mine, other = (next(iter(one._columns)) for one in (whole_table, less))
    rest = torch.arange(300) != 7
    assert torch.equal(mine[rest], other[rest])


def test_torch_may_not_pack_rows_without_their_padding(monkeypatch):
    """Where it does, the shape of a product, and so a row's rounding, depends on how long the other rows are."""
    torch.manual_seed(1)
    feature_map, rows = FrozenModule(Words(2), "Wikipedia", tokens=True), sentences(64)
    monkeypatch.setattr(torch, "_nested_tensor_from_mask", lambda *_, **__: pytest.fail("rows were packed"))
    others = rows.clone()
    others[1:, 1:] = 0
    assert torch.equal(feature_map(others)[0], feature_map(rows)[0])


@pytest.mark.parametrize("head", [None, "module"])
def test_tokens_and_tokens_that_there_are_not(head):
    torch.manual_seed(1)
    feature_map = FrozenModule(Words(), "Wikipedia", tokens=True)
    made = None if head is None else nn.Linear(WIDTH, CLASSES)
    x = sentences()
    assert feature_map.shape_after((7,)) == (WIDTH,)
    assert len(trained(feature_map, x, made).ledger) == 3
    x[3, 2] = WORDS  # a row that is no row, and stops nobody
    features = feature_map(x)
    assert features[3].isnan().all()
    assert features.isfinite().all(dim=1).sum() == ROWS - 1
    run = trained(feature_map, x, made, source=SeededNoise(1))
    assert all(p.isfinite().all() for p in run.model.parameters())


def test_a_module_that_private_rows_shaped_is_refused_without_its_ledger():
    x = numbers(ROWS, 1, 5)
    run = Trainer.dp_sgd(nn.Linear(5, CLASSES), CROSS_ENTROPY, PLAN, JointClip(1.0)).fit(x, whole(ROWS, 2, CLASSES))
    shaped = chain(run.model, nn.Linear(CLASSES, WIDTH))
    for feature_map in (FrozenModule(shaped, "nothing, really"), Chain((FrozenModule(shaped, "nothing, really"),))):
        for head in (None, nn.Linear(WIDTH, CLASSES)):
            with pytest.raises(ArgumentError, match=r"feature_map=.*private rows have shaped it"):
                trained(feature_map, x, head)
        said = str(trained(feature_map.as_public("rows of other people"), x).statement())
        assert "rows of other people" in said
        assert "trained on nothing, really" in said
    assert "other" in str(trained(FrozenModule(as_public(shaped, "other people"), "digits"), x).statement())
    plan = Plan(ROWS, 32, 3, 1.0, 1e-3, before=run.ledger.mechanisms())
    head = Trainer.dp_sgd(nn.Linear(WIDTH, CLASSES), CROSS_ENTROPY, plan, JointClip(1.0))
    head.feature_map = FrozenModule(shaped, "these rows")
    assert len(head.fit(x, whole(ROWS, 2, CLASSES), run.ledger).ledger) == 6


def test_a_file_needs_the_module_and_never_holds_code(tmp_path):
    path = tmp_path / "front.safetensors"
    feature_map = Chain((FrozenModule(encoder(), "ImageNet"), FrozenModule(nn.Linear(WIDTH, 2), "digits")))
    save_feature_map(feature_map, path)
    for given, said in (((), "modules=None"), ((nn.Linear(5, 2),), "modules='Linear'"), ((encoder(),), "a Linear")):
        with pytest.raises(ArgumentError, match=rf"{said}.*no code: give modules=\[|{said}.*"):
            load_feature_map(path, given)
    with pytest.raises(ValueError, match="does not hold a whole feature map"):
        load_feature_map(path, [chain(nn.Linear(5, 2)), nn.Linear(WIDTH, 2)])
    given = encoder()
    before = copy.deepcopy(given.state_dict())
    back = load_feature_map(path, [given, nn.Linear(WIDTH, 2)])
    assert torch.equal(back(numbers(9, 1, 5)), feature_map(numbers(9, 1, 5)))
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())


class Own(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.zeros(1))

    def forward(self, x):
        return self.function(self, x)


def kept(own, x):
    own.kept += x.detach().sum()
    return x


def drawing(own, x):
    return x + torch.rand(len(x), 1)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Own(lambda own, x: x - x.mean(dim=0)), "influence each other"),
        (Own(lambda own, x: x.cumsum(dim=0)), "influence each other"),
        (Own(lambda own, x: x / len(x)), "influence each other"),
        (Own(kept), "kept='a buffer'"),
        (Own(drawing), "is no function of the rows"),
        (Own(lambda own, x: F.dropout(x, 0.5)), "dropout"),
        (Own(lambda own, x: x.sum(dim=1)), r"it gave shape \(32,\) for 32 rows"),
        (Own(lambda own, x: x[1:]), r"it gave shape \(31, 5\) for 32 rows"),
        (Own(lambda own, x: (x, x)), "x='rows of shape .*AttributeError"),
        (nn.Linear(4, 3), "x='rows of shape .*for made-up ones it raised RuntimeError: mat1"),
    ],
)
def test_what_is_no_feature_map_is_refused_before_anything_is_spent(module, message):
    ledger = Ledger()
    trainer = Trainer.dp_sgd(
        network(), loss("softmax"), PLAN, JointClip(1.0), feature_map=FrozenModule(module, "digits")
    )
    with pytest.raises(ArgumentError, match=message):
        trainer.fit(numbers(ROWS, 1, 5), torch.eye(CLASSES)[whole(ROWS, 2, CLASSES)], ledger)
    assert len(ledger) == 0
    if hasattr(module, "kept"):
        assert float(trainer.feature_map.module.kept) == 0.0


def hooked():
    module = encoder()
    module[2].register_forward_hook(lambda *_: None)
    return module


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FrozenModule(encoder()[0].forward, "digits"), "module=.*give a torch module"),
        (lambda: FrozenModule(encoder(), "  "), "trained_on='  ': say what data"),
        (lambda: FrozenModule(encoder(), 3), "trained_on=3"),
        (lambda: FrozenModule(hooked(), "digits"), "2='Tanh with _forward_hooks'"),
        (lambda: FrozenModule(chain(nn.BatchNorm1d(5, track_running_stats=False)), "digits"), "0='BatchNorm1d'"),
        (lambda: FrozenModule(nn.LazyLinear(3), "digits"), "weight='UninitializedParameter'"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_row_that_makes_no_number_touches_no_other():
    feature_map, x = FrozenModule(encoder(), "ImageNet"), numbers(ROWS, 1, 5)
    clean = feature_map(x)
    for bad in (math.nan, math.inf, 1e30):
        wild = x.clone()
        wild[3] = bad
        rest = torch.arange(ROWS) != 3
        assert torch.equal(feature_map(wild)[rest], clean[rest])


def test_processes_compare_its_weights():
    one, other = encoder(), encoder()
    assert plain(FrozenModule(one, "ImageNet")) == plain(FrozenModule(other, "ImageNet"))
    with torch.no_grad():
        other[4].weight[0, 0] += 1e-3
    assert plain(FrozenModule(one, "ImageNet")) != plain(FrozenModule(other, "ImageNet"))
    assert plain(FrozenModule(one, "ImageNet")) != plain(FrozenModule(one, "digits"))
