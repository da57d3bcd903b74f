"""Mutation by machine: the operators do what they say, names are stable, explanations are of mutants that are there."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent

import pytest

from mutants.machine.codes import changed, compiled
from mutants.machine.mutation import Mutation, mutations, read
from mutants.machine.scoring import explanations
from mutants.machine.source import Source
from mutants.machine.targets import CORE, NOT_HERE, groups, listed
from mutants.mutant import PACKAGE, ROOT


def mutants_of(text: str) -> list[Mutation]:
    return list(mutations(Source("small.py", dedent(text))))


def changes(text: str, operator: str) -> list[str]:
    return [mutation.after for mutation in mutants_of(text) if mutation.operator == operator]


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [
        ("compare", "x = a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("compare", "x = a is None", ["a is not None"]),
        ("compare", "x = a not in b", ["a in b"]),
        ("arithmetic", "x = a + b * c", ["a - b * c", "b / c"]),
        ("arithmetic", "x = 'a' + b", []),
        ("arithmetic", "X = int | None", []),
        ("arithmetic", "x **= 2", ["x *= 2"]),
        ("negation", "x = -a", ["a"]),
        ("negation", "x = not a", ["a"]),
        ("and/or", "x = a and b", ["a or b"]),
        ("condition", "if a < b:\n    raise ValueError", ["True", "False"]),
        ("condition", "if a:\n    b = 1", ["not a"]),
        ("constant", "x = (1, 0.5, 0.0, True)", ["2", "1.0", "1.0", "False"]),
        ("constant", "x = f'{1}'", []),
        ("constant", "x = (1, 2, 3, 4, 5, 6)", ["2"]),
        ("constant", "def f():\n    raise ValueError(1)", []),
        ("constant", "def f():\n    raise ArgumentError('a', 1, 'fix') from None", []),
        ("call", "x = min(a, b)\ny = math.floor(a)\nz = any(a)", ["max", "math.ceil", "all"]),
        ("delete", "check(a)\nself.a = b\na.b, c[0] = d\na = b\n'text'", ["pass"] * 3),
        ("delete", "for a in b:\n    break", ["pass"]),
        ("delete", "try:\n    a()\nexcept E:\n    raise", ["pass", "pass"]),
        ("return", "def f() -> bool:\n    return g()", ["not g()"]),
        ("return", "def f() -> float:\n    return g()", ["(g()) + 1"]),
        ("return", "def f() -> str:\n    return g()", []),
        ("slice", "def f():\n    return a[b:c]", ["(b) + 1", "(c) - 1"]),
        ("keyword", "x = number('a', 1, 'fix', low=a)", ["number('a', 1, 'fix')"]),
    ],
)
def test_an_operator_does_what_it_says(operator, text, expected):
    assert changes(text, operator) == expected


def test_nothing_is_changed_that_is_not_code():
    text = '''
        """Module 1."""
        from a import b
        __all__ = ["a"]
        if TYPE_CHECKING:
            x = 1

        @decorated(1)
        def f(a: Literal[1]) -> Literal[2]:
            """Docstring."""
            warnings.warn("text", stacklevel=2)
            typer.echo(1 + 2)

        class A:
            def __repr__(self):
                return 1
        '''
    assert mutants_of(text) == []


def test_a_mutant_is_one_change_that_compiles_and_lines_stay_where_they_are():
    source = read("extensions/rollback_guard.py")
    made = list(mutations(source))
    assert len(made) > 20
    for mutation in made:
        text = mutation.applied()
        assert text != source.text
        assert text.count("\n") == source.text.count("\n"), mutation.name
        assert changed(compiled(source.text, ""), compiled(text, "")) != [], mutation.name


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_stay_when_lines_are_added_above_and_around():
    source = read("extensions/rollback_guard.py")
    names = [mutation.name for mutation in mutations(source)]
    assert max(Counter(names).values()) == 1
    more = "\n\n\n# a line\n\n\ndef other():\n    pass\n\n\ndef "
    moved = Source(source.file, source.text.replace("\n\n\ndef ", more))
    assert moved.text != source.text
    assert [mutation.name for mutation in mutations(moved)] == names


def test_every_explanation_is_a_sentence_on_a_mutant_that_is_there():
    """If this fails, the code has moved on: take the explanation out, or give it the mutant's new name."""
    there: set[str] = set()
    for file in {name.partition(" | ")[0] for name in explanations()}:
        there |= {mutation.name for mutation in mutations(read(file), checked=False)}
    assert set(explanations()) <= there
    for reason in explanations().values():
        assert reason.endswith(".")
        assert len(reason) > 15


def test_all_files_of_the_guarantee_are_targets():
    files = [file for each in groups().values() for file in each]
    assert len(files) == len(set(files)) > 60
    assert set(listed()) <= set(files)


def test_every_file_of_the_core_is_in_one_group_and_every_file_of_a_group_is_there():
    """A file that only imports has nothing to mutate."""
    files = {file for each in groups().values() for file in each}
    for package in CORE:
        for path in (ROOT / PACKAGE / package).rglob("*.py"):
            file = path.relative_to(ROOT / PACKAGE).as_posix()
            assert file in files or file in NOT_HERE or not list(mutations(read(file))), file
    assert [file for file in sorted(files) if not (ROOT / PACKAGE / file).is_file()] == []
