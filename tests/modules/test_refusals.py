"""Modules and losses that cannot be: refused before anything is spent, by name, and with what to do instead."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from zoo import CLASSES, CROSS_ENTROPY, Recurrent, chain, numbers, squared, whole

from dpmac.checks import ArgumentError
from dpmac.mac import FixedPrediction, GaussNewton, RidgeSolve, SecondOrder
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows
from dpmac.training import Trainer

X, Y = numbers(40, 1, 5), whole(40, 2, CLASSES)
IMAGES = numbers(40, 1, 2, 6, 6)
WORDS = whole(40, 3, 11, 6)
PLAN = Plan(40, 10, 2, 1.0, 1e-3)


def fit(module, x=X, y=Y, loss=CROSS_ENTROPY, **more):
    ledger = Ledger()
    try:
        return Trainer.dp_sgd(module, loss, PLAN, more.pop("bound", JointClip(1.0)), **more).fit(x, y, ledger)
    finally:
        if more.get("spent") is None:
            fit.spent = len(ledger)


def refused(module, match, x=X, y=Y, loss=CROSS_ENTROPY, **more):
    with pytest.raises(ArgumentError, match=match):
        fit(module, x, y, loss, **more)
    assert fit.spent == 0


class Centred(nn.Module):
    """Takes the batch's mean away."""

    def __init__(self, kind="mean"):
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(5, CLASSES)

    def forward(self, x):
        x = self.layer(x)
        if self.kind == "mean":
            return x - x.mean(dim=0)
        if self.kind == "largest":
            return x / x.abs().amax()
        if self.kind == "sorted":
            return x.sort(dim=0).values
        return x.cumsum(dim=0)


