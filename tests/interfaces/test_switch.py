"""`switch` and `artifact`: the context of who takes over, the prompt hook, and artifact files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.workspace import open as open_workspace
from passdown.workspace.switches import all_artifacts
from tests.interfaces.running import data_of
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interfaces.running import Run

UNCOMPARED = "well formed; not compared (no record of this file)"
ROOT = Path(__file__).resolve().parents[2]
PROFILES = {
    "coder": "# Coder\n\nYou write small programs.\tTabs stay, and so does \u202e this.\r\n",
    "reviewer": "# Reviewer\n\nYou read what others wrote.",
    "tester": "# Tester\n\nYou break things.\n",
}


@pytest.fixture
def team(filled: Path) -> Path:
    """The filled project with a folder of profiles."""
    (filled / "agents").mkdir()
    for name, text in PROFILES.items():
        (filled / "agents" / f"{name}.md").write_bytes(text.encode())
    return filled


def hook(folder: Path, given: bytes, *argv: str) -> tuple[bytes, str]:
    """What the prompt hook, as a program, makes of a prompt."""
    done = run_python(
        [sys.executable, "-m", "passdown", "switch", "--prompt", "-", *argv],
        input=given,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode()


def handoffs(folder: Path) -> list[Path]:
    return sorted((folder / ".passdown" / "handoffs").glob("*"))


@pytest.mark.promise("S2-7", "S2-8")
def test_the_new_agents_profile_stands_alone_and_unchanged(
    team: Path, program: Run, as_json: Callable[..., Any]
) -> None:
    first = program("switch", "--task", "T-1", "--to", "coder").out
    assert "You write small programs." in first
    done = run_python(
        [sys.executable, "-m", "passdown", "switch", "--task", "T-1", "--to", "coder"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(PROFILES["coder"].encode() + b"\n\n")
    found = as_json("switch", "--task", "T-1", "--to", "reviewer")
    assert found["text"].startswith(PROFILES["reviewer"] + "\n\n")
    assert "From coder to reviewer, " in found["text"].splitlines()[4]
    assert "small programs" not in found["text"]
    assert f".passdown/handoffs/{found['artifact_file']}" in found["text"]


@pytest.mark.promise("S2-12")
def test_json_has_the_tokens_of_every_part(team: Path, as_json: Callable[..., Any]) -> None:
    (team / "house.md").write_text("House rule: tests first.\n", "utf-8")
    ask = ("switch", "--task", "T-1", "--to", "tester", "--rules", "house.md", "--budget", "400")
    found = as_json(*ask, "--counter", "chars4", "--from", "coder")
    parts = found["parts"]
    assert set(parts) == {"profile", "rules", "summaries", "brief", "total"}
    assert all(parts[name] > 0 for name in parts)
    assert (found["counter"], found["tokens"]) == ("chars4", parts["total"])
    assert parts["summaries"] + parts["brief"] <= 400
    assert "House rule: tests first." in found["text"]
    assert (found["from_agent"], found["to_agent"]) == ("coder", "tester")


def test_profiles_may_come_from_another_folder(team: Path, cli: Run) -> None:
    (team / "others").mkdir()
    (team / "others" / "tester.md").write_text("Another tester.\n", "utf-8")
    out = cli("switch", "--task", "T-1", "--to", "tester", "--profiles", "others").out
    assert out.startswith("Another tester.\n")
    answer = cli("switch", "--task", "T-1", "--to", "nobody")
    assert "no_profile" in answer.err
    assert "From " in answer.out.splitlines()[0]


def test_nothing_is_written_on_request(team: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    cli("switch", "--task", "T-1", "--to", "tester", "--no-record")
    assert as_json("log", "T-1", "--briefs") == []
    assert handoffs(team) == []


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--to", "coder", "--prompt", "-"],
        ["--prompt", "-", "--profiles", "agents"],
        ["--prompt", "-", "--rules", "rules.md"],
        ["--to", "coder", "--active", "tester"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(team: Path, cli: Run, argv: list[str]) -> None:
    assert "--prompt" in cli("switch", "--task", "T-1", *argv, code=2).err


@pytest.mark.promise("S2-13")
@pytest.mark.parametrize(
    "given",
    [
        b"go on with the login\r\n",
        b"mail coder@example.org, `@coder` and /usr/bin\n\n",
        b"@unknown do it",
        b"\xff\xfe not text \x00\x1b[2J @",
        b"",
        "@tester is who speaks already, \u202e even so".encode(),
        b"x" * 2_000_000,
    ],
    ids=range(7),
)
def test_a_prompt_that_calls_nobody_comes_out_as_it_was(team: Path, given: bytes) -> None:
    out, said = hook(team, given, "--task", "T-1", "--active", "tester")
    assert out == given
    assert said == ""


@pytest.mark.promise("S2-13")
def test_a_prompt_comes_out_as_it_was_where_switches_are_off(team: Path) -> None:
    given = b"@coder go on \xff\r\n"
    on, _ = hook(team, given, "--task", "T-1", "--active", "tester")
    assert on != given
    (team / ".passdown" / "config.toml").write_text("[switch]\nenabled = false\n", "utf-8")
    off, said = hook(team, given, "--task", "T-1", "--active", "tester")
    assert (off, said) == (given, "")


@pytest.mark.promise("S2-12", "S2-29")
def test_a_prompt_that_calls_an_agent_comes_behind_its_context(
    team: Path, as_json: Callable[..., Any]
) -> None:
    given = b"@coder mend the \xff byte\r\n"
    out, said = hook(team, given, "--task", "T-1", "--active", "tester")
    assert out.startswith(PROFILES["coder"].encode())
    assert out.endswith(b"\n\n" + given)
    assert b"passdown state T-1" in out
    assert said == ""
    assert as_json("log", "T-1", "--briefs")[0]["agent"] == "coder"
    (team / "prompt.txt").write_text("/reviewer look at it", "utf-8")
    found = as_json("switch", "--task", "T-1", "--prompt", "prompt.txt", "--active", "coder")
    assert found["agent"] == "reviewer"
    assert found["switched"]["summaries"]
    assert found["text"].endswith("\n\n/reviewer look at it")


def test_a_prompt_takes_a_budget_and_may_leave_no_record(
    team: Path, as_json: Callable[..., Any]
) -> None:
    ask = ("--task", "T-1", "--active", "tester", "--no-record", "--json")
    whole, _ = hook(team, b"@coder go on", *ask)
    tight, _ = hook(team, b"@coder go on", *ask, "--budget", "80")
    parts = data_of(tight)["switched"]["parts"]
    assert parts["brief"] + parts["summaries"] <= 80
    assert parts["brief"] < data_of(whole)["switched"]["parts"]["brief"]
    assert as_json("log", "T-1", "--briefs") == []
    assert handoffs(team) == []


@pytest.mark.promise("S2-29")
@pytest.mark.parametrize("obstacle", ["a file", "a read-only folder"])
def test_a_save_that_fails_keeps_no_prompt_back(team: Path, obstacle: str) -> None:
    folder = team / ".passdown" / "handoffs"
    if obstacle == "a file":
        folder.write_text("in the way", "utf-8")
    elif os.geteuid() == 0:
        # Who may write anywhere is stopped by a name that leads nowhere.
        folder.symlink_to("/proc/nowhere/handoffs")
    else:
        folder.mkdir(0o500)
    began = time.monotonic()
    out, said = hook(team, b"@coder go on", "--task", "T-1", "--active", "tester")
    assert time.monotonic() - began < 60
    assert out.startswith(PROFILES["coder"].encode())
    assert out.endswith(b"\n\n@coder go on")
    assert "not_written" in said


@pytest.mark.promise("S2-29")
def test_a_busy_store_keeps_no_prompt_back(team: Path) -> None:
    holder = (
        "import sys, time\nfrom passdown.workspace import open\n"
        "ws = open('.', create=False)\n"
        "with ws._context.store.writing([]):\n"
        "    print('held', flush=True)\n    sys.stdin.readline()\n"
    )
    process = Process(
        [sys.executable, "-c", holder],
        cwd=team,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        began = time.monotonic()
        out, said = hook(team, b"@coder go on", "--task", "T-1", "--active", "tester")
        took = time.monotonic() - began
        process.stdin.write("\n")
        process.stdin.close()
    assert took < 60
    assert out.startswith(PROFILES["coder"].encode())
    assert "not_recorded" in said


@pytest.mark.promise("S2-29")
def test_a_prompt_goes_on_where_no_context_can_be_made(team: Path, tmp_path: Path) -> None:
    out, said = hook(team, b"@coder go on", "--task", "T-9")
    assert out == b"@coder go on"
    assert "T-9" in said
    assert "passed on unchanged" in said
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out, said = hook(elsewhere, b"@coder go on", "--task", "T-1")
    assert out == b"@coder go on"
    assert "no Passdown workspace" in said
    (team / ".passdown" / "config.toml").write_text("switch = 3", "utf-8")
    out, said = hook(team, b"@coder go on", "--task", "T-1", "--json")
    assert b'"text": "@coder go on"' in out
    assert b'"switched": null' in out
    assert b'"error"' in out


@pytest.mark.promise("S2-14", "S2-28")
def test_an_artifact_waits_for_its_agent_and_is_consumed_once(
    team: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    assert "waits for tester" in program("artifact", "save", "--task", "T-1", "--to", "tester").out
    (file,) = handoffs(team)
    assert file.name.startswith("handoff-")
    assert "-to-tester-" in file.name
    assert file.suffix == ".yaml"
    assert (team / ".passdown" / ".gitignore").read_text("utf-8").startswith("*\n")
    assert "waiting" in program("artifact", "list", "--agent", "tester").out
    waiting = as_json("artifact", "list", "--agent", "tester")
    assert [(entry["file"], entry["consumed"]) for entry in waiting] == [(file.name, False)]
    assert "consumed: false" in file.read_text("utf-8")
    assert file.name in program("switch", "--task", "T-1", "--to", "tester").out
    assert handoffs(team) == [file]
    assert "consumed: true" in file.read_text("utf-8")
    assert "nothing is waiting for tester" in program("artifact", "list", "--agent", "tester").out
    assert [e["consumed"] for e in as_json("artifact", "list", "--task", "T-1")] == [True]
    consuming = [entry.get("consumed") for entry in as_json("log", "T-1", "--briefs")]
    assert consuming == [[file.name], None]
    cli("switch", "--task", "T-1", "--to", "tester")
    assert file.name not in as_json("log", "T-1", "--briefs")[0]["consumed"]


def test_artifacts_are_listed_by_task_by_agent_or_all(
    team: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Without options the latest of all tasks; a task that isn't there is refused."""
    assert "no artifacts" in cli("artifact", "list").out
    assert "no artifacts" in cli("artifact", "list", "--task", "T-1").out
    assert "T-9" in cli("artifact", "list", "--task", "T-9", code=1).err
    assert "T-9" in cli("artifact", "list", "--task", "T-9", "--agent", "coder", code=1).err
    cli("task", "new", "T-2", "--title", "Logout", "--agent", "planner")
    for task, agent in (("T-1", "tester"), ("T-2", "coder")):
        cli("switch", "--task", task, "--to", agent)
    cli("artifact", "save", "--task", "T-1", "--to", "coder")
    found = as_json("artifact", "list")
    assert [(e["task"], e["to_agent"], e["consumed"]) for e in found] == [
        ("T-1", "coder", False),
        ("T-2", "coder", True),
        ("T-1", "tester", True),
    ]
    alone = as_json("artifact", "list", "--task", "T-1")
    assert [entry["file"] for entry in alone] == [found[0]["file"], found[2]["file"]]
    with open_workspace(str(team)) as workspace:
        assert [e["file"] for e in all_artifacts(workspace, 1)] == [found[0]["file"]]
    assert "same_agent" in cli("artifact", "save", "--task", "T-1", "--to", "reviewer",
                               "--from", "reviewer", code=1).err  # fmt: skip


