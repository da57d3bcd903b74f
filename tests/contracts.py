"""One suite for each kind of piece, run by every member: row independence, the promise kept, equality with an oracle.

Members are found in the rooms' own registries (LAYERS, FEATURE_MAPS, Z_STEPS, BOUNDS, EXPANSIONS) and among the askers,
so a new piece is under contract the moment it is listed there.
"""

from __future__ import annotations

import copy
import math
from functools import cache

import pytest
import torch
from torch.func import grad, vjp

from askers import ASKERS, EXPANSIONS, ROWS, convolutional, dense, labels, numbers
from curvatures import assert_curvature_is_autograds
from dpmac.bounds.clipping import joint_norms
from dpmac.mac import Z_STEPS, FixedPrediction
from dpmac.mac.coordinates import Coordinates, problems_of
from dpmac.modules import FrozenModule
from dpmac.nets import loss
from dpmac.nets.feature_maps import FEATURE_MAPS, load_feature_map, save_feature_map
from dpmac.nets.layers import LAYERS, WeightLayer
from dpmac.privacy import BOUNDS, BuiltPart, DensePart, GramPart, OuterPart, Partition, PositionPart, TokenPart
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

OUTRAGES = (0.0, 1e30, -1e-30, math.inf, math.nan)


def flat(result):
    """All tensors of a result, in order: of parts, coordinates, tensors, and lists of them."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, OuterPart):
        return [result.left, result.right, *([] if result.factors is None else [result.factors])]
    if isinstance(result, PositionPart):
        return [result.left, result.right]
    if isinstance(result, BuiltPart):
        return [result.values, *([] if result.factors is None else [result.factors])]
    if isinstance(result, TokenPart):
        return [result.tokens, result.vectors, *([] if result.factors is None else [result.factors])]
    if isinstance(result, GramPart):
        return [result.weights, result.inputs]
    if isinstance(result, DensePart):
        return [result.values]
    if isinstance(result, Coordinates):
        return [*result.inputs, *result.targets, *(result.pre_activations or ()), *(result.slopes or ())]
    return [tensor for item in result for tensor in flat(item)]


def same_bits(a, b):
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a, 7.0), torch.nan_to_num(b, 7.0))


def assert_rows_are_alone(function, *columns, outrages=OUTRAGES):
    """Changing one row, outrageously, changes no bit of any other row of the result; and the row itself does count."""
    reference = flat(function(*columns))
    assert all(len(tensor) == len(columns[0]) for tensor in reference)
    others = torch.arange(len(columns[0])) != 1
    for outrage in outrages:
        changed = [column.clone() for column in columns]
        changed[0][1] = outrage
        for column in changed[1:]:  # a target of another row, as odd as targets may be
            column[1] = column[0]
        for before, after in zip(reference, flat(function(*changed)), strict=True):
            assert same_bits(before[others], after[others])


def memory_of(module):
    """What a module holds: its tensors, and the names of everything else. A piece that remembers rows shows here."""
    tensors = {name: value.clone() for name, value in module.state_dict().items()}
    return tensors, {name: sorted(vars(part)) for name, part in module.named_modules()}


def assert_same_memory(before, module):
    tensors, names = memory_of(module)
    assert names == before[1]
    assert all(torch.equal(tensors[name], value) for name, value in before[0].items())


# --- layers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=LAYERS, scope="module")
def layer(request):
    made, shape = LAYERS[request.param].sample()
    made = made.double()
    if isinstance(made, WeightLayer):
        made.draw(SeededNoise(4))
        with torch.no_grad():
            made.bias.copy_(SeededNoise(5).normal(made.bias.shape))
    return made, numbers(5, *shape).double()


def test_layer_rows_are_alone(layer):
    made, x = layer
    slopes = SeededNoise(6).normal(made(x).shape)
    with torch.no_grad():
        assert_rows_are_alone(lambda rows: [made(rows), made.back(slopes, rows)], x, outrages=OUTRAGES[:3])
        if isinstance(made, WeightLayer):
            assert_rows_are_alone(lambda rows: made.part(slopes, rows), x)


def test_layer_shape_and_plain_torch(layer):
    made, x = layer
    assert tuple(made(x).shape[1:]) == made.shape_after(tuple(x.shape[1:]))
    plain = made.plain()  # with the layer's own weights: never with memory that someone else has left
    assert list(plain.state_dict()) == list(made.state_dict())
    assert torch.allclose(plain.double()(x), made(x), atol=1e-6)
    again = LAYERS[made.kind](**made.config()).double()
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(x), made(x))


def test_layer_back_is_autograds(layer):
    made, x = layer
    slopes = SeededNoise(6).normal(made(x).shape)
    for n in range(len(x)):
        _, pull = vjp(lambda row: made(row.unsqueeze(0)).squeeze(0), x[n])
        assert torch.allclose(made.back(slopes, x)[n], pull(slopes[n])[0], atol=1e-12)


def test_layer_part_is_one_examples_gradient(layer):
    made, x = layer
    if not isinstance(made, WeightLayer):
        return
    slopes = SeededNoise(6).normal(made(x).shape)
    part = made.part(slopes, x)
    norms = part.norms()
    for n in range(len(x)):
        alone = copy.deepcopy(made)
        (alone(x[n : n + 1]) * slopes[n : n + 1]).sum().backward()
        share = torch.cat([alone.weight.grad.flatten(1), alone.bias.grad[:, None]], dim=1)
        only = part.scaled((torch.arange(len(x)) == n).double())
        assert torch.allclose(only.total(), share, atol=1e-12)
        assert float(share.norm()) <= float(norms[n]) * (1 + 1e-12)
        assert float(norms[n]) <= float(share.norm()) * (1 + 1e-6) + 1e-9
    assert part.shape == made.matrix_shape


def test_layer_matrix_can_be_written_back(layer):
    made, _ = layer
    if not isinstance(made, WeightLayer):
        return
    other = LAYERS[made.kind](**made.config()).double()
    other.write(made.matrix())
    assert torch.equal(other.matrix(), made.matrix())
    other.write_gradient(made.matrix())
    assert torch.equal(other.weight.grad, made.weight)
    assert torch.equal(other.bias.grad, made.bias)


# --- feature maps -----------------------------------------------------------------------------------------------------


def loaded_feature_map(path, feature_map):
    """From a file; the modules that it needs have other weights, which must not matter."""
    needed = [copy.deepcopy(part.module) for part in feature_map.modules() if isinstance(part, FrozenModule)]
    for module in needed:
        for parameter in module.parameters():
            parameter.data.fill_(7.0)
    return load_feature_map(path, needed)


@pytest.mark.parametrize("kind", FEATURE_MAPS)
def test_feature_map(kind, tmp_path):
    """Rows alone, in double precision, of the stated shape; it learns nothing, and comes back from disk as it was."""
    feature_map, shape = FEATURE_MAPS[kind].sample()
    rows = numbers(ROWS, *shape)
    before = memory_of(feature_map)
    result = feature_map(rows)
    assert_same_memory(before, feature_map)
    fresh, _ = FEATURE_MAPS[kind].sample()
    fresh(100 * rows[5:9])  # whatever it saw first, it is the same map
    assert torch.equal(fresh(rows), result)
    assert result.dtype == torch.float64
    assert tuple(result.shape) == (ROWS, *feature_map.shape_after(shape))
    assert_rows_are_alone(feature_map, rows)
    assert not any(parameter.requires_grad for parameter in feature_map.parameters())
    assert not result.requires_grad
    if kind != FrozenModule.kind:
        assert not list(feature_map.parameters())
    save_feature_map(feature_map, tmp_path / "front.safetensors")
    for other in (loaded_feature_map(tmp_path / "front.safetensors", feature_map), copy.deepcopy(feature_map)):
        assert torch.equal(other(rows), result)
    one_at_a_time = torch.cat([feature_map(row.unsqueeze(0)) for row in rows])
    assert torch.allclose(one_at_a_time, result, atol=1e-12)


# --- Z-steps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize("name", Z_STEPS)
def test_z_step(name, make):
    """Rows alone, bit for bit, inputs untouched; the same as one example at a time; an empty batch is no trouble."""
    network, g, zstep = make().double(), loss("softmax"), Z_STEPS[name]
    x, y = numbers(ROWS, *network.input_shape).double(), labels(ROWS, 4).double()
    kept, before = x.clone(), memory_of(network)
    found = zstep.solve(network, g, x, y)
    assert torch.equal(x, kept)
    assert_same_memory(before, network)
    shapes = [stage.shape for stage in network.stages]
    assert [tuple(target.shape[1:]) for target in found.targets] == shapes
    assert [tuple(z.shape[1:]) for z in found.inputs] == [network.input_shape, *shapes[:-1]]
    assert_rows_are_alone(lambda rows, targets: zstep.solve(network, g, rows, targets), x, y)
    for n in range(3):
        alone = zstep.solve(network, g, x[n : n + 1], y[n : n + 1])
        for one, all_of_them in zip(flat(alone), flat(found), strict=True):
            assert torch.allclose(one[0], all_of_them[n], atol=1e-9)
    assert all(len(tensor) == 0 for tensor in flat(zstep.solve(network, g, x[:0], y[:0])))
    assert all(p.grad is None for p in network.parameters())


# --- expansions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPANSIONS)
def test_expansion(name):
    """Parts of the promised shapes, rows alone; and the polynomial's derivatives are autograd's of the losses."""
    expansion, network, g = EXPANSIONS[name], dense("tanh").double(), loss("softmax")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.2)  # coordinates of norm below 1: no projection bends them
    x, y = 0.1 * numbers(ROWS, 5).double(), labels(ROWS, 4).double()
    found = FixedPrediction(0.1).solve(network, g, x, y)
    assert all(float(z.norm(dim=1).max()) < 1 for z in (*found.inputs, *found.targets[:-1]))
    partitions, parts = expansion.partitions(network, g), expansion.parts(network, g, found)
    assert [p.shape for p in partitions] == [part.shape for part in parts]
    assert all(p.scale is None for p in partitions)

    def asked(rows, targets):
        return expansion.parts(network, g, FixedPrediction().solve(network, g, rows, targets))

    assert_rows_are_alone(asked, x, y)
    answer = {p.name: part.total() for p, part in zip(partitions, parts, strict=True)}
    polynomials = expansion.polynomials(network, g, answer)
    for problem, z, target, polynomial in zip(
        problems_of(network, g), found.inputs, found.targets, polynomials, strict=True
    ):
        layer = problem.stage.layer

        def objective(matrix, problem=problem, z=z, target=target):
            u = z @ matrix[:, :-1].T + matrix[:, -1]
            return problem.loss.weight * problem.loss.value(u, target).sum()

        exact = grad(objective)(layer.matrix())
        assert torch.allclose(polynomial.gradient(layer.matrix()), exact, atol=1e-9)
        assert_curvature_is_autograds(polynomial.curvature, problem, objective, z, target)


# --- bounds ---------------------------------------------------------------------------------------------------------


def wild_parts():
    """Shares of all sizes: tiny, huge, zero, not finite; of every kind of part."""
    sizes = torch.tensor([1.0, 0.0, 1e-200, 1e-30, 1e-3, 1e3, 1e30, 1e150, math.inf, math.nan], dtype=torch.float64)
    left, right = SeededNoise(1).normal((10, 3)) * sizes[:, None], SeededNoise(2).normal((10, 4))
    several = SeededNoise(3).normal((10, 5, 3)) * sizes[:, None, None]
    return [
        OuterPart(left, right),
        GramPart(left, right),
        PositionPart(several, SeededNoise(4).normal((10, 5, 4))),
        DensePart(left * 1e-3),
    ]


@pytest.mark.parametrize("name", BOUNDS)
def test_bound(name):
    """Every row keeps the promise whatever its shares are, by itself; shares that are not finite are gone."""
    bound, parts = BOUNDS[name], wild_parts()
    sensitivities = [1e151, 1e152, 1e153, 1e148] if name == "analytic" else [None] * 4
    asked = [
        Partition(f"p{i}", part.shape, sensitivity=s)
        for i, (part, s) in enumerate(zip(parts, sensitivities, strict=True))
    ]
    promised = bound.promise(asked)
    assert [p.name for p in promised[:4]] == [p.name for p in asked]
    scales = [p.scale for p in promised]
    bounded = bound.apply(parts)
    assert [part.shape for part in bounded] == [p.shape for p in promised]
    if name != "none":
        norms = joint_norms(bounded, scales)
        assert bool((norms <= 1 - SLACK / 2).all())
        assert all(bool((part.norms()[8:] == 0).all()) for part in bounded[:4])
        assert all(bool(torch.isfinite(part.total()).all()) for part in bounded)
    for n in range(8):
        keep = (torch.arange(10) == n).double()
        alone = bound.apply([part.scaled(keep) for part in parts])
        for one, together in zip(alone[:4], bounded[:4], strict=True):
            assert same_bits(one.scaled(keep).total(), together.scaled(keep).total())
    learned = bound.learned({p.name: torch.zeros(p.shape, dtype=torch.float64) for p in promised})
    assert type(learned) is type(bound)


# --- queries --------------------------------------------------------------------------------------------------------


@cache
def asked_by(name):
    return ASKERS[name]()


@pytest.mark.parametrize("name", ASKERS)
def test_query(name):
    """Of every asker: parts of the promised shapes, rows alone, and the promise kept by rows of any kind."""
    query, columns = asked_by(name).query, asked_by(name).columns
    parts = query.parts(*columns)
    assert [part.shape for part in parts] == [p.shape for p in query.partitions]
    assert_rows_are_alone(query.parts, *columns)
    scales = [p.scale for p in query.partitions]
    if not all(math.isinf(scale) for scale in scales):
        for size in (1.0, 1e-20, 1e3, 1e30, math.nan):
            wild = query.parts(size * columns[0], *columns[1:])
            assert bool((joint_norms(wild, scales) <= 1 - SLACK / 2).all())
