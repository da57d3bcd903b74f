"""The network is a plain module: any torch user can write it, save it and load its weights."""

from __future__ import annotations

import copy
import json
import math
import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from askers import network_with
from conftest import make_images
from dpmac.checks import ArgumentError
from dpmac.nets import AvgPool2d, Conv2d, Dense, DenseNetwork, Flatten, MaxPool2d, Network, Unflatten
from dpmac.nets.layers import LAYERS
from dpmac.randomness import SeededNoise


def dense(sizes=(6, 8, 3), hidden="relu", seed=0):
    return DenseNetwork(sizes, hidden, source=SeededNoise(seed))


def stacked(*stack, shape=(1, 4, 4), seed=0):
    return Network(stack, input_shape=shape, source=SeededNoise(seed))


# --- what any torch user can do with it -------------------------------------------------------------------------------


def test_state_dict_loads_into_a_hand_written_sequential():
    ours = dense()
    theirs = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    theirs.load_state_dict(ours.state_dict())
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours(x), ours.plain()(x))
    assert type(ours.plain()) is nn.Sequential


def test_a_convolutional_stack_is_the_sequential_it_looks_like():
    problem = make_images()
    theirs = nn.Sequential(
        nn.Unflatten(1, (2, 7, 6)), nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.MaxPool2d((2, 2), stride=(2, 1)),
        nn.Conv2d(3, 4, (2, 3), stride=(1, 2), padding=(0, 1)), nn.Tanh(), nn.AvgPool2d((1, 2), stride=(1, 1)),
        nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3),
    ).double()  # fmt: skip
    theirs.load_state_dict(problem.network.state_dict())
    plain = problem.network.plain()
    for module in (theirs, plain):
        assert torch.allclose(module(problem.x), problem.network(problem.x), atol=1e-12)
    assert repr(plain) == repr(theirs)
    assert not any(type(module).__module__.startswith("dpmac") for module in plain.modules())
    assert {p.dtype for p in plain.parameters()} == {torch.float64}
    with torch.no_grad():
        next(plain.parameters()).add_(1.0)  # a copy: nothing of ours moves
    assert torch.equal(problem.network(problem.x), make_images().network(problem.x))


def test_nothing_is_hooked():
    for module in (*dense().modules(), *make_images().network.modules()):
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            assert not getattr(module, name)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
def test_a_copy_is_whole_and_apart(copied):
    """Its stages are made of its own weights: what trains them trains what it computes."""
    problem = make_images()
    twin = copied(problem.network)
    assert torch.equal(twin(problem.x), problem.network(problem.x))
    for stage in twin.stages:
        stage.layer.write(0 * stage.layer.matrix())
    assert not twin(problem.x).any()
    assert torch.equal(problem.network(problem.x), make_images().network(problem.x))


# --- initial weights --------------------------------------------------------------------------------------------------