@pytest.mark.promise("S2-25")
def test_check_finds_an_edit_by_the_record(
    team: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("switch", "--task", "T-1", "--to", "tester")
    (file,) = handoffs(team)
    assert cli("artifact", "check", str(file)).out == f"{file}: sound\n"
    whole = file.read_text("utf-8")
    file.write_text(whole.replace("is this legal?", "is this fine?"), "utf-8")
    assert file.read_text("utf-8") != whole
    found = as_json("artifact", "check", str(file), code=1)
    assert [(p["path"], p["code"]) for p in found["files"][str(file)]] == [("blockers", "edited")]
    said = cli("artifact", "check", str(file), code=1).out
    assert "is this fine?" in said
    assert "is this legal?" in said
    copy = team / "copy.yaml"
    copy.write_text(file.read_text("utf-8"), "utf-8")
    assert "edited" in cli("artifact", "check", str(copy), code=1).out
    copy.write_text(whole, "utf-8")
    assert cli("artifact", "check", str(copy)).out == f"{copy}: sound\n"
    assert as_json("artifact", "check", str(copy))["compared"] == [str(copy)]
    file.write_text(whole.replace("consumed: true", "consumed: false"), "utf-8")
    assert "warning" in cli("artifact", "check", str(file)).out
    file.write_text("a: [", "utf-8")
    codes = {p["code"] for p in as_json("artifact", "check", str(file), code=1)["files"][str(file)]}
    assert "edited" in codes
    file.write_text(whole, "utf-8")
    forged = file.with_name("handoff-a-to-b-20260101T000000.000000Z.yaml")
    forged.write_text(whole, "utf-8")
    out = cli("artifact", "check", str(file), str(forged), code=1).out
    assert f"{file}: sound" in out
    assert f"{forged}: not sound" in out
    assert "not_recorded" in out


@pytest.mark.promise("S2-25")
def test_check_and_show_work_without_a_workspace(
    team: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("switch", "--task", "T-1", "--to", "tester")
    text = handoffs(team)[0].read_text("utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("copy.yaml").write_text(text, "utf-8")
    assert cli("artifact", "check", "copy.yaml").out == f"copy.yaml: {UNCOMPARED}\n"
    assert "## Blockers\n\n- is this legal?" in cli(
        "artifact", "show", "copy.yaml", "--markdown"
    ).out.replace("(medium) ", "")
    assert cli("artifact", "show", "copy.yaml").out.rstrip("\n") == text.rstrip("\n")
    assert '"to_agent": "tester"' in cli("artifact", "show", "copy.yaml", "--json").out
    Path("empty.yaml").write_text(cli("artifact", "template").out, "utf-8")
    out = cli("artifact", "check", "empty.yaml", "copy.yaml", "gone.yaml", code=1).out
    for said in ("from_agent", "story_context", "next_action", "missing_file", UNCOMPARED):
        assert said in out
    Path("carried.yaml").write_text(text + "persona: a coder\n", "utf-8")
    assert "never_carried" in cli("artifact", "check", "carried.yaml", code=1).out
    cli("artifact", "check", "copy.yaml", "--store", str(elsewhere), code=1)


def test_an_artifact_of_another_workspace_is_judged_by_itself(
    team: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("switch", "--task", "T-1", "--to", "tester")
    file = handoffs(team)[0]
    other = tmp_path / "other"
    other.mkdir()
    open_workspace(str(other)).close()
    monkeypatch.chdir(other)
    assert cli("artifact", "check", str(file)).out == f"{file}: {UNCOMPARED}\n"
