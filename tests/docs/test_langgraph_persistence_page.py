"""The page on LangGraph's persistence shows what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "langgraph-persistence.md").read_text("utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "langgraph_persistence.py"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, language
    return match[1]


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """The page holds the file, and the file's output is the real one."""
    assert block("python") == EXAMPLE.read_text("utf-8")
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == block("text")
