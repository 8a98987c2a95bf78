"""A workspace behind a server has the methods of one that is open here: the same names, the same
parameters, equal values for the same questions. What it refuses is a short list.
"""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown.errors import PassdownError
from passdown.operations import OPERATIONS
from passdown.testing import full_handoff, write_files
from passdown.workspace.switches import Switch
from tests.interfaces.web.conftest import QUICK
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown.workspace import Workspace

AT = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)
"""A clock that stands: an artifact of a switch is named by the time."""

ELSEWHERE = [operation.name for operation in OPERATIONS if operation.instead[0]]
"""The methods that need what only one machine has."""


def test_a_closed_workspace_refuses_as_one_here_does(tmp_path: Path) -> None:
    """Reads and writes alike, and nothing is written."""
    with passdown.open(str(tmp_path), settings=QUICK) as here, over_http(here) as remote:
        remote.create_task("T-1", title="Login", agent="kim")
        assert remote.knowledge.render() == here.knowledge.render()
        remote.close()
        for call in (remote.tasks, lambda: remote.warn("T-1", agent="kim", text="late")):
            with pytest.raises(PassdownError, match="the workspace is closed"):
                call()
        assert here.task("T-1").version == 1


@pytest.mark.promise("W-10")
def test_every_method_is_the_server_s_or_says_that_it_is_not() -> None:
    """None reaches for a store that isn't there; a new one has to choose."""
    for operation in OPERATIONS:
        assert operation.http or operation.has_client or operation.instead[0], operation.name
    assert ELSEWHERE == [
        "rules.inject",
        "rules.report",
        "files.state_file",
        "imports.run",
        "imports.migrate",
        "embeddings.use",
    ]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Workspace, Workspace]]:
    """One workspace with something of everything, here and behind a server."""
    write_files(str(tmp_path))
    (tmp_path / "agents").mkdir()
    for name in ("planner", "coder"):
        (tmp_path / "agents" / f"{name}.md").write_text(f"I am the {name}\n")
    for command in (["init", "-q"], ["add", "src"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    with passdown.open(str(tmp_path), settings=QUICK, clock=lambda: AT) as here:
        here.create_task("T-1", title="Login", agent="planner")
        here.create_task("T-2", title="Login page", agent="planner", depends_on=["T-1"])
        here.hand_off(full_handoff())
        here.knowledge.add(
            [{"id": "Auth", "type": "component", "summary": "Signs in", "tags": ["auth"]}],
            [{"source": "Auth", "relation": "uses", "target": "T-1#d1"}],
            agent="coder",
        )
        with over_http(here) as there:
            yield here, there


QUESTIONS: dict[str, Callable[[Workspace], object]] = {
    "task": lambda ws: ws.task("T-1"),
    "tasks": lambda ws: (ws.tasks(), ws.tasks(with_workspace=True)),
    "state": lambda ws: ws.state("T-1"),
    "load": lambda ws: (ws.load("T-1"), ws.load("T-9")),
    "log": lambda ws: ws.log(),
    "changes": lambda ws: ws.changes(),
    "show": lambda ws: ws.show("T-1#d1"),
    "diff": lambda ws: ws.diff("T-1", 1, 2),
    "inbox": lambda ws: ws.inbox("coder"),
    "gates": lambda ws: ws.gates(all=True),
    "artifacts": lambda ws: ws.artifacts("T-1"),
    "path_history": lambda ws: ws.files.history("T-1", "src/auth/jwt.py"),
    "inline_plan": lambda ws: ws.files.inline_plan("T-1", 500),
    "summary": lambda ws: ws.context.summary("T-1"),
    "check_summary": lambda ws: ws.context.check("T-1", ws.context.summary("T-1")),
    "handoff_context": lambda ws: ws.context.handoff_context("T-1"),
    "brief": lambda ws: ws.brief("T-1", agent="coder", budget=400, record=False),
    "check_brief": lambda ws: ws.context.check(
        "T-1", ws.brief("T-1", agent="coder", record=False).text
    ),
    "why": lambda ws: ws.context.why("T-1#d1", agent="coder"),
    "switch": lambda ws: ws.switch("T-1", to_agent="coder", budget=600, record=False),
    "switch, told how": lambda ws: ws.switch(
        "T-1",
        to_agent="coder",
        from_agent="planner",
        counter="chars4",
        profiles="agents",
        record=False,
    ),
    "switch without a profile": lambda ws: ws.switch("T-1", to_agent="nobody", record=False),
    "prompt": lambda ws: ws.context.prompt(
        "@coder go on", task="T-1", active="planner", record=False
    ),
    "a prompt that calls nobody": lambda ws: ws.context.prompt("go on", task="T-1", record=False),
    "switch_artifacts": lambda ws: ws.context.saved_switches(task="T-1"),
    "subagent_prompt": lambda ws: ws.context.subagent_prompt("coder", "Do it"),
    "profile": lambda ws: (ws.context.profile("coder"), ws.context.profile("nobody")),
    "agents": lambda ws: ws.context.agents(),
    "compaction": lambda ws: (ws.context.compaction(10), ws.context.compaction(10**9)),
    "injection": lambda ws: ws.context.injection("T-2"),
    "computed_context": lambda ws: ws.context.computed("T-2", "complex"),
    "compact_context": lambda ws: ws.context.compact("T-1"),
    "next_steps": lambda ws: ws.context.next_steps("T-1"),
    "recall": lambda ws: ws.recall("cookie", limit=3),
    "graph": lambda ws: ws.knowledge.graph(task="T-1", depth=2),
    "graph_text": lambda ws: [
        ws.knowledge.render(form) for form in ("json", "dot", "mermaid", "svg")
    ],
    "edges": lambda ws: (ws.knowledge.edges(), ws.knowledge.edges(source="Auth")),
    "neighbours": lambda ws: ws.knowledge.neighbours("Auth", depth=3, direction="both"),
    "tagged": lambda ws: ws.knowledge.tagged(["auth"], limit=5),
    "tasks_about": lambda ws: ws.knowledge.tasks_about("auth", types=["pattern", "decision"]),
    "pack": lambda ws: (ws.knowledge.pack("T-2"), ws.knowledge.pack("T-1", nodes=3, format="json")),
    "journal": lambda ws: ws.knowledge.journal("T-1"),
    "audit": lambda ws: ws.knowledge.audit(),
    "embedding": lambda ws: ws.embeddings.status(),
    "embed": lambda ws: ws.embeddings.update(),
    "verify": lambda ws: ws.verify(),
    "verify against": lambda ws: ws.verify(ws.maintenance.heads()),
    "heads": lambda ws: ws.maintenance.heads()["heads"],
    "checkout": lambda ws: ws.files.checkout(),
    "reindex": lambda ws: ws.maintenance.reindex(),
    "doctor": lambda ws: ws.maintenance.doctor()["findings"],
}


@pytest.mark.promise("W-7", "W-10")
def test_the_same_question_gets_an_equal_value(both: tuple[Workspace, Workspace]) -> None:
    """Values of the same types with the same content, whatever they are made of."""
    here, there = both
    for name, ask in QUESTIONS.items():
        found = ask(there)
        assert _placeless(found) == _placeless(ask(here)), name
        assert type(found) is type(ask(here)), name


def _placeless(value: Any) -> Any:
    """A value without the places where there is more, which are of the machine that asks, and
    without how many tokens a switch is with those.
    """
    if isinstance(value, Switch):
        value = value._replace(tokens=0, parts={}, brief=value.brief._replace(budget=0))
    if isinstance(value, str):
        return _PLACES.sub("", value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _placeless(entry) for name, entry in items}
    if isinstance(value, list | tuple):
        return [_placeless(entry) for entry in cast("list[Any]", value)]
    return value


_PLACES = re.compile(
    r"State: passdown state T-1, or GET |State file: |/api/tasks/T-1/state|"
    r"\.passdown/state/T-1\.json|More: (\.passdown/handoffs/\S*|passdown state T-1)"
)


@pytest.mark.promise("W-10")
def test_what_is_told_from_afar_names_no_file_of_the_server(
    both: tuple[Workspace, Workspace],
) -> None:
    """Where there is more is a command or an address that who asks can use, and it answers."""
    there = both[1]
    told = [
        there.context.summary("T-1"),
        there.switch("T-1", to_agent="coder", record=False).text,
        *there.brief("T-1", agent="coder", record=False).reach,
        *(e["artifact"]["full_record"] for e in there.context.saved_switches(task="T-1")),
    ]
    assert [text for text in told if ".passdown/" in text] == []
    assert "State: passdown state T-1, or GET /api/tasks/T-1/state" in told[0]
    assert "More: passdown state T-1" in told[1]
    assert there.files.state_document("T-1")["task_id"] == "T-1"


@pytest.mark.promise("W-10")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_needs_one_machine_says_so_and_what_to_do(
    both: tuple[Workspace, Workspace], name: str
) -> None:
    given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "files.state_file": (("T-1",), {}),
        "rules.inject": (("hello",), {"session": "s"}),
        "embeddings.use": (("mine", len), {}),
        "imports.run": (("docs/adr",), {}),
        "imports.migrate": (("a note\nof two lines",), {}),
    }
    args, options = given.get(name, ((), {}))
    with pytest.raises(PassdownError, match="doesn't offer") as caught:
        attrgetter(name)(both[1])(*args, **options)
    assert caught.value.code == "not_offered"
    assert len(caught.value.next_step) > 20
