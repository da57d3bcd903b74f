"""Ways to spoil bytes, and trees of plain values, that keep most of their structure."""

from __future__ import annotations

import copy
import json
import random
import sys
from typing import Any

TOKENS = (
    *(
        b"\x00",
        b"\xff",
        b'"',
        b"'",
        b"\n",
        b"\r",
        b"\r\n",
        b",",
        b";",
        b"\t",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"\\",
        b"-",
    ),
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"null", b"true", b"0x10", b"1_0", b"\xef\xbb\xbf", b"\xe9", b"\xff\xfe"),
    *(
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\x1f\x8b",
        b"PK\x03\x04",
        b"9" * 400,
        b"[" * 3000,
        b"a" * 70_000,
        b"\xf0\x9f\x98\x80",
    ),
)
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        0.5,
        -0.0,
        1e308,
        -1e308,
        1e-320,
        2**31,
        2**63,
        10**30,
        float("nan"),
        float("inf"),
    ),
    *("", " ", "x", "0", "-1", "nan", "\x00", "\ud800", "é", "日本", "a" * 5000, "../../etc/passwd", "/dev/null", "\n"),
    *([], {}, [None], [[]], {"": ""}, [1, 2, 3], ["a", "a"], {"kind": "number"}, [[0, 1], [1]]),
)


def spoilt_bytes(draw: random.Random, raw: bytes) -> tuple[bytes, str]:
    """``raw`` with one thing wrong, and what."""
    place = draw.randrange(len(raw) + 1)
    stop = min(len(raw), place + draw.choice([1, 1, 2, 7, 40, 400]))
    match draw.randrange(8):
        case 0 if raw:
            place = min(place, len(raw) - 1)
            return raw[:place] + bytes([raw[place] ^ (1 << draw.randrange(8))]) + raw[place + 1 :], f"bit at {place}"
        case 1:
            return raw[:place], f"cut at {place}"
        case 2:
            return raw[:place] + raw[stop:], f"without {place} to {stop}"
        case 3:
            return raw[:stop] + raw[place:stop] + raw[stop:], f"{place} to {stop} twice"
        case 4:
            first = raw.find(b"\n", place) + 1
            lines = raw[first:].split(b"\n")
            draw.shuffle(lines)
            return raw[:first] + b"\n".join(lines), f"lines after {first} shuffled"
        case 5:
            token = draw.choice(TOKENS)
            return raw[:place] + token + raw[stop:], f"{place} to {stop} is {token[:20]!r}"
        case 6:
            junk = draw.randbytes(draw.choice([1, 3, 30]))
            return raw[:place] + junk + raw[place:], f"{junk!r} at {place}"
        case _:
            token = draw.choice(TOKENS)
            return raw[:place] + token + raw[place:], f"{token[:20]!r} at {place}"


def spoilt_tree(draw: random.Random, tree: Any) -> tuple[Any, str]:
    """A copy of plain values (dicts, lists, numbers, texts) with one thing wrong, and what.

    What an earlier call has made deep can be copied by a deep recursion only; what is tried has Python's usual limit.
    """
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * usual)
    try:
        return _spoilt(draw, copy.deepcopy(tree))
    finally:
        sys.setrecursionlimit(usual)


def _spoilt(draw: random.Random, tree: Any) -> tuple[Any, str]:
    paths = list(_paths(tree))
    path = draw.choice(paths)
    if not path:
        odd = draw.choice(ODD)
        return copy.deepcopy(odd), f"all of it is {odd!r:.60}"
    holder = _at(tree, path[:-1])
    key, where = path[-1], "/".join(map(str, path))
    match draw.randrange(7):
        case 0:
            del holder[key]
            return tree, f"without {where}"
        case 1:
            holder[key] = _at(copy.deepcopy(tree), draw.choice(paths))
            return tree, f"{where} is another part"
        case 2 if isinstance(holder, dict):
            new = draw.choice(["", "x", "_x", str(key).upper(), f"{key} ", "kind", "\ud800", "values"])
            holder[new] = holder.pop(key)
            return tree, f"{where} is called {new!r}"
        case 3:
            holder[key] = draw.choice([[holder[key]], {"a": holder[key]}, str(holder[key]), [holder[key]] * 2])
            return tree, f"{where} is wrapped"
        case 4 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = draw.choice([-holder[key], holder[key] * 1e6, holder[key] / 3, holder[key] + 1])
            return tree, f"{where} is {holder[key]!r}"
        case 5:
            deep: Any = 1
            for _ in range(draw.choice([5, 300])):
                deep = [deep] if draw.random() < 0.5 else {"a": deep}
            holder[key] = deep
            return tree, f"{where} is deep"
        case _:
            odd = draw.choice(ODD)
            holder[key] = copy.deepcopy(odd)
            return tree, f"{where} is {odd!r:.60}"


def as_json(tree: Any) -> bytes:
    """JSON of whatever a mutation left, lone surrogates and NaN included."""
    return json.dumps(tree, indent=1).encode("utf-8", "surrogatepass")


def _paths(tree: Any, above: tuple[Any, ...] = ()) -> Any:
    yield above
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _paths(value, (*above, key))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree
