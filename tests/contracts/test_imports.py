"""The import contracts of pyproject.toml hold, and each one notices a breach."""

from __future__ import annotations

import os
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


@pytest.fixture
def copied_tree(project_root: Path, tmp_path: Path) -> Path:
    shutil.copy(project_root / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(project_root / "src", tmp_path / "src", ignore=ignored)
    return tmp_path


def test_every_contract_is_kept(project_root: Path) -> None:
    result = lint_imports(project_root)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken." in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("utils.py", "", "One arrow"),
        ("core/planted.py", "import passdown.ledger", "One arrow"),
        ("cli/planted.py", "import passdown.store", "Interfaces use the workspace"),
        ("context/planted.py", "import sqlite3", "Context is pure"),
        ("search/planted.py", "import passdown.store.sqlite", "The ledger never names a database"),
        (
            "imports/planted.py",
            "import passdown.store.sqlite",
            "Knowledge and imports never name a database",
        ),
        ("store/planted.py", "import mcp", "Frameworks stay in their own file"),
        ("core/planted.py", "import langgraph.graph", "Only its adapter knows LangGraph"),
        ("adapters/planted.py", "import langchain.agents", "Only its adapter knows LangGraph"),
        ("hosts/planted.py", "import starlette", "Only the HTTP server knows its framework"),
        ("testing/planted.py", "import apsw", "Only the SQLite store knows apsw"),
        ("store/planted.py", "import psycopg", "Only the PostgreSQL store knows psycopg"),
        ("core/planted.py", "from pydantic import BaseModel", "Pydantic stays at the boundary"),
        ("search/planted.py", "import numpy", "Numpy stays with the vectors"),
        ("adapters/planted.py", "import agents", "Only its adapter knows the Agents SDK"),
        ("testing/planted.py", "import openai", "Only its adapter knows the Agents SDK"),
    ],
)
def test_a_planted_breach_is_found(
    copied_tree: Path, module: str, line: str, contract: str
) -> None:
    (copied_tree / "src" / "passdown" / module).write_text(line + "\n", "utf-8")
    result = lint_imports(copied_tree)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout
