"""Low-rank adapters: the module as it was until they are trained; nothing else is trained; merged into plain layers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from zoo import CLASSES, CROSS_ENTROPY, chain, numbers, whole

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import origin_of
from dpmac.kernels.built import BuiltPart
from dpmac.mac import OptimizerStep
from dpmac.modules import ModuleStep, Task, merge_lora, settled, with_lora
from dpmac.modules.adapters import AttentionAdapter, EmbeddingAdapter, LinearAdapter
from dpmac.privacy import JointClip, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer

WORDS, WIDTH, LENGTH, ROWS = 11, 6, 5, 40


class Encoder(nn.Module):
    """Words -> two transformer layers -> a head. The head is used twice, under two names."""

    def __init__(self, batch_first=True, **more):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=batch_first, **more)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.batch_first = batch_first
        self.head = nn.Linear(WIDTH, CLASSES)
        self.again = self.head

    def forward(self, tokens):
        x, padded = self.words(tokens), tokens == 0
        if not self.batch_first:
            x = x.transpose(0, 1)
        x = self.inner(x, src_key_padding_mask=padded)
        if not self.batch_first:
            x = x.transpose(0, 1)
        return self.head(x.mean(dim=1)) + self.again(x[:, 0])


class Crossed(nn.Module):
    """Attention of one sequence to another one, of another width, without biases."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, kdim=4, vdim=3, bias=False, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        found, weights = self.attention(x[:, :, :6], x[:, :, 6:10], x[:, :, 10:])
        return self.head(found.mean(dim=1)) + weights.mean(dim=(1, 2)).unsqueeze(1)


def tokens(rows=ROWS, seed=1):
    found = whole(rows, seed, WORDS, LENGTH)
    found[:, 0] = found[:, 0].clamp(min=1)  # no row of padding only
    return found


def made(kind):
    torch.manual_seed(1)
    if kind == "crossed":
        return Crossed(), numbers(ROWS, 1, LENGTH, 13), {}
    if kind == "words":
        return Encoder(), tokens(), {"layers": ["words", "head"]}
    return Encoder(batch_first=kind != "time first"), tokens(), {}


def moved(module):
    """The adapters as a training might leave them."""
    draw = SeededNoise(5)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * draw.normal(parameter.shape).to(parameter))
    return module


