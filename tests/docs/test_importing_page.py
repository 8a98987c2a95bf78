"""The page on importing shows what happens."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from passdown.imports.importer import IMPORT_FORMATS
from tests.processes import forked_python

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "importing.md"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None, language
    return match[1]


def test_the_example_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    """The ADR on the page, imported by the commands on the page."""
    adr = tmp_path / "docs" / "adr" / "0004-sessions-in-redis.md"
    adr.parent.mkdir(parents=True)
    adr.write_text(block("markdown"), "utf-8")
    python = f'"{forked_python()}" -m passdown'
    script = f"{python} init >/dev/null\n" + block("sh").replace("passdown ", f"{python} ")
    environment = {**os.environ, "PASSDOWN_AGENT": "kim", "COLUMNS": "100"}
    result = subprocess.run(
        ["sh", "-ec", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == block("text")


def test_the_page_names_every_form() -> None:
    """What can follow --from stands on the page."""
    assert f"--from auto|{'|'.join(IMPORT_FORMATS)}" in PAGE.read_text("utf-8")
