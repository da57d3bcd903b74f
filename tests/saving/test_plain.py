"""Values as plain JSON and back: nothing is lost, and nothing but the listed kinds comes back."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from saved_models import same

from dpmac.mac.zsteps import Z_STEPS
from dpmac.nets.activations import ACTIVATIONS, TANH, Activation
from dpmac.privacy import BOUNDS, LeastEnergy, Ledger, PerLayerClip
from dpmac.saving.plain import OBJECTS, OwnObjectError, packed, unpacked
from dpmac.tables import Number, Schema


def back(value):
    """Through JSON and back."""
    return unpacked(json.loads(json.dumps(packed(value), allow_nan=False)))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert back(value) == value
    assert repr(back(value)) == repr(value)  # 1, 1.0 and True are equal, but not the same


@given(
    hnp.arrays(st.sampled_from(["?", "i1", "<i8", ">i4", "u8", "f2", "f4", "<f8", "<U3"]), hnp.array_shapes(min_side=0))
)
def test_arrays_come_back_bit_for_bit(array):
    found = back(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert same(found, array) or np.array_equal(found, array, equal_nan=True)  # a NaN may have other bits


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.1),
        np.int64(-3),
        np.bool_(True),
        np.str_("é"),
        np.array(["a", None, 2, math.inf], dtype=object),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array(3.5),
    ],
    ids=repr,
)
def test_numpy_values_keep_their_kind(value):
    found = back(value)
    assert type(found) is type(value)
    assert same(found, value)


def test_numbers_that_are_not_finite():
    assert back([math.inf, -math.inf]) == [math.inf, -math.inf]
    assert math.isnan(back(math.nan))


@pytest.mark.parametrize("value", [*BOUNDS.values(), *Z_STEPS.values(), *ACTIVATIONS.values()], ids=repr)
def test_every_listed_object_comes_back(value):
    assert back(value) == value
    assert type(back(value)) is type(value)


def test_other_things_that_arguments_are():
    clip = PerLayerClip((1.0, 2.0), LeastEnergy((3.0,)))
    assert back(clip) == clip
    assert back(Path("a/b")) == Path("a/b")
    assert back(range(2, 9, 3)) == range(2, 9, 3)
    assert back(torch.optim.SGD) is torch.optim.SGD
    schema = Schema({"a": Number(0, 1)})
    assert back(schema) == schema
    assert back(pd.Index(["x", "y"])) == ["x", "y"]
    own = Activation("mine", torch.tanh, TANH.df, TANH.d2f, torch.nn.Tanh)
    assert unpacked(packed(own), {"mine": own}) is own
    assert unpacked(packed(own)) == "mine"


class Own(PerLayerClip):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Own(1.0),
        Ledger(),
        Decimal(1),
        object(),
        print,
        torch.optim.LBFGS,
        1j,
        np.longdouble(1),
        np.array([1j]),
        [Own(1.0)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_place_in_a_file_is_refused(value):
    with pytest.raises(OwnObjectError):
        packed(value)


@pytest.mark.parametrize(
    "raw",
    [
        {"object": ["Ledger", {}]},
        {"object": ["os.system", {"command": "true"}]},
        {"optimizer": "LBFGS"},
        {"activation": ["nobody", False]},
        {"import": "os"},
        {"array": {"dtype": "V8", "shape": [0], "values": []}},
        {"array": {"dtype": "i8,i8", "shape": [0], "values": []}},
        {"float": "1"},
        {},
        {"tuple": [], "dict": []},
    ],
    ids=str,
)
def test_what_no_file_of_ours_has_is_refused(raw):
    with pytest.raises((ValueError, KeyError, TypeError)):
        unpacked(raw)


def test_a_name_in_a_file_stands_for_a_class_of_the_list_alone():
    assert all(kind.__module__.startswith("dpmac.") for kind in OBJECTS.values())
