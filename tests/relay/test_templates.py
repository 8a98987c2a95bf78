"""Templates say who talks with whom about what; values in them are text and nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.tokens import chars4, counter_of
from passdown.errors import InvalidInput
from passdown.relay.conversations import REVIEWS, ask, review
from passdown.relay.prompts import (
    KNOWLEDGE_TOKENS,
    PLACEHOLDERS,
    REQUESTS,
    PromptSubject,
    Templates,
    fenced,
    system_text,
)
from tests.relay.talking import Table, held, opened

if TYPE_CHECKING:
    from passdown.workspace import Workspace


@pytest.fixture
def leases() -> Table:
    table = Table()
    table.put("coder-1", "T-1")
    return table


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return opened(tmp_path, "T-1", "T-2")


def system(ws: Workspace, leases: Table, **given: Any) -> str:
    return held(ws, leases, **given).with_peer("coder-1").messages()[0].content


def test_the_templates_that_ship_have_no_faults() -> None:
    """Each is there, uses only what it may, and a request says what was asked."""
    templates = Templates()
    assert templates.problems() == []
    shipped = Path(templates.file("system")).parent
    assert {path.stem for path in shipped.glob("*.md")} == set(PLACEHOLDERS)
    assert set(REVIEWS.values()) | {"question"} == set(REQUESTS)


@pytest.mark.promise("S4-13")
def test_the_system_message_says_who_with_whom_and_what_about(
    ws: Workspace, leases: Table, tmp_path: Path
) -> None:
    """Profile, peer, title, description, criteria, specification, knowledge, role and rules."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "architect.md").write_text("I draw houses.", "utf-8")
    ws.decide(task="T-1", agent="planner", summary="Bricks", rationale="They last")
    given: dict[str, Any] = {"role": "You review.", "rules": "- No jargon.", "spec": "Two floors."}
    text = system(ws, leases, **given)
    for part in (
        "architect",
        "I draw houses.",
        "coder-1",
        "T-1",
        "Title of T-1",
        "Description of T-1",
        "criterion of T-1",
        "Two floors.",
        "Bricks",
        "You review.",
        "- No jargon.",
    ):
        assert part in text, part
    assert "T-2" not in text


@pytest.mark.promise("S4-13")
def test_the_system_message_is_made_once_for_a_lease(ws: Workspace, leases: Table) -> None:
    """What changes meanwhile shows with the next lease, and not before."""
    before = system(ws, leases)
    ws.update_task("T-1", agent="planner", title="Another title")
    assert system(ws, leases) == before
    assert system(ws, leases, role="Another role") == before
    leases.put("coder-1", "T-1")
    assert "Another title" in system(ws, leases)


def test_a_specification_comes_from_a_file_or_a_folder(ws: Workspace, tmp_path: Path) -> None:
    """T-1.md for T-1; without one, what the task takes and gives."""
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "T-1.md").write_text("Spec of one", "utf-8")
    ws.update_task("T-2", agent="planner", inputs=["plan.md"], outputs=["house"])
    about = PromptSubject("architect", "coder-1", "T-1", spec=specs)

    def made(about: PromptSubject) -> str:
        return system_text(ws, Templates(), about, counter_of("chars4"), 5_000)

    assert "Spec of one" in made(about)
    assert "Spec of one" in made(about._replace(task="T-2", spec=specs / "T-1.md"))
    assert "inputs: plan.md\noutputs: house" in made(about._replace(task="T-2"))


def test_what_is_known_and_the_whole_are_limited(ws: Workspace, leases: Table) -> None:
    """Much knowledge, a long specification and a small window still give a message that fits."""
    for number in range(120):
        summary = f"Title choice {number} " + "and more " * 20
        ws.decide(task="T-1", agent="planner", summary=summary, rationale="Title")
    text = system(ws, leases, spec="long " * 9_000)
    assert chars4(text.rpartition("## Known from other work")[2]) <= KNOWLEDGE_TOKENS + 10
    assert "characters are left out; the whole: the specification" in text
    leases.put("coder-1", "T-1")
    text = system(ws, leases, window=1_000)
    assert chars4(text) <= 1_000 // 2
    assert text.endswith("the whole: passdown state T-1]")


