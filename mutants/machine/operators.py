"""The bugs: for a node, what a small mistake would have written there. At most two for each node and kind."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from mutants.machine.source import MODULE, Place, name_of

Found = Iterator[tuple[ast.AST, str]]  # the node that is replaced, and by which text

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr},
}
_SWAPPED = {
    **{"min": "max", "any": "all", "floor": "ceil", "minimum": "maximum", "amin": "amax", "argmin": "argmax"},
    **{"clamp_min": "clamp_max", "log1p": "log", "expm1": "exp"},
}
_SWAPS = {**_SWAPPED, **{new: old for old, new in _SWAPPED.items() if old not in ("log1p", "expm1")}}
_WORDS = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple, ast.Dict)


def comparison(place: Place) -> Found:
    """``<`` for ``<=``, ``!=`` for ``==`` and so on."""
    if isinstance(place.node, ast.Compare):
        for at, operation in enumerate(place.node.ops):
            changed = copy.deepcopy(place.node)
            changed.ops[at] = _COMPARED[type(operation)]()
            yield place.node, ast.unparse(changed)


def arithmetic(place: Place) -> Found:
    """``-`` for ``+``, ``/`` for ``*`` and so on, of what may be numbers."""
    node = place.node
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not (_is_text(node) or _is_type(node)):
        changed = copy.deepcopy(node)
        changed.op = _COMPUTED[type(node.op)]()
        yield node, ast.unparse(changed)
    if isinstance(node, ast.AugAssign) and type(node.op) in _COMPUTED and not _is_words(node.value):
        replaced = copy.deepcopy(node)
        replaced.op = _COMPUTED[type(node.op)]()
        yield node, ast.unparse(replaced)


def _is_words(node: ast.expr) -> bool:
    return isinstance(node, _WORDS) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_text(node: ast.expr) -> bool:
    """Whether a string, a list or a tuple is written somewhere in a sum."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return _is_words(node)


def _is_type(node: ast.BinOp) -> bool:
    """Whether ``a | b`` looks like a type."""
    sides = [ast.unparse(side) for side in (node.left, node.right)]
    known = {"None", "str", "int", "float", "bytes", "bool", "list", "dict", "tuple", "set"}
    return isinstance(node.op, ast.BitOr) and any(
        side in known or (side.rpartition(".")[2][:1].isupper() and not side.isupper()) for side in sides
    )


def negation(place: Place) -> Found:
    """A minus or a ``not`` that is left out."""
    if isinstance(place.node, ast.UnaryOp) and isinstance(place.node.op, ast.USub | ast.Not):
        yield place.node, ast.unparse(place.node.operand)


def junction(place: Place) -> Found:
    """``and`` for ``or``, and the other way round."""
    if isinstance(place.node, ast.BoolOp):
        changed = copy.deepcopy(place.node)
        changed.op = ast.Or() if isinstance(place.node.op, ast.And) else ast.And()
        yield place.node, ast.unparse(changed)


def condition(place: Place) -> Found:
    """A condition that guards a raise or a return is always, or never, true; any other plain one is the opposite."""
    node = place.node
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return):
        yield node.test, "True"
        yield node.test, "False"
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and _is_plain(node.test) and not _is_for_types(node.test):
        yield node.test, f"not {ast.unparse(node.test)}"
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for test in (test for generator in node.generators for test in generator.ifs if _is_plain(test)):
            yield test, f"not {ast.unparse(test)}"


def _is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _is_plain(test: ast.expr) -> bool:
    """Whether no other operator changes the condition."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def constant(place: Place) -> Found:
    """A number that is one more or twice as much; a truth that is its opposite. Of a long list, only the first."""
    node = place.node
    if not isinstance(node, ast.Constant) or isinstance(place.parent, ast.Expr):
        return
    if isinstance(place.parent, ast.List | ast.Tuple) and node in place.parent.elts[1:] and len(place.parent.elts) > 4:
        return
    if isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node.value, int):
        yield node, str(node.value + 1)
    elif isinstance(node.value, float):
        yield node, repr(2 * node.value or 1.0)


def swapped_call(place: Place) -> Found:
    """``max`` for ``min``, ``all`` for ``any``, ``ceil`` for ``floor``."""
    node = place.node
    if isinstance(node, ast.Call) and name_of(node.func) in _SWAPS:
        changed = copy.deepcopy(node.func)
        if isinstance(changed, ast.Attribute):
            changed.attr = _SWAPS[changed.attr]
        elif isinstance(changed, ast.Name):
            changed.id = _SWAPS[changed.id]
        yield node.func, ast.unparse(changed)


def deletion(place: Place) -> Found:
    """A statement that is forgotten: a call, a raise, a note in an object, a way out of a loop."""
    node = place.node
    if isinstance(node, ast.Expr):
        forgotten = isinstance(node.value, ast.Call) and name_of(node.value.func) not in ("warn", "echo", "print")
    elif isinstance(node, ast.Raise):
        forgotten = not (isinstance(place.parent, ast.If) and place.parent.body == [node])  # its condition does that
    elif isinstance(node, ast.Assign):
        forgotten = all(_is_part(target) for target in node.targets)
    elif isinstance(node, ast.AnnAssign):
        forgotten = node.value is not None and _is_part(node.target)
    else:
        forgotten = isinstance(node, ast.AugAssign | ast.Break | ast.Continue)
    if forgotten:
        yield node, "pass"


def _is_part(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_is_part(each) for each in target.elts)
    return isinstance(target, ast.Attribute | ast.Subscript)


def result(place: Place) -> Found:
    """The opposite of a truth, or one more than a number, is returned."""
    node = place.node
    if not isinstance(node, ast.Return) or node.value is None or isinstance(node.value, ast.Constant):
        return
    if place.returns == "bool" and _is_plain(node.value):
        yield node.value, f"not {ast.unparse(node.value)}"
    elif place.returns in ("int", "float"):
        yield node.value, f"({ast.unparse(node.value)}) + 1"


def slice_bound(place: Place) -> Found:
    """A slice that begins one later, or ends one earlier."""
    if isinstance(place.node, ast.Slice) and place.function != MODULE:
        lower, upper = place.node.lower, place.node.upper
        if lower is not None and not isinstance(lower, ast.Constant):
            yield lower, f"({ast.unparse(lower)}) + 1"
        if upper is not None and not isinstance(upper, ast.Constant):
            yield upper, f"({ast.unparse(upper)}) - 1"


OPERATORS: dict[str, Callable[[Place], Found]] = {
    **{"compare": comparison, "arithmetic": arithmetic, "negation": negation, "and/or": junction},
    **{"condition": condition, "constant": constant, "call": swapped_call, "delete": deletion},
    **{"return": result, "slice": slice_bound},
}
