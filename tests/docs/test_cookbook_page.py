"""The cookbook's programs run as they are on the page, with real frameworks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.promise("F-1")
@pytest.mark.parametrize("name", ["any_loop", "on_smolagents"])
def test_a_program_of_the_cookbook_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    example = ROOT / "docs" / "examples" / "cookbook" / f"{name}.py"
    found = re.search(
        rf"<!-- {example.relative_to(ROOT)} -->\n```python\n(.*?)```\n\n```text\n(.*?)```",
        page,
        re.DOTALL,
    )
    assert found is not None
    assert found[1] == example.read_text("utf-8")
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.sub(r"\[\d{6}\b", "[…", done.stdout) == found[2]