def test_initial_weights_have_the_papers_law():
    """N(0, 2 / (fan in + fan out)); the fans of a filter count its window, as torch's do."""
    wide = stacked(Conv2d(20, 40, 5), Flatten(), Dense(40, 10), shape=(20, 5, 5)).weight_layers[0]
    for layer, fans in ((dense((300, 500, 10)).weight_layers[0], 800), (wide, 25 * 60)):
        weight = layer.weight.detach()
        assert sum(nn.init._calculate_fan_in_and_fan_out(weight)) == fans
        assert float(weight.std()) == pytest.approx(math.sqrt(2 / fans), rel=0.02)
        assert not layer.bias.any()
    first, again, other = (dense(seed=seed).weight_layers[0].weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_a_source_weights_come_from_the_operating_system():
    torch.manual_seed(0)
    first = DenseNetwork([3, 5, 2])
    torch.manual_seed(0)
    other = DenseNetwork([3, 5, 2])
    for one, two in zip(first.weight_layers, other.weight_layers, strict=True):
        assert one.weight.abs().sum() > 0
        assert not torch.equal(one.weight, two.weight)


def test_building_one_leaves_torchs_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    network = stacked(Conv2d(1, 2, 3), "relu", Flatten(), Dense(8, 2))
    network.plain()
    dense()
    assert torch.equal(torch.rand(3), expected)


# --- the stack as stages ----------------------------------------------------------------------------------------------


def test_stages_are_the_weight_layers_with_what_leads_to_them():
    network = make_images().network
    assert network.layer_names == ["layer 1", "layer 2", "layer 3", "layer 4"]
    kinds = [[carrier.kind for carrier in stage.carriers] for stage in network.stages]
    assert kinds == [["unflatten"], ["maxpool2d"], ["avgpool2d", "flatten"], []]
    assert [stage.activation.name for stage in network.stages] == ["tanh"] * 3 + ["identity"]
    assert [stage.shape for stage in network.stages] == [(3, 7, 6), (4, 2, 3), (5,), (3,)]
    assert network.sizes == (84, 126, 24, 5, 3)
    assert (network.input_shape, network.output_shape) == ((84,), (3,))


def test_a_stack_may_do_without_activations_and_hidden_layers():
    linear = dense((4, 2))
    assert list(linear.state_dict()) == ["0.weight", "0.bias"]
    assert linear.sizes == (4, 2)
    two = stacked(Dense(3, 2), Dense(2, 1), shape=(3,))
    assert [stage.activation.name for stage in two.stages] == ["identity"] * 2
    x = torch.eye(3)
    assert torch.equal(two(x), two.weight_layers[1](two.weight_layers[0](x)))


@pytest.mark.parametrize(
    ("stack", "shape", "message"),
    [
        ((Conv2d(1, 2, 3), MaxPool2d(2), "relu", Flatten(), Dense(2, 2)), (1, 4, 4), r"stack=.*relu.*before pooling"),
        (("relu", Dense(3, 2)), (3,), r"stack=.*relu.*right behind a weight layer"),
        ((Dense(3, 2), "relu", "tanh", Dense(2, 2)), (3,), r"stack=.*tanh.*right behind a weight layer"),
        ((Dense(3, 2), "relu"), (3,), r"stack=.*relu.*ends with a weight layer, such as Dense"),
        ((Conv2d(1, 2, 3), Flatten()), (1, 4, 4), r"stack=Flatten.*ends with a weight layer"),
        ((), (3,), r"stack=None.*ends with a weight layer"),
        ((Conv2d(1, 2, 3),), (1, 4, 4), r"stack=Conv2d.*end it with Dense"),
        ((Dense(3, 2), "relu", Dense(3, 2)), (3,), r"inputs=\(2,\): a dense layer of 3 inputs"),
        ((Conv2d(1, 2, 3), Dense(8, 2)), (1, 4, 4), r"inputs=\(2, 2, 2\): .*use Flatten\(\) before it"),
        ((Conv2d(3, 2, 3), Flatten(), Dense(8, 2)), (1, 4, 4), r"inputs=\(1, 4, 4\): these filters need 3 channels"),
        ((Conv2d(1, 2, 5), Flatten(), Dense(8, 2)), (1, 4, 4), r"inputs=\(1, 4, 4\): a window of 5 x 5 does not fit"),
        ((Conv2d(1, 2, 3), Flatten(), Dense(8, 2)), (16,), r"inputs=\(16,\): images are \(channels, height, width\)"),
        ((AvgPool2d(9), Flatten(), Dense(8, 2)), (1, 4, 4), r"inputs=\(1, 4, 4\): a window of 9 x 9 does not fit"),
        ((Unflatten((1, 4, 5)), Conv2d(1, 2, 3)), (16,), r"inputs=\(16,\): it takes rows of 20 numbers"),
        ((Unflatten((4, 4)), Flatten(), Dense(16, 2)), (4, 4), r"inputs=\(4, 4\): it takes rows of 16 numbers"),
        (("swish", Dense(3, 2)), (3,), "activation='swish': choose one of"),
        ((Dense(3, 2),), (3.5,), r"input_shape=3\.5: give whole numbers"),
    ],
)  # fmt: skip
def test_a_stack_that_cannot_be_is_named(stack, shape, message):
    with pytest.raises(ArgumentError, match=message):
        stacked(*stack, shape=shape)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dense((5,)), "sizes="),
        (lambda: dense((5, 0, 2)), "sizes=0"),
        (lambda: dense((5, 4, 3, 2), ["relu"]), "hidden="),
        (lambda: dense((5, 4, 3), "no"), "activation='no'"),
        (lambda: Dense(3, 0), "units=0"),
        (lambda: Dense(2.5, 3), "inputs=2.5"),
        (lambda: Conv2d(0, 1, 3), "channels=0"),
        (lambda: Conv2d(1, 1.5, 3), "units=1.5"),
        (lambda: Conv2d(1, 1, (3, 3, 3)), r"kernel_size=\(3, 3, 3\)"),
        (lambda: Conv2d(1, 1, 0), "kernel_size=0"),
        (lambda: Conv2d(1, 1, 3, stride=0), "stride=0"),
        (lambda: Conv2d(1, 1, 3, padding=(0, -1)), "padding=-1"),
        (lambda: MaxPool2d("two"), "kernel_size='two'"),
        (lambda: AvgPool2d(2, stride=(1, 0)), "stride=0"),
        (lambda: Unflatten((2, 0)), "shape=0"),
    ],
)
def test_bad_sizes_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "convolutional"])
def test_saving_and_loading(tmp_path, kind):
    """Loaded from the base class, by whoever has never seen the network; every kind of layer among them."""
    network = dense((5, 4, 3, 2), ["tanh", "elu"]) if kind == "dense" else make_images("gelu").network
    network.save(tmp_path / "model.safetensors")
    back = Network.load(tmp_path / "model.safetensors")
    x = torch.linspace(-2, 2, 3 * network.sizes[0], dtype=network.dtype).reshape(3, -1)
    assert torch.equal(network(x), back(x))
    assert (back.dtype, back.sizes, back.input_shape) == (network.dtype, network.sizes, network.input_shape)
    assert [stage.activation for stage in back.stages] == [stage.activation for stage in network.stages]
    assert repr(back.plain()) == repr(network.plain())


@pytest.mark.parametrize("kind", LAYERS)
def test_a_network_with_any_kind_of_layer_comes_back_from_disk(kind, tmp_path):
    network = network_with(kind)
    network.save(tmp_path / "network.safetensors")
    x = SeededNoise(3).normal((4, *network.input_shape)).float()
    assert torch.equal(Network.load(tmp_path / "network.safetensors")(x), network(x))


def test_a_file_that_is_not_ours_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"0.weight": torch.zeros(2)}, str(path))
    with pytest.raises(ValueError, match="not a dpmac network"):
        Network.load(path)
    header = {"format": "dpmac-network-2", "input_shape": [2], "stack": [{"layer": "attention"}]}
    save_file({"0.weight": torch.zeros(2)}, str(path), metadata={"dpmac": json.dumps(header)})
    with pytest.raises(ValueError, match="a layer of kind 'attention', which this version does not know"):
        Network.load(path)
