"""What README and docs show is what happens: examples are files, and the files run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interfaces.running import data_of
from tests.processes import forked_python

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"


def run(command: list[str], folder: Path) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def block(language: str, after: str) -> str:
    """The first fenced block of a language in README after some text."""
    text = (ROOT / "README.md").read_text()
    rest = text[text.index(after) :]
    match = re.search(rf"```{language}\n(.*?)```", rest, re.DOTALL)
    assert match is not None, after
    return match[1]


def shortened(text: str) -> str:
    """A brief without what differs from run to run: its digest and its marker."""
    return re.sub(r"\[\d{6}\b", "[…", text)


@pytest.mark.promise("S1-1", "P-10")
def test_the_program_in_readme_runs_and_prints_what_readme_says(tmp_path: Path) -> None:
    """The first example is its file, and its output is the real one."""
    example = EXAMPLES / "first_handoff.py"
    assert block("python", "docs/examples/first_handoff.py") == example.read_text()
    printed = run([sys.executable, str(example)], tmp_path)
    assert shortened(printed) == block("text", "It prints what goes")
    state_file = tmp_path / ".passdown" / "state" / "T-1.json"
    assert "Write the middleware" in state_file.read_text()


def test_the_commands_in_readme_run_and_print_what_readme_says(tmp_path: Path) -> None:
    """The command-line story is its file, and the task list it ends with is the real one."""
    story = EXAMPLES / "story.sh"
    assert block("sh", "docs/examples/story.sh") == story.read_text()
    program = tmp_path / "bin" / "passdown"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {forked_python()} -m passdown "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    command = ["env", f"PATH={path}", "COLUMNS=100", "sh", "-e", str(story)]
    printed = run(command, tmp_path)
    assert block("text", "`passdown task list` says") in printed
    assert "6 records in 3 streams" in printed


def test_the_filled_handoff_would_be_recorded_as_it_is(tmp_path: Path) -> None:
    """Each of its fields is known, and its one file is all that it needs."""
    passdown = [forked_python(), "-m", "passdown"]
    (tmp_path / "src" / "auth").mkdir(parents=True)
    (tmp_path / "src" / "auth" / "jwt.py").write_text("def issue():\n    ...\n")
    run([*passdown, "init"], tmp_path)
    for task in ("T-1", "T-2"):
        run([*passdown, "task", "new", task, "--title", task, "--agent", "coder"], tmp_path)
    given = ["handoff", str(EXAMPLES / "handoff.yaml"), "--dry-run", "--json"]
    found = data_of(run([*passdown, *given], tmp_path))
    assert [p for p in found["problems"] if p["code"] != "recommended"] == []


@pytest.mark.promise("P-5")
def test_a_digest_can_be_computed_without_passdown(tmp_path: Path) -> None:
    """The documented sealing gives the stored digests, with the standard library alone."""
    run([sys.executable, str(EXAMPLES / "first_handoff.py")], tmp_path)
    run([forked_python(), "-m", "passdown", "export", "all.zip"], tmp_path)
    check = [sys.executable, "-I", str(EXAMPLES / "check_digest.py"), "all.zip"]
    assert run(check, tmp_path) == "3 records are what was written\n"


def test_every_link_in_the_documents_leads_somewhere() -> None:
    """No document names a file that isn't there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_examples_of_errors_and_of_awaiting_run(tmp_path: Path) -> None:
    """What docs/python.md refers to does what it says."""
    printed = run([sys.executable, str(EXAMPLES / "conflict.py")], tmp_path).splitlines()
    assert printed[:2] == [
        "worked from 1, stored is 2",
        "version 3; asked again: 3, replay True",
    ]
    (tmp_path / "other").mkdir()
    assert run([sys.executable, str(EXAMPLES / "awaited.py")], tmp_path / "other") == "Use JWT\n"


def test_the_dicts_of_the_page_can_be_added(tmp_path: Path) -> None:
    """The example is run as it stands."""
    page = (ROOT / "docs" / "python.md").read_text()
    example = re.search(r"```python\n(ws\.knowledge\.add.*?)```", page, re.DOTALL)
    assert example is not None
    opening = "import passdown\nws = passdown.open('.')\n"
    opening += "ws.create_task('T-1', title='x', agent='planner')\n"
    asking = "\nprint(ws.knowledge.graph(around=['redis'], depth=0).nodes[0].attributes['path'])"
    program = opening + example[1] + asking
    assert run([sys.executable, "-c", program], tmp_path) == "ops/redis.conf\n"
