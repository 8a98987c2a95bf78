"""The import contracts of pyproject.toml hold, and each one notices a breach."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of the tree in `root`, whatever else is installed."""
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        [program, "--no-cache", "--config", "pyproject.toml"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_every_contract_is_kept(project_root: Path) -> None:
    result = lint_imports(project_root)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken." in result.stdout


BREACHES = (
    ("", "", "One arrow"),
    ("core", "import passdown.ledger", "One arrow"),
    ("cli", "import passdown.store", "Interfaces use the workspace"),
    ("context", "import sqlite3", "Context is pure"),
    ("search", "import passdown.store.sqlite", "The ledger never names a database"),
    (
        "imports",
        "import passdown.store.sqlite",
        "Knowledge and imports never name a database",
    ),
    ("store", "import mcp", "Frameworks stay in their own file"),
    ("core", "import langgraph.graph", "Only its adapter knows LangGraph"),
    ("adapters", "import langchain.agents", "Only its adapter knows LangGraph"),
    ("hosts", "import starlette", "Only the HTTP server knows its framework"),
    ("testing", "import apsw", "Only the SQLite store knows apsw"),
    ("store", "import psycopg", "Only the PostgreSQL store knows psycopg"),
    ("core", "from pydantic import BaseModel", "Pydantic stays at the boundary"),
    ("search", "import numpy", "Numpy stays with the vectors"),
    ("adapters", "import agents", "Only its adapter knows the Agents SDK"),
    ("testing", "import openai", "Only its adapter knows the Agents SDK"),
)
"""A package, a line that one of its modules might have, and the contract that forbids it."""


@pytest.fixture(scope="module")
def report(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said about a tree in which each breach has a module of its own."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copy(project_root / "pyproject.toml", root)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(project_root / "src", root / "src", ignore=ignored)
    for number, (package, line, _) in enumerate(BREACHES):
        module = root / "src" / "passdown" / package / f"planted_{number}.py"
        module.write_text(line + "\n", "utf-8")
    result = lint_imports(root)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("number", range(len(BREACHES)))
def test_a_planted_breach_is_found(report: str, number: int) -> None:
    contract = BREACHES[number][2]
    assert f"{contract} BROKEN" in report
    _, *parts = re.split(r"^(.+)\n-{3,}\n", report, flags=re.MULTILINE)
    told = dict(zip(parts[::2], parts[1::2], strict=True))[contract]
    assert re.search(rf"\bplanted_{number}\b", told)
