"""Sums in single precision over persons whose rows lie side by side: what rounding may do when one of them goes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from dpmac.kernels import chunks as chunking
from dpmac.kernels.chunks import CHUNK, SINGLE_MARGIN
from dpmac.privacy import (
    GramPart,
    JointClip,
    Normalise,
    OuterPart,
    Partition,
    PerLayerClip,
    PrivateRows,
    Query,
    gaussian_release,
)
from dpmac.randomness import SeededNoise

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PERSONS = 150


def shares(kind, rows, seed=0):
    """Left and right sides that add up as far as they can, cancel, or lose what is small."""
    draw = SeededNoise(seed)
    jitter, sign = draw.normal((rows, 3)).float(), torch.where(torch.arange(rows) % 2 == 0, 1.0, -1.0).unsqueeze(1)
    third, ones = torch.full((rows, 3), 1 / 3), torch.ones(rows, 4)
    return {
        "aligned": (third, ones),
        "nearly aligned": (third + 1e-3 * jitter, ones),
        "cancelling": (sign * third, ones),
        "huge and small": (torch.where(sign > 0, 1e6, 1e-4) * third, ones),
        "random": (jitter, draw.normal((rows, 4)).float()),
    }[kind]


def query(bound, mixed):
    asked = [Partition("outer", (3, 4)), *([Partition("gram", (1, 4, 4), symmetric=True)] if mixed else [])]

    def found(left, right):
        gram = [GramPart(torch.ones(len(left), 1, dtype=torch.float64), right.double())] if mixed else []
        return bound.apply([OuterPart(left, right), *gram])

    return Query("test", bound.promise(asked), found)


def sums(table, made):
    scales = [p.scale for p in made.partitions]
    asked = gaussian_release.ReleaseRequest.of(table.everything(), made, 0.0, SeededNoise(1), 1.0, None)
    totals, _ = asked.sums(SeededNoise(1))
    return [total / scale for total, scale in zip(totals, scales, strict=True)]


def moves(kind, most, bound, mixed=False):
    """How far the sums move when a person goes, in promises."""
    people = PERSONS if most <= 16 else PERSONS // 5  # three blocks of rows
    sizes = torch.tensor([1 + (7 * p) % (2 * most) for p in range(people)])
    who = torch.repeat_interleave(torch.arange(people), sizes)
    table, made = PrivateRows(*shares(kind, len(who)), groups=who, max_rows=most), query(bound, mixed)
    whole = sums(table, made)
    for place in (0, 17, people - 1):
        gone = sums(table.without(place), made)
        yield math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(whole, gone, strict=True)))


KINDS = ("aligned", "nearly aligned", "cancelling", "huge and small", "random")


@pytest.mark.parametrize("most", [2, pytest.param(16, marks=pytest.mark.long), 256])
@pytest.mark.parametrize("bound", [PerLayerClip(0.1), Normalise(), JointClip(0.1)], ids=lambda b: type(b).__name__)
def test_no_person_moves_a_sum_by_more_than_the_promise(bound, most):
    found = [move for kind in KINDS for move in moves(kind, most, bound)]
    assert max(found) <= 1.0
    assert max(found) > 0.98  # those whose rows agree, each at its bound


@pytest.mark.parametrize("most", [2, 256])
def test_nor_sums_of_both_precisions(most):
    assert max(move for kind in KINDS for move in moves(kind, most, JointClip(0.1), mixed=True)) <= 1.0


def test_chunks_without_the_person_are_the_same_bit_for_bit(monkeypatch):
    """All that a person does to a sum is within one chunk of 256 rows, whatever it brings."""
    chunks, exact = [], torch.mm
    monkeypatch.setattr(chunking, "_SMALL", 0)  # chunk by chunk

    def watched(left, right, **more):
        chunks[-1].append((left.clone(), right.clone()))
        return exact(left, right, **more)

    who = torch.repeat_interleave(torch.arange(PERSONS), 30)
    table = PrivateRows(*shares("random", len(who)), groups=who, max_rows=20)
    monkeypatch.setattr(torch, "mm", watched)
    for one in (table, *(table.without(place) for place in (0, 70, 149))):
        chunks.append([])
        sums(one, query(PerLayerClip(0.1), mixed=False))
    assert len(chunks[0]) == 20  # two blocks of 75 persons, of 32 spots each
    for other in chunks[1:]:
        changed = [not torch.equal(a[0], b[0]) for a, b in zip(chunks[0], other, strict=True)]
        assert sum(changed) == 1


def test_a_chunk_of_persons_rounds_by_less_than_it_may():
    """Weights make a chunk's mass that of its persons, not of its rows: the room is that of rows, and larger."""
    for most, kind in itertools.product((4, 64), KINDS):
        left, right = shares(kind, CHUNK)
        (part,) = PerLayerClip(1.0).apply([OuterPart(left, right)])
        weighed = part.scaled(torch.full((CHUNK,), 1 / most, dtype=torch.float64))
        true = weighed.doubled().total()
        assert float((weighed.total() - true).norm()) <= SINGLE_MARGIN / 2 / most


@needs_cuda
@pytest.mark.parametrize("map_of", [lambda rows: rows, lambda rows: rows.behind(lambda left: 2 * left)])
def test_on_a_gpu_persons_sum_to_the_same(map_of):
    who = torch.repeat_interleave(torch.arange(PERSONS), 5)
    table = PrivateRows(*shares("random", len(who)), groups=who, max_rows=3)
    asked = query(PerLayerClip(0.1), mixed=False)
    (here,), (there,) = sums(map_of(table), asked), sums(map_of(table.to(torch.device("cuda"))), asked)
    torch.testing.assert_close(there.cpu(), here.double(), rtol=1e-4, atol=1e-4)
    (moved,) = sums(map_of(table).to(torch.device("cuda")), asked)
    torch.testing.assert_close(moved, there)
