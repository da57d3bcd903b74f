"""Compiled code, compared by what it does: where its lines are does not matter."""

from __future__ import annotations

from types import CodeType
from typing import Any

_OPTIMIZED = 1  # the flag of a function's code; a module's or a class's has it not


def compiled(text: str, path: str) -> CodeType:
    """The code of a module."""
    code = compile(text, path, "exec", dont_inherit=True)
    assert isinstance(code, CodeType)
    return code


def changed(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The functions whose code differs, those around others first; None if code outside functions does."""
    inner = list(zip(_nested(old), _nested(new), strict=False))
    found: list[tuple[CodeType, CodeType]] = []
    for before, after in inner:
        below = changed(before, after)
        if below is None:
            return None
        found += below
    same = len(_nested(old)) == len(_nested(new)) and _own(old) == _own(new)
    if old.co_flags & _OPTIMIZED:
        return found if same and not found else [(old, new), *found]
    return found if same else None


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> tuple[Any, ...]:
    """All that a code does by itself."""
    constants = [
        (type(value).__name__, repr(value)) if not isinstance(value, CodeType) else value.co_name
        for value in code.co_consts
    ]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable
