"""Promises and tests name each other: none untested, no mark without a promise.

The tests are read, not run, so a promise whose test can't be collected on this machine still
counts as tested here. A test that is always skipped, expected to fail, or left out of
`make test` holds no promise.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.promises import PROMISES

TESTS = Path(__file__).parent
README = TESTS.parent / "README.md"
NOT_RUN = {"skip", "xfail", "soak"}


@dataclass(kw_only=True)
class Marks:
    """What the marks of one file say, and where."""

    tested: set[str] = field(default_factory=set[str])
    named: dict[str, str] = field(default_factory=dict[str, str])
    misplaced: list[str] = field(default_factory=list[str])


def mark_name(node: ast.expr) -> str:
    """`promise` for `pytest.mark.promise(...)`; empty for anything that isn't a mark."""
    called = node.func if isinstance(node, ast.Call) else node
    dotted = ast.unparse(called)
    return dotted.removeprefix("pytest.mark.") if dotted.startswith("pytest.mark.") else ""


def pytestmark_of(body: list[ast.stmt]) -> list[ast.expr]:
    """The marks that a module or a class gives to all its tests."""
    found: list[ast.expr] = []
    for statement in body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets):
            value = statement.value
            found += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return found


def promise_calls(marks: list[ast.expr]) -> list[ast.Call]:
    return [m for m in marks if isinstance(m, ast.Call) and mark_name(m) == "promise"]


def marked_tests(
    body: list[ast.stmt], inherited: list[ast.expr]
) -> list[tuple[ast.stmt, list[ast.expr]]]:
    """Each test function with all the marks that apply to it."""
    marks = [*inherited, *pytestmark_of(body)]
    found: list[tuple[ast.stmt, list[ast.expr]]] = []
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found += marked_tests(node.body, [*marks, *node.decorator_list])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            found.append((node, [*marks, *node.decorator_list]))
    return found


def read_marks(source: str, name: str) -> Marks:
    """All promise marks of one test file."""
    tree = ast.parse(source, filename=name)
    result = Marks()
    placed: set[int] = set()
    for _, marks in marked_tests(tree.body, []):
        runs = not NOT_RUN & {mark_name(mark) for mark in marks}
        for call in promise_calls(marks):
            placed.add(id(call))
            ids = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            texts = [value for value in ids if isinstance(value, str)]
            if len(texts) != len(call.args) or not texts or call.keywords:
                result.misplaced.append(f"{name}:{call.lineno}: ids must be plain strings")
            result.named |= dict.fromkeys(texts, f"{name}:{call.lineno}")
            result.tested |= set(texts) if runs else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and mark_name(node) == "promise" and id(node) not in placed:
            result.misplaced.append(f"{name}:{node.lineno}: this mark belongs to no test")
    return result


@pytest.fixture(scope="module")
def all_marks() -> Marks:
    total = Marks()
    for path in sorted(TESTS.rglob("*.py")):
        marks = read_marks(path.read_text("utf-8"), str(path.relative_to(TESTS.parent)))
        total.tested |= marks.tested
        total.named |= marks.named
        total.misplaced += marks.misplaced
    return total


def test_every_promise_is_tested(all_marks: Marks) -> None:
    untested = [f"{id_}: {PROMISES[id_]}" for id_ in PROMISES if id_ not in all_marks.tested]
    assert not untested, f"{len(untested)} promises without a test:\n" + "\n".join(untested)


def test_every_mark_names_a_promise(all_marks: Marks) -> None:
    unknown = {id_: where for id_, where in all_marks.named.items() if id_ not in PROMISES}
    assert not unknown


def test_every_mark_sits_on_a_test(all_marks: Marks) -> None:
    assert not all_marks.misplaced


def test_every_promise_is_one_sentence() -> None:
    for id_, sentence in PROMISES.items():
        assert re.fullmatch(r"[A-Z]\d?-[1-9]\d*", id_)
        assert sentence[0].isupper(), id_
        assert sentence.endswith("."), id_
        assert "\n" not in sentence, id_


def test_the_readme_names_only_promises_that_exist() -> None:
    named = set(re.findall(r"\bP-\d+\b", README.read_text("utf-8")))
    assert named <= PROMISES.keys(), f"unknown: {sorted(named - PROMISES.keys())}"


EXAMPLE = """
import pytest
pytestmark = pytest.mark.promise("A-1")

@pytest.mark.promise("A-2", "A-3")
def test_one(): ...

@pytest.mark.promise("A-4")
class TestTwo:
    pytestmark = [pytest.mark.promise("A-5")]
    async def test_three(self): ...

@pytest.mark.promise("A-6")
@pytest.mark.skip(reason="never runs")
def test_four(): ...

@pytest.mark.promise("A-7")
def helper(): ...

@pytest.mark.promise(NAME)
def test_five(): ...
"""


def test_marks_are_read_from_functions_classes_and_modules() -> None:
    marks = read_marks(EXAMPLE, "example.py")
    assert marks.tested == {"A-1", "A-2", "A-3", "A-4", "A-5"}
    assert marks.named.keys() == {"A-1", "A-2", "A-3", "A-4", "A-5", "A-6"}
    assert marks.misplaced == [
        "example.py:20: ids must be plain strings",
        "example.py:17: this mark belongs to no test",
    ]
