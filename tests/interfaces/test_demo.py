"""The demonstration does what it shows: files, commits, a gate, an express branch, a clean end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import passdown
from passdown.relay.express import express_records
from passdown.relay.runs import Runs
from tests.processes import forked_python
from tests.relay.repositories import git

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
MOST_S = 200


def played(folder: Path, *argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """The demonstration on a machine without a terminal and without a git identity."""
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = {
        "PATH": path or os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(folder / "home"),
        "TMPDIR": str(temporary),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return subprocess.run(
        [forked_python(), "-m", "passdown", "demo", *argv],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )


def test_the_demonstration_shows_a_whole_relay_and_leaves_nothing_behind(
    tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    need_program("git")
    began = time.monotonic()
    done = played(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert time.monotonic() - began < MOST_S
    for text in (
        "$ passdown run relay.yaml --task T-1",
        "sent back: 2 problems in the handoff",
        "for coder (",
        "code (2)",
        "waits: gate T-1#k1 is waiting for a person",
        "$ passdown gate approve T-1#k1 --by kim",
        "R-1 can continue",
        ": done by coder on passdown/express-",
        "R-1 completed after",
        "coder: Round half a cent up",
        "kim: Say where prices are",
        "suggested_next_steps[0].priority: 'urgent' is not one of the choices",
        "# T-1 for reviewer, version 9 [",
        "T-1#g",
        "12      releaser",
        "0 lost",
        "chain_broken",
        "rollback",
        "Look further",
    ):
        assert text in done.stdout, text
    assert "\x1b" not in done.stdout
    readme = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert readme is not None
    timeless = re.sub(r"(?m)^ +[0-9.]+s  ", "  …s  ", done.stdout)
    timeless = re.sub(r"\([0-9.]+ s, .*\)$", "(…)", timeless, flags=re.MULTILINE)
    lines = iter(timeless.splitlines())
    assert all(line in lines for line in readme[1].splitlines()), "in this order"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_kept_is_what_was_shown(tmp_path: Path, need_program: Callable[[str], str]) -> None:
    need_program("git")
    done = played(tmp_path, "--keep", "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    kept = tmp_path / "kept"
    assert re.search(r"^  .*passdown ui$", done.stdout, re.MULTILINE)
    shown = re.findall(r"^[*|] +(?:\* )?([0-9a-f]{7,} .*)$", done.stdout, re.MULTILINE)
    logged = git(kept, "log", "--all", "--format=%h %an: %s").splitlines()
    assert sorted(shown) == sorted(logged)
    assert len(logged) == 6
    assert (kept / "shop" / "prices.py").read_text("utf-8").count("+ 50") == 1
    ElementTree.parse(kept / "growth.svg")
    with passdown.open(str(kept), create=False) as ws:
        assert ws.verify().ok
        run = Runs(ws).get("R-1")
        assert [turn.leg for turn in run.legs.values()] == [
            *("plan", "code", "review", "code", "review", "check", "release"),
        ]
        assert run.legs[2].measured["attempts"] == 2
        (item,) = express_records(ws)
        assert item.status == "done"
        assert item.result["branch"] == item.item.branch
        (gate,) = [g for g in ws.gates("T-1", all=True) if g.answered_by]
        assert (gate.status, gate.answered_by) == ("approved", "kim")
    for command in re.findall(r"^  passdown (\w+)", done.stdout.partition("Kept in")[2], re.M):
        answer = subprocess.run(
            [sys.executable, "-m", "passdown", command, "--help"],
            capture_output=True,
            check=False,
        )
        assert answer.returncode == 0, command


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    nothing = tmp_path / "bin"
    nothing.mkdir()
    done = played(tmp_path, path=str(nothing))
    assert done.returncode == 1
    assert "git is not installed" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(
    tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    need_program("git")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine.txt").write_text("mine", "utf-8")
    done = played(tmp_path, "--keep", str(kept))
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]
