"""The handoff schema's own blocks, as the document prints them, through every interface.

Each is handed in as it is: a heading inside the fence, `path: [path]`, `change_type: enum`, pieces
of a handoff and pseudocode. None may crash anything; what is wrong with it is said field by field.
Filled in, the whole block is a handoff.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.interfaces.running import data_of
from tests.interfaces.web.asking import ask
from tests.relay.relays import document, leg
from tests.relay.staging import QUICK, Stage
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown import Workspace
    from tests.interfaces.running import Run

FOLDER = Path(__file__).parent.parent / "fixtures" / "schema_blocks"
BLOCKS = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.txt"))}
WHOLE = BLOCKS["01_handoff"]
CHOICES = {
    "completed | partial | failed | blocked": "completed",
    "add | modify | delete | refactor": "modify",
    "high | medium | low": "high",
}
FENCED = {
    name: text if "```" in text else f"# Task T-1: Login\n\n```yaml\n{text}```\n"
    for name, text in BLOCKS.items()
}


def filled(text: str) -> str:
    for choices, one in CHOICES.items():
        text = text.replace(choices, one)
    return text


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path), settings=QUICK) as workspace:
        workspace.create_task("T-1", title="Login", agent="coder")
        for number in ("task-005", "task-006"):
            workspace.create_task(number, title="Pay", agent="coder")
        yield workspace


@pytest.mark.promise("S3-20")
@pytest.mark.parametrize("name", FENCED)
def test_a_block_is_refused_on_the_command_line(ws: Workspace, cli: Run, name: str) -> None:
    for number, text in enumerate((BLOCKS[name], FENCED[name])):
        file = Path(ws.root) / f"note{number}.md"
        file.write_text(text, "utf-8")
        named = () if "# Task [ID]" in text else ("--task", "T-1")  # the template's own id counts
        argv = ("handoff", str(file), *named, "--from", "coder", "--json")
        said = cli("--store", ws.store_url, *argv, code=1)
        problems = data_of(said.out)["problems"]
        assert problems, name
        assert all(problem["message"] for problem in problems)
    assert ws.state("T-1").version == 1


@pytest.mark.promise("S3-20")
def test_a_block_is_refused_over_http(ws: Workspace) -> None:
    with served(ws) as server:
        token = server.token("coder", "write")
        for name, text in FENCED.items():
            body = {"handoff": text, "defaults": {"task": "T-1"}}
            answer = ask(server.port, "POST", "/api/handoffs", token=token, body=body)
            assert answer.status == 422, (name, answer.body)
            assert answer.document["problems"], name
    assert ws.state("T-1").version == 1


@pytest.mark.promise("S3-20")
@pytest.mark.parametrize("name", FENCED)
def test_a_block_in_an_agent_s_answer_is_sent_back(ws: Workspace, name: str) -> None:
    stage = Stage(ws)
    answers = [FENCED[name], "## Handoff\n" + FENCED[name], f"## Handoff\n\n{BLOCKS[name]}"]
    run = stage.run(document(leg("code", "coder")), lambda _: answers[len(stage.asked) - 1])
    assert len(stage.asked) == 3
    assert run.status == "failed"
    assert "outcome" in stage.asked[-1].prompt
    assert ws.state("T-1").outcome is None


@pytest.mark.promise("S3-20")
@pytest.mark.parametrize("interface", ["cli", "http", "relay"])
def test_the_whole_block_filled_in_is_a_handoff(ws: Workspace, cli: Run, interface: str) -> None:
    """With its heading inside the fence, as the document has it."""
    text = filled(FENCED["01_handoff"])
    for path in ("src/auth/jwt.ts", "src/config/database.ts"):
        file = Path(ws.root) / path
        file.parent.mkdir(parents=True)
        file.write_text("//\n" * 200, "utf-8")
    if interface == "cli":
        note = Path(ws.root) / "T-1.md"
        note.write_text(text, "utf-8")
        cli("--store", ws.store_url, "handoff", str(note), "--task", "T-1", "--from", "coder")
    elif interface == "http":
        with served(ws) as server:
            body = {"handoff": text, "defaults": {"task": "T-1"}}
            token = server.token("coder", "write")
            assert ask(server.port, "POST", "/api/handoffs", token=token, body=body).status == 201
    else:
        stage = Stage(ws)
        stage.run(document(leg("code", "coder")), lambda _: text)
        assert "Your handoff is valid." in stage.asked[1].prompt  # asked once for a summary
    told = ws.brief("T-1", agent="qa", budget=2_000).text
    for part in ("src/auth/jwt.ts", "AuthContext.getCurrentUser()", "exponential backoff"):
        assert part in told
    assert "Missing API credentials" in told


@pytest.mark.promise("S3-20")
@pytest.mark.parametrize("language", ["yaml", "markdown", "md", ""])
def test_a_task_file_whose_section_is_inside_a_fence_is_read(
    ws: Workspace, cli: Run, language: str
) -> None:
    """By every command that takes a file; also with a fence of its own around the YAML."""
    said = "from_agent: coder\noutcome: completed\nsummary: {}\n"
    plain = f"```{language}\n## Handoff\n\n{said.format('first')}\n---\n```\n"
    nested = f"````{language}\n## Handoff\n\n```yaml\n{said.format('second')}```\n````\n"
    note = Path(ws.root) / "T-1.md"
    for verb, text, words in (("ingest", plain, "first"), ("handoff", nested, "second")):
        note.write_text(f"# Task T-1: Login\n\n{text}", "utf-8")
        cli("--store", ws.store_url, verb, str(note))
        assert ws.state("T-1").context_summary == words