class Keeping(nn.Module):
    """Keeps a running mean of what it sees."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, CLASSES)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen.lerp_(x.detach().mean(dim=0), 0.1)
        return self.layer(x)


class Own(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer, self.spare, self._forward = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES), forward

    def forward(self, x):
        return self._forward(self, x)


def hooked():
    module = chain(nn.Linear(5, CLASSES))
    module[0].register_forward_hook(lambda *_: None)
    return module


def test_layers_that_mix_or_keep_rows_are_named_with_a_replacement():
    refused(chain(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES)), r"^1='BatchNorm1d'.*GroupNorm")
    images = chain(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, CLASSES))
    refused(images, r"^1='BatchNorm2d'.*InstanceNorm", IMAGES)
    kept = chain(nn.InstanceNorm2d(2, track_running_stats=True), nn.Flatten(), nn.Linear(72, CLASSES))
    refused(kept, r"^0='InstanceNorm2d'.*track_running_stats=False", IMAGES)
    images[1].eval()  # its statistics are then public constants
    assert len(fit(images, IMAGES).ledger) == 2


@pytest.mark.parametrize("kind", ["mean", "largest", "sorted", "running"])
def test_a_module_that_mixes_rows_is_refused(kind):
    refused(Centred(kind), "influence each other|each row alone")


def test_a_loss_that_mixes_rows_is_refused():
    mixing = lambda outputs, targets: (lambda found: found - found.mean())(CROSS_ENTROPY(outputs, targets))  # noqa: E731
    refused(nn.Linear(5, CLASSES), "influence each other", loss=mixing)


@pytest.mark.parametrize(
    ("loss", "match"),
    [
        (F.cross_entropy, r"loss=.shape \(\) for 5 rows.*reduction='none'"),
        (lambda o, t: (o - 1.0).square(), r"shape \(5, 3\).*average them"),
        (lambda o, t: 3.0, "loss='float"),
        (lambda o, t: o.detach().sum(dim=1), "does not depend on any trained parameter"),
    ],
)
def test_a_loss_must_give_one_number_a_row(loss, match):
    refused(nn.Linear(5, CLASSES), match, loss=loss)


def test_what_draws_by_itself_is_refused_unless_it_is_off():
    refused(chain(nn.Linear(5, 4), nn.Dropout(0.2), nn.Linear(4, CLASSES)), r"^1='Dropout'.*0.2.*eval")
    refused(Own(lambda own, x: own.layer(F.dropout(x, 0.3)) + own.spare(x)), "dropout=0.3")
    attention = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.1, batch_first=True)
    refused(chain(nn.Embedding(11, 6), attention, nn.Flatten(), nn.Linear(36, CLASSES)), "^1.self_attn=", WORDS)
    refused(Recurrent(num_layers=2, dropout=0.5), "^layer='LSTM'", WORDS)
    assert len(fit(chain(nn.Linear(5, 4), nn.Dropout(0.0), nn.Linear(4, CLASSES))).ledger) == 2
    assert len(fit(chain(nn.Linear(5, 4), nn.Dropout(0.2).eval(), nn.Linear(4, CLASSES))).ledger) == 2


def test_hooks_and_buffers_that_change_are_refused():
    refused(hooked(), "^0='Linear with _forward_hooks'.*remove the hook")
    refused(Keeping(), "^seen='a buffer'.*private rows")
    torch.manual_seed(1)  # for one start in five the power iteration is at its end already, and no buffer changes
    spectral = chain(nn.utils.parametrizations.spectral_norm(nn.Linear(5, CLASSES)))
    refused(spectral, "a buffer")
    parameter = nn.Linear(5, CLASSES)
    parameter.weight.register_hook(lambda g: g)
    refused(parameter, "^weight='a parameter with a hook'")


def test_parameters_that_cannot_be_trained_are_named():
    refused(Own(lambda own, x: own.layer(x)), r"^spare.weight=.*requires_grad_\(False\)")
    refused(nn.LazyLinear(CLASSES), "^weight='UninitializedParameter'")
    refused(nn.Linear(5, CLASSES).half(), "^weight=torch.float16.*float")
    refused(nn.Linear(5, CLASSES).bfloat16(), "^weight=torch.bfloat16")
    refused(nn.Linear(5, CLASSES).requires_grad_(False), "no parameter to train")
    mixed = chain(nn.Linear(5, 4), nn.Linear(4, CLASSES).double())
    refused(mixed, "one precision")


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_embeddings_that_depend_on_the_batch_are_refused(option):
    module = chain(nn.Embedding(11, 3, **option), nn.Flatten(), nn.Linear(18, CLASSES))
    refused(module, f"^{next(iter(option))}=.*'0.weight'", WORDS)


def test_a_frozen_embedding_that_changes_by_what_the_batch_holds_is_refused():
    module = chain(nn.Embedding(11, 3, max_norm=1.0).requires_grad_(False), nn.Flatten(), nn.Linear(18, CLASSES))
    refused(module, "^max_norm=1.0: a frozen embedding", WORDS)


def test_a_module_that_changes_its_inputs_is_refused():
    refused(Own(lambda own, x: own.layer(x.mul_(2.0)) + own.spare(x)), "changes its inputs in place")


def test_attention_and_sequences_that_are_not_handled_are_refused():
    class Attention(nn.Module):
        def __init__(self, **more):
            super().__init__()
            self.inner, self.out = nn.MultiheadAttention(6, 2, batch_first=True, **more), nn.Linear(6, CLASSES)

        def forward(self, x):
            return self.out(self.inner(x, x, x)[0].mean(dim=1))

    x = numbers(40, 1, 4, 6)
    for more in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        refused(Attention(**more), "^inner='MultiheadAttention'", x)

    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.LSTM(6, 4, batch_first=True), nn.Linear(4, CLASSES)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, [4] * len(x), batch_first=True)
            return self.out(self.inner(packed)[1][0][-1])

    refused(Packed(), "PackedSequence", x)


def test_what_raises_for_made_up_rows_is_said_with_its_reason():
    refused(nn.Linear(4, CLASSES), "^module='Linear': for made-up rows.*RuntimeError: mat1")


def test_pieces_of_another_method_are_refused():
    module = nn.Linear(5, CLASSES)
    refused(module, r"the feature map 'affine' needs rows of shape \(4,\)", feature_map=Affine(torch.zeros(4)))
    refused(module, "wstep=.*OptimizerStep", wstep=RidgeSolve())
    refused(module, "loss=3", loss=3)
    for name, piece in (("zstep", GaussNewton()), ("expansion", SecondOrder())):
        pieces = {"zstep": FixedPrediction(), "bound": JointClip(1.0), name: piece}
        with pytest.raises(ArgumentError, match=f"{name}=.*Trainer.dp_sgd"):
            Trainer(module, CROSS_ENTROPY, PLAN, **pieces).fit(X, Y)


def test_rows_that_do_not_fit_are_refused():
    module = nn.Linear(5, CLASSES)
    refused(module, "x=.columns of", X, Y[:-1])
    refused(module, "x='list'", [], Y)
    refused(module, "x='tuple'", (X, 3), Y)
    refused(module, "y=None.*several inputs", (X, X), None)
    refused(module, "y='list'", X, [1, 2])
    refused(module, "plan was made for", X[:-1], Y[:-1])
    refused(module, "holds its targets already", PrivateRows(X, Y), Y)
    refused(nn.Linear(5, 5), "wrong_name|unexpected keyword", {"wrong_name": X}, X, squared)
