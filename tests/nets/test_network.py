"""The network is a plain module: any torch user can load its weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dpmac.checks import ArgumentError
from dpmac.nets import DenseNetwork
from dpmac.privacy import SeededNoise


def network(sizes=(6, 8, 3), hidden="relu", seed=0):
    return DenseNetwork(sizes, hidden, source=SeededNoise(seed))


def test_state_dict_loads_into_a_hand_written_sequential():
    ours = network()
    theirs = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    theirs.load_state_dict(ours.state_dict())
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours(x), ours.plain()(x))
    assert type(ours.plain()) is nn.Sequential


def test_nothing_is_hooked():
    for module in network().modules():
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            assert not getattr(module, name)


def test_saving_and_loading(tmp_path):
    ours = network((5, 4, 3, 2), ["tanh", "elu"])
    ours.save(tmp_path / "model.safetensors")
    back = DenseNetwork.load(tmp_path / "model.safetensors")
    x = torch.linspace(-2, 2, 15).reshape(3, 5)
    assert torch.equal(ours(x), back(x))
    assert [a.name for a in back.activations] == ["tanh", "elu"]


def test_a_file_that_is_not_ours_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"0.weight": torch.zeros(2)}, str(tmp_path / "x.safetensors"))
    with pytest.raises(ValueError, match="not a dpmac network"):
        DenseNetwork.load(tmp_path / "x.safetensors")


def test_initial_weights_have_the_papers_law():
    ours = network((300, 500, 10))
    weight = ours.linears[0].weight.detach()
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / 800), rel=0.01)
    assert not ours.linears[0].bias.any()
    assert torch.equal(network(seed=1).linears[0].weight, network(seed=1).linears[0].weight)
    assert not torch.equal(network(seed=1).linears[0].weight, network(seed=2).linears[0].weight)


def test_building_one_leaves_torchs_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    network()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("sizes", "hidden", "message"),
    [
        ((5,), "relu", "sizes="),
        ((5, 0, 2), "relu", "sizes=0"),
        ((5, 4, 3, 2), ["relu"], "hidden="),
        ((5, 4, 3), "no", "activation='no'"),
    ],
)
def test_bad_shapes_are_named(sizes, hidden, message):
    with pytest.raises(ArgumentError, match=message):
        network(sizes, hidden)


def test_a_linear_model_has_no_hidden_layer():
    ours = network((4, 2))
    assert list(ours.state_dict()) == ["0.weight", "0.bias"]
