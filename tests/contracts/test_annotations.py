"""Types and logs: everything is annotated, the type check is strict, logs carry fields."""

from __future__ import annotations

import ast
import logging
import tomllib
from pathlib import Path

import pytest

import passdown

ROOT = Path(__file__).resolve().parent.parent.parent


def unannotated(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            named = [a for a in arguments if a.arg not in ("self", "cls")]
            if node.returns is None or any(a.annotation is None for a in named):
                found.append(f"{path.name}:{node.lineno} {node.name}")
    return found


@pytest.mark.promise("S0-35")
@pytest.mark.parametrize("folder", ["src", "tests"])
def test_every_function_is_annotated(folder: str) -> None:
    """Parameters and results of every function, in sources and tests, say their types."""
    found = [name for path in sorted((ROOT / folder).rglob("*.py")) for name in unannotated(path)]
    assert found == []


@pytest.mark.promise("S0-35")
def test_the_type_check_is_strict_over_sources_and_tests() -> None:
    """`make check` runs pyright in strict mode over both."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    assert settings["typeCheckingMode"] == "strict"
    assert {"src", "tests"} <= set(settings["include"])
    assert "-m pyright\n" in (ROOT / "Makefile").read_text("utf-8")
    assert "make check\n" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.promise("S0-35")
def test_a_log_record_carries_its_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A program can filter by agent and field without parsing a sentence."""
    with caplog.at_level(logging.WARNING, logger="passdown"):
        passdown.check_integrity({"plan": 1}, {"plan": 2}, source="dev", target="qa")
    (record,) = caplog.records
    fields = vars(record)
    assert (fields["source"], fields["target"], fields["fields"]) == ("dev", "qa", ["plan"])
