"""Modules and functions stay small enough to read in one go.

The limits aren't raised to fit an offender: split it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 40


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last one."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def long_functions(source: str, limit: int, name: str = "<text>") -> list[str]:
    return [
        f"{node.name} (line {node.lineno}): {body_lines(node)} lines"
        for node in ast.walk(ast.parse(source, name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > limit
    ]


def test_no_module_is_long(project_root: Path) -> None:
    lengths = {
        str(path.relative_to(project_root)): len(path.read_text("utf-8").splitlines())
        for path in sorted((project_root / "src").rglob("*.py"))
    }
    assert lengths
    assert {name: n for name, n in lengths.items() if n > MODULE_LINES} == {}


def test_no_function_is_long(project_root: Path) -> None:
    found = [
        f"{path.relative_to(project_root)}: {each}"
        for path in sorted((project_root / "src").rglob("*.py"))
        for each in long_functions(path.read_text("utf-8"), FUNCTION_LINES, str(path))
    ]
    assert found == []


def test_a_docstring_does_not_count() -> None:
    docstring = '    """One.\n\n    Two.\n    """\n'
    source = f"async def f():\n{docstring}    a = 1\n    b = (\n        2\n    )\n"
    assert long_functions(source, 4) == []
    assert long_functions(source, 3) == ["f (line 1): 4 lines"]