@pytest.mark.promise("S4-14")
def test_a_request_is_a_message_with_the_request_alone(ws: Workspace, leases: Table) -> None:
    """Each kind has its template; nothing of the task or of what was said is repeated in it."""
    conversations = held(ws, leases)
    seen: list[dict[str, str]] = []

    def answer(messages: list[dict[str, str]]) -> str:
        seen.append(messages[-1])
        return "CONTINUE"

    for kind in REVIEWS:
        review(conversations, "coder-1", kind, f"Words of {kind}", answer)
    ask(conversations, "coder-1", "Words of question", answer)
    assert [message["role"] for message in seen] == ["user"] * 5
    for kind, message in zip([*REVIEWS, "question"], seen, strict=True):
        shipped = Path(conversations.templates.file(REVIEWS.get(kind, kind))).read_text("utf-8")
        assert message["content"] == shipped.replace("{{content}}", f"Words of {kind}").strip()
        assert "T-1" not in message["content"]


@pytest.mark.promise("S4-14")
def test_a_folder_replaces_templates_file_by_file(
    ws: Workspace, leases: Table, tmp_path: Path
) -> None:
    """The workspace's own or one that is named; what isn't in it ships."""
    own = tmp_path / ".passdown" / "templates"
    own.mkdir()
    (own / "system.md").write_text("Own: {{agent}} and {{ peer }}.", "utf-8")
    named = tmp_path / "named"
    named.mkdir()
    (named / "plan_review.md").write_text("{{peer}} on {{task}}: {{content}}", "utf-8")
    assert system(ws, leases) == "Own: architect and coder-1."
    leases.put("coder-1", "T-1")
    conversations = held(ws, leases, templates=str(named))
    review(conversations, "coder-1", "plan", "A plan", lambda _: "APPROVED")
    first, request, _ = conversations.with_peer("coder-1").messages()
    assert request.content == "coder-1 on T-1: A plan"
    assert "Title of T-1" in first.content
    with pytest.raises(InvalidInput, match="a folder"):
        held(ws, leases, templates=str(tmp_path / "nowhere"))


@pytest.mark.promise("S4-14")
def test_faults_of_templates_name_file_and_placeholder(
    ws: Workspace, leases: Table, tmp_path: Path
) -> None:
    """All at once; a request with such a template isn't recorded."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "question.md").write_text("{{contents}} {{ }} {{task\n{{7*7}} }}", "utf-8")
    (folder / "system.md").write_bytes(b"\xff")
    (folder / "completion.md").mkdir()
    conversations = held(ws, leases, templates=str(folder))
    found = conversations.templates.problems()
    lines = [problem.line() for problem in found]
    assert [Path(problem.path).name for problem in found] == [
        "system.md",
        *["question.md"] * 4,
        "completion.md",
    ]
    assert "did you mean {{content}}?" in lines[1]
    assert "{{7*7}}" in lines[3]
    assert "'{{task' is not closed" in lines[4]
    talk = conversations.with_peer("coder-1")
    before = talk.context()
    with pytest.raises(InvalidInput, match=r"question\.md: \{\{contents\}\}"):
        ask(conversations, "coder-1", "A question", lambda _: "An answer")
    assert talk.context() == before


@pytest.mark.promise("S4-14")
@given(st.text("{}content gr`\\1"))
def test_values_are_never_read_as_templates(value: str) -> None:
    """A placeholder, a group reference or a fence in a value stays what it is."""
    values = {"content": f"<{value}{{{{agent}}}}>", "agent": "ARCHITECT", "peer": "", "task": ""}
    text = Templates().render("question", values)
    assert text.endswith(values["content"])
    assert "ARCHITECT" not in text
    lines = fenced(f"<{value}>").split("\n")
    assert lines[0] == lines[-1]
    assert all(lines[0] not in line for line in lines[1:-1])