KINDS = ["linear", "time first", "words", "crossed"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_computes_what_the_module_does_and_merged_what_it_does(kind):
    module, x, more = made(kind)
    before = copy.deepcopy(module.state_dict())
    adapted = with_lora(module, 2, alpha=6.0, source=SeededNoise(1), **more)
    torch.testing.assert_close(adapted(x), module(x), atol=1e-5, rtol=1e-4)
    moved(adapted)
    assert (adapted(x) - module(x)).abs().max() > 0.05
    merged = merge_lora(adapted)
    assert list(merged.state_dict()) == list(module.state_dict())
    assert [type(part) for part in merged.modules()] == [type(part) for part in module.modules()]
    torch.testing.assert_close(merged(x), adapted(x), atol=1e-4, rtol=1e-4)
    with torch.no_grad():  # torch's quick way, which reads weights
        torch.testing.assert_close(adapted.eval()(x), merged.eval()(x), atol=1e-4, rtol=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_autograds_one_row_at_a_time_and_by_rules(kind):
    module, x, more = made(kind)
    adapted = moved(with_lora(module, 2, source=SeededNoise(1), **more))
    y = whole(ROWS, 2, CLASSES)
    task = Task(adapted, CROSS_ENTROPY)
    found = settled(task, (x[:1], y[:1]), SeededNoise(1))
    if kind != "time first":  # where rows come second, linear layers have no rule
        assert not found.whole
    parts = dict(zip(task.parameters, found.parts(x[:6], y[:6]), strict=True))
    for n in range(6):
        losses = CROSS_ENTROPY(adapted(x[n : n + 1]), y[n : n + 1])
        expected = torch.autograd.grad(losses.sum(), list(task.parameters.values()))
        largest = max(float(g.abs().max()) for g in expected)
        for name, gradient in zip(task.parameters, expected, strict=True):
            off = (parts[name].explicit()[n] - gradient.double()).abs().max()
            assert float(off) <= 1e-5 * largest, name


def test_only_adapters_are_trained_bounded_noised_and_in_the_ledger():
    module, x, _ = made("linear")
    adapted = with_lora(module, 2, layers=["self_attn", "linear2"], whole=["head"], source=SeededNoise(1))
    trained = {name for name, p in adapted.named_parameters() if p.requires_grad}
    sides = ("queries", "keys", "values", "outputs")
    inner = {f"inner.layers.{i}.self_attn.{side}.{m}" for i in (0, 1) for side in sides for m in ("down", "up")}
    inner |= {f"inner.layers.{i}.linear2.added.{m}" for i in (0, 1) for m in ("down", "up")}
    assert trained == inner | {"head.weight", "head.bias"}
    plan, y = Plan(ROWS, 20, 3, 1.0, 1e-3), whole(ROWS, 2, CLASSES)
    trainer = Trainer.dp_sgd(adapted, CROSS_ENTROPY, plan, JointClip(1.0), wstep=OptimizerStep(0.1))
    run = trainer.fit(x, y)
    for entry in run.ledger.entries:
        assert set(entry.scales) == trained
    after = dict(run.model.named_parameters())
    for name, parameter in adapted.named_parameters():
        assert torch.equal(parameter, after[name]) == (name not in trained), name
    step = ModuleStep(settled(Task(run.model, CROSS_ENTROPY), (x[:1], y[:1])), JointClip(0.01))
    assert {partition.name for partition in step.query().partitions} == trained
    with torch.no_grad():
        norms = torch.stack([part.norms() for part in step.bounded(x, y)]).norm(dim=0)
    assert 0.0098 < float(norms.max()) <= 0.01
    merged = merge_lora(run.model)
    torch.testing.assert_close(merged(x), run.model(x), atol=1e-4, rtol=1e-4)
    assert origin_of(merged) == origin_of(run.model) == origin_of(merged.inner.layers[1].linear2)
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        Trainer.dp_sgd(with_lora(merged, 2), CROSS_ENTROPY, plan, JointClip(1.0)).fit(x, y)


def test_layers_are_chosen_by_name_end_of_name_or_function():
    module, _, _ = made("linear")

    def chosen(layers=None, **more):
        found = with_lora(module, 2, layers=layers, **more).named_modules(remove_duplicate=False)
        kinds = (LinearAdapter, EmbeddingAdapter, AttentionAdapter)
        return {name for name, part in found if isinstance(part, kinds)}

    everywhere = {f"inner.layers.{i}.{name}" for i in (0, 1) for name in ("self_attn", "linear1", "linear2")}
    assert chosen() == everywhere | {"head", "again"}
    assert chosen(whole=["head"]) == everywhere
    assert chosen(["inner.layers.1.linear1"]) == {"inner.layers.1.linear1"}
    assert chosen(["linear1"]) == {"inner.layers.0.linear1", "inner.layers.1.linear1"}
    assert chosen(lambda name, layer: isinstance(layer, nn.Embedding)) == {"words"}
    shared = with_lora(module, 2)
    assert shared.head is shared.again
    assert isinstance(with_lora(nn.Linear(4, 3), 2), LinearAdapter)


def test_an_adapters_output_is_the_low_rank_product_times_alpha_over_rank():
    module = nn.Linear(5, 4)
    adapted = moved(with_lora(module, 2, alpha=3.0))
    expected = F.linear(numbers(7, 1, 5), module.weight + 1.5 * adapted.added.up @ adapted.added.down, module.bias)
    torch.testing.assert_close(adapted(numbers(7, 1, 5)), expected)
    assert torch.equal(with_lora(module, 2, source=SeededNoise(3)).added.down, seeded(module).added.down)
    assert not torch.equal(with_lora(module, 2).added.down, with_lora(module, 2).added.down)


def seeded(module):
    torch.manual_seed(99)  # torch's own generator has no say
    return with_lora(module, 2, source=SeededNoise(3))


def test_a_padding_token_and_a_tied_weight_stay_as_they_are():
    module, _, more = made("words")
    adapted = moved(with_lora(module, 2, **more))
    padding = torch.zeros(1, LENGTH, dtype=torch.long)
    with torch.no_grad():
        adapted.words.table[0] = 0.0  # as it starts, and as it stays: the gradient of a padding token is zero
    assert torch.equal(adapted.words(padding), module.words(padding))
    tied = chain(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    merged = merge_lora(moved(with_lora(tied, 2, layers=["0"])))
    assert torch.equal(merged[1].weight, tied[1].weight)
    assert not torch.equal(merged[0].weight, tied[0].weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 0}, "rank=0"),
        ({"rank": 7}, r"rank=7: a weight of shape \(.*\) has rank 6 at most"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"layers": "head"}, r"layers='head': give a list of names: layers=\['head'\]"),
        ({"layers": ["heads"]}, "layers='heads': no layer has that name: there are .*inner.layers.0.linear1"),
        ({"layers": ["norm1"]}, r"layers='inner.layers.0.norm1 \(LayerNorm\)': adapters are for Linear"),
        ({"layers": lambda *_: False}, "no layer was chosen"),
        ({"whole": ["tail"]}, "whole='tail': there is no such module; there are words, inner, head"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ArgumentError, match=message):
        with_lora(made("linear")[0], **{"layers": ["self_attn"], "rank": 2, **change})


def test_what_cannot_have_adapters_or_has_none_is_refused():
    with pytest.raises(ArgumentError, match="it has no adapters"):
        merge_lora(nn.Linear(3, 2))
    with pytest.raises(ArgumentError, match="max_norm"):
        with_lora(nn.Embedding(5, 3, max_norm=1.0), 2, layers=lambda *_: True)
    with pytest.raises(ArgumentError, match="add_bias_kv"):
        with_lora(nn.MultiheadAttention(4, 2, add_bias_kv=True), 2)


class LikePeft(nn.Module):
    """The shape of ``peft``'s wrapped layers: a base layer, and dictionaries of plain layers."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, bias=False)})
        self.lora_dropout = nn.ModuleDict({"default": nn.Identity()})

    def forward(self, x):
        return self.base_layer(x) + 0.5 * self.lora_B["default"](
            self.lora_A["default"](self.lora_dropout["default"](x))
        )


def test_layers_wrapped_by_others_go_through_the_same_taps():
    module = chain(LikePeft(nn.Linear(5, 4)), nn.Tanh(), LikePeft(nn.Linear(4, CLASSES)))
    x, y = numbers(ROWS, 1, 5), whole(ROWS, 2, CLASSES)
    found = settled(Task(module, CROSS_ENTROPY), (x[:1], y[:1]))
    assert not found.whole
    with torch.no_grad():
        assert not any(isinstance(part, BuiltPart) for part in found.parts(x, y))
    run = Trainer.dp_sgd(module, CROSS_ENTROPY, Plan(ROWS, 20, 2, 1.0, 1e-3), JointClip(1.0)).fit(x, y)
    assert set(run.ledger.entries[0].scales) == {f"{i}.lora_{side}.default.weight" for i in (0, 2) for side in "AB"}
