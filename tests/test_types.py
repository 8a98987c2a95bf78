"""The strict type check passes over sources and tests: an error in either fails here."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import type_check
from tests.type_check import type_errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.promise("S0-35")
@pytest.mark.timeout(1_200)
def test_the_type_check_is_clean() -> None:
    """Of sources and tests as they are now."""
    assert type_errors() == ""


@pytest.mark.promise("S0-35")
def test_a_change_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was clean counts for the very same files alone."""
    for name in ("src", "tests", "bench", "docs"):
        (tmp_path / name).mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("", "utf-8")
    asked: list[object] = []

    def run(*command: object, **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess([], int(len(asked) == 2), "found", "")

    monkeypatch.setattr(type_check, "ROOT", tmp_path)
    monkeypatch.setattr(type_check, "CLEAN", tmp_path / "cache" / "clean")
    monkeypatch.setattr(type_check.subprocess, "run", run)
    assert [type_errors(), type_errors(), len(asked)] == ["", "", 1]
    (tmp_path / "src" / "new.pyi").write_text("x: int\n", "utf-8")
    assert [type_errors(), type_errors(), len(asked)] == ["found", "", 3]
