"""A project whose records are kept in a database: its folder names it, for this machine alone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import UnsafeStore
from tests.postgres import name_store

if TYPE_CHECKING:
    from pathlib import Path


def test_init_names_the_database_and_every_verb_finds_it(
    tmp_path: Path,
    postgres_store: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from passdown.surfaces.cli.main import main

    monkeypatch.delenv("PASSDOWN_STORE", raising=False)
    below = tmp_path / "src"
    below.mkdir()
    assert main(["init", str(tmp_path), "--store", postgres_store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["store"] == postgres_store
    monkeypatch.chdir(below)
    assert main(["task", "new", "T-1", "--title", "Login"]) == 0
    assert (tmp_path / ".passdown" / "state" / "T-1.json").exists()
    assert not (tmp_path / ".passdown" / "ledger.db").exists()
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert (facts["database"], facts["store"]) == ("postgresql", postgres_store)
    assert facts["root"] == str(tmp_path)
    assert main(["backup", str(tmp_path / "safe.db")]) == 0
    with passdown.open(str(tmp_path / "safe.db")) as ws:
        assert ws.task("T-1")["title"] == "Login"
    ignored = (tmp_path / ".passdown" / ".gitignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert "!store" not in ignored


def test_a_file_that_others_may_use_is_refused(tmp_path: Path) -> None:
    """A repository can hold such a file, but not with a private mode."""
    name_store(tmp_path, "postgresql://elsewhere.example/theirs")
    os.chmod(tmp_path / ".passdown" / "store", 0o644)
    with pytest.raises(UnsafeStore, match="says where records go"):
        passdown.open(str(tmp_path))
