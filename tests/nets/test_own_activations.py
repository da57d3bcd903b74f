"""An activation of your own is as good as ours: it is kept by value, and never looked up by its name."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

from dpmac.checks import ArgumentError
from dpmac.mac import FixedPrediction, OptimizerStep
from dpmac.nets import ACTIVATIONS, Activation, Dense, DenseNetwork, Network, loss
from dpmac.nets.activations import TANH
from dpmac.privacy import Normalise, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer


class Doubled(nn.Module):
    def forward(self, u):
        return 2 * torch.tanh(u)


def f(u):
    return 2 * torch.tanh(u)


def df(u):
    return 2 * TANH.df(u)


def d2f(u):
    return 2 * TANH.d2f(u)


OWN = Activation("doubled", f, df, d2f, Doubled, slope_sup=2.0)
POSING = Activation("tanh", f, df, d2f, Doubled, slope_sup=2.0)  # not ours, whatever it calls itself
X = torch.linspace(-2, 2, 12).reshape(4, 3)


def network(act):
    return Network([Dense(3, 5), act, Dense(5, 2)], input_shape=(3,), source=SeededNoise(0))


def hidden(net):
    return net.stages[0].activation


@pytest.mark.parametrize("act", [OWN, POSING], ids=["own", "posing"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))], ids=["deepcopy", "pickle"])
def test_a_copy_keeps_it(act, copied):
    ours = network(act)
    twin = copied(ours)
    assert hidden(twin) == act
    assert hidden(twin).f is f
    assert torch.equal(twin(X), ours(X))
    assert torch.equal(twin.plain()(X), ours(X))
    assert not torch.equal(twin(X), network("tanh")(X))


@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda a: a.name)
def test_ours_come_back_equal_from_a_pickle(act):
    assert pickle.loads(pickle.dumps(act)) == copy.deepcopy(act) == act


@pytest.mark.parametrize("act", [OWN, POSING], ids=["own", "posing"])
def test_a_file_holds_its_name_alone_so_it_must_be_handed_in_again(act, tmp_path):
    path = tmp_path / "model.safetensors"
    network(act).save(path)
    with pytest.raises(
        ArgumentError, match=rf"activations='{act.name}': .*activation of your own.*activations=\[...\]"
    ):
        Network.load(path)
    with pytest.raises(ArgumentError, match="activation of your own"):
        Network.load(path, activations=[replace(act, name="another")])
    back = Network.load(path, activations=[act])
    assert hidden(back) is act
    assert torch.equal(back(X), network(act)(X))


def test_ours_are_never_replaced_by_one_that_is_handed_in(tmp_path):
    path = tmp_path / "model.safetensors"
    network("tanh").save(path)
    assert hidden(Network.load(path, activations=[POSING])) is TANH


def test_it_trains_like_any_other():
    """The trainer copies the network: the run's model computes and trains with the activation it was given."""
    y = torch.eye(2)[torch.arange(4) % 2]
    wstep = OptimizerStep(0.1, torch.optim.SGD)
    more = {"bound": Normalise(), "wstep": wstep, "source": SeededNoise(0)}
    plan = Plan(4, 4, 1, 0.0, 1e-5)
    start = network(POSING)
    run = Trainer(start, loss("softmax"), plan, FixedPrediction(), **more).fit(X, y)
    assert hidden(run.model) == POSING
    theirs = Trainer(network("tanh"), loss("softmax"), plan, FixedPrediction(), **more).fit(X, y)
    assert not torch.allclose(run.model.weight_layers[1].weight, theirs.model.weight_layers[1].weight)


def test_two_activations_of_one_name_cannot_be_saved(tmp_path):
    """The file holds names, and one of the two would come back as the other."""
    own = replace(TANH, f=torch.sin, df=torch.cos, third=None)
    network = DenseNetwork([3, 4, 4, 2], [own, TANH], source=SeededNoise(0))
    with pytest.raises(ArgumentError, match="activation='tanh': two different ones"):
        network.save(tmp_path / "network.safetensors")


def too_small(near, u):
    return 0.9 * TANH.third(near, u)


def too_flat(u):
    return 0.95 * TANH.d2f(u)


def too_slow(u):
    return 0.99 * TANH.df(u)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("third", {"third": too_small}),
        ("third", {"third": ACTIVATIONS["sigmoid"].third}),
        ("slope_sup", {"slope_sup": 0.99}),
        ("d2f", {"d2f": too_flat}),
        ("d2f", {"df": too_slow}),
    ],
)
def test_what_a_proof_rests_on_is_held_against_differences(name, fields):
    with pytest.raises(ArgumentError, match=rf"^{name}='tanh': it cannot be right near"):
        replace(TANH, **fields)
    replace(TANH, third=None, **{key: value for key, value in fields.items() if key != "third"})  # nothing rests on it
