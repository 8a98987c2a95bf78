"""The page on memories shows what happens."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from passdown.adapters.chroma import ChromaMemory
from passdown.adapters.memory import LedgerMemory
from passdown.workspace.search import default_embedder

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "memory.md"
EXAMPLE = ROOT / "docs" / "examples" / "memory.py"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None, language
    return match[1]


@pytest.mark.skipif(default_embedder() is None, reason="the offline model is not installed")
def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """Twice: what is stored again is stored once."""
    assert block("python") == EXAMPLE.read_text("utf-8")
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert result.stdout == block("text")


@pytest.mark.parametrize("kind", [LedgerMemory, ChromaMemory])
def test_every_method_is_on_the_page(kind: type) -> None:
    """With its parameters, which both stores share."""
    page = PAGE.read_text("utf-8")
    listed = dict(re.findall(r"\| `(\w+)\((.*?)\)` \|", page))
    for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction):
        if name.startswith("_") or name in ("close", "open"):
            continue
        given = [part.strip(" ?") for part in listed[name].split(",")]
        assert given == list(inspect.signature(member).parameters)[1:], name
