"""Safety verbs, schemas and completion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from passdown.cli.main import VERBS
from passdown.workspace import open as open_workspace
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


def test_verify_heads_and_backup(
    filled: Path, tmp_path: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    found = as_json("verify")
    assert (found["ok"], found["streams"], found["records"]) == (True, 1, 7)
    old = tmp_path / "old.db"
    assert as_json("backup", str(old))["ok"] is True
    cli("warn", "T-1", "after the copy")
    heads = tmp_path / "heads.json"
    assert "keep it on another machine" in cli("heads", "export", str(heads)).out
    assert as_json("verify", "--against", str(heads))["ok"] is True
    answer = cli("--store", str(old), "verify", "--against", str(heads), code=1)
    assert "rollback" in answer.out
    assert json.loads(heads.read_text("utf-8")) | {"at": ""} == as_json("heads", "export") | {
        "at": ""
    }
    assert cli("backup", str(old), code=1).err
    saved = heads.read_bytes()
    assert "exists already" in cli("heads", "export", str(heads), code=1).err
    assert heads.read_bytes() == saved
    assert "unreadable" in cli("verify", "--against", "nowhere.json", code=1).err


def test_a_changed_byte_is_found(filled: Path, tmp_path: Path, cli: Run) -> None:
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    copy.write_bytes(copy.read_bytes().replace(b"no session", b"no Session"))
    answer = cli("verify", "--store", str(copy), "--chain-only", code=1)
    assert "task/T-1@2" in answer.out
    assert "chain_broken" in answer.out


def test_bundles(filled: Path, tmp_path: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    bundle = tmp_path / "t1.passdown"
    assert as_json("export", str(bundle), "--task", "T-1")["streams"] == 1
    other = tmp_path / "other"
    other.mkdir()
    cli("init", str(other))
    assert as_json("import", str(bundle), "--store", str(other))["added"] == {"task/T-1": 7}
    assert "was there already" in cli("import", str(bundle), "--store", str(other)).out
    cli("warn", "T-1", "theirs", "--store", str(other))
    cli("warn", "T-1", "ours")
    later = tmp_path / "later.passdown"
    cli("export", str(later))
    assert cli("import", str(later), "--store", str(other), code=1).err
    forked = as_json("import", str(later), "--store", str(other), "--fork", "ours")["forked"]
    assert list(forked) == ["task/T-1"]
    assert cli("export", str(bundle), code=1).err
    assert cli("import", "nowhere", code=1).err


def test_reindex_and_doctor(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    assert "nothing was different" in cli("reindex").out
    assert as_json("reindex") == {"records": 7, "differing": [], "warnings": []}
    found = as_json("doctor")
    assert found["ok"] is True
    assert found["facts"]["database"] == "sqlite"
    handle = filled / ".passdown" / "state" / "T-1.json"
    handle.write_text(handle.read_text("utf-8").replace("JWT", "JWX"), "utf-8")
    told = cli("doctor").out
    assert "edited_state_file" in told
    assert told.endswith("\nok, 1 warning\n")


def test_one_is_not_many(filled: Path, cli: Run) -> None:
    assert "7 records in 1 stream\n" in cli("verify").out
    assert "1 stream is in" in cli("export", "a.passdown").out
    assert "1 head written to" in cli("heads", "export", "heads.json").out


@pytest.mark.parametrize("of", ["handoff", "task", "state"])
def test_schemas_are_json_schemas(cli: Run, of: str) -> None:
    import jsonschema

    document = json.loads(cli("schema", of).out)
    jsonschema.Draft202012Validator.check_schema(document)


BASH = """
eval "$(passdown completion bash)"
try() {
  COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
  _passdown
  echo "${COMPREPLY[*]}"
}
try passdown st
try passdown state ""
try passdown state T-1 --fi
try passdown state --as ""
try passdown gate ""
try passdown task new X --phase i
try passdown handoff --task T
try passdown ingest no
try passdown --store x.db hea
try passdown switch --task T-1 --to ""
try passdown brief T-1 --agent c
try passdown rules show ""
"""


def test_completion_in_a_real_bash(
    filled: Path, tmp_path: Path, project_root: Path, need_program: Callable[[str], str]
) -> None:
    bash = need_program("bash")
    (filled / "agents").mkdir()
    for name in ("coder", "tester"):
        (filled / "agents" / f"{name}.md").write_text("You.\n", "utf-8")
    rules = filled / ".passdown" / "rules"
    rules.mkdir()
    (rules / "manifest").write_text("HOUSE.layer=global\n", "utf-8")
    (rules / "HOUSE").write_text("Tests first.\n", "utf-8")
    folder = tmp_path / "bin"
    folder.mkdir()
    start = folder / "passdown"
    start.write_text(f'#!/bin/sh\nexec "{forked_python()}" -m passdown "$@"\n', "utf-8")
    start.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(project_root / "src"),
    }
    done = subprocess.run(
        [bash, "-c", BASH], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "start status state",
        "T-1",
        "--files",
        "state-file switch-artifact",
        "list approve reject record",
        "implementing",
        "T-1",
        "note.yaml",
        "heads",
        "coder tester",
        "coder",
        "HOUSE global",
    ]


def test_completion_needs_a_shell_and_offers_plain_names_alone(project: Path, cli: Run) -> None:
    """A shell expands what it is offered, so a name with a dollar in it is none to offer."""
    assert "name a shell" in cli("completion", code=2).err
    rules = project / ".passdown" / "rules"
    rules.mkdir()
    (rules / "manifest").write_text("$(id).layer=global\nHOUSE.layer=star\nHOUSE.trigger=x\n")
    for name in ("$(id)", "HOUSE"):
        (rules / name).write_text("Tests first.\n", "utf-8")
    assert offered(cli, "rules", "show", "") == ["HOUSE", "star"]
    assert offered(cli, "brief", "T-1", "--agent", "") == []


def offered(cli: Run, *words: str) -> list[str]:
    return cli("completion", "--offer", "bash", "--", *words).out.splitlines()


def test_completion_offers_every_verb_option_and_choice(project: Path, cli: Run) -> None:
    assert set(VERBS) < set(offered(cli, ""))
    assert {"--kind", "--task", "--json"} < set(offered(cli, "recall", "-"))
    assert offered(cli, "recall", "--kind", "de") == ["decision"]
    assert offered(cli, "graph", "near", "--direction", "") == ["out", "in", "both"]
    assert {"task", "agent", "decision"} < set(offered(cli, "knowledge", "add", "--type", ""))
    assert offered(cli, "nonsense", "") == []
    described = cli("completion", "--offer", "fish", "--", "recall", "--wor").out
    assert described.startswith("--words\t")


def test_git_gets_what_a_team_writes_by_hand_and_no_record(
    filled: Path, need_program: Callable[[str], str]
) -> None:
    """Settings, rules and profiles are shared; ledger, state, handoffs and sessions stay."""
    git = need_program("git")
    runtime = filled / ".passdown"
    shared = [".gitignore", "config.toml", "rules/manifest", "rules/more/deep", "agents/qa.md"]
    for name in (*shared, "sessions/s1.json", "handoffs/h.yaml", "sessions/rules/x"):
        path = runtime / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("x\n", "utf-8")
    assert (runtime / "ledger.db").exists()
    assert (runtime / "state").exists()
    subprocess.run([git, "init", "-q"], cwd=filled, check=True)
    subprocess.run([git, "add", ".passdown"], cwd=filled, check=True)
    listed = [git, "ls-files", ".passdown"]
    found = subprocess.run(listed, cwd=filled, check=True, capture_output=True, text=True)
    assert set(found.stdout.split()) == {f".passdown/{name}" for name in shared}


def test_an_ignore_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".passdown").mkdir()
    ignore = tmp_path / ".passdown" / ".gitignore"
    ignore.write_text("*\n", "utf-8")
    open_workspace(str(tmp_path)).close()
    assert ignore.read_text("utf-8") == "*\n"


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")]
)
def test_completion_scripts_parse(shell: str, check: str, tmp_path: Path, cli: Run) -> None:
    path = tmp_path / "script"
    path.write_text(cli("completion", shell).out, "utf-8")
    found = shutil.which(shell)
    if found:
        assert subprocess.run([found, check, str(path)], check=False).returncode == 0
