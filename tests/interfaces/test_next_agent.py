"""What the next agent gets of other tasks: through the command line, Python, a switch and MCP."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw
import pytest

import passdown
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput
from passdown.mcp.tools import call_tool
from passdown.store.sqlite.schema import rows
from tests.interfaces.running import data_of
from tests.serving import Lent, served

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown import Workspace
    from tests.interfaces.running import Run

FIRST: dict[str, Any] = {
    "task": "T-1",
    "from_agent": "planner",
    "to_agent": "coder",
    "outcome": "completed",
    "summary": "The login is there",
    "patterns_discovered": [{"pattern": "One clock for all", "location": "src/clock.py:1-9"}],
    "gotchas": [
        {"issue": "Tokens are UTC", "mitigation": "never use local time", "severity": "medium"},
        {"issue": "The mail server is slow", "mitigation": "wait for it", "severity": "low"},
    ],
    "dependencies_for_next": [{"file": "src/auth.py", "reason": "exports verify | sign"}],
    "suggested_next_steps": [{"step": "Write the page", "priority": "high"}],
}


@pytest.fixture
def ws(tmp_path: Path) -> Generator[Workspace]:
    """T-2 depends on T-1, which is completed; T-3 has nothing to do with either."""
    with passdown.open(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        workspace.create_task("T-2", title="Login page", agent="planner", depends_on=["T-1"])
        workspace.create_task("T-3", title="Invoices", agent="planner")
        workspace.hand_off(FIRST)
        yield workspace


@pytest.mark.promise("S3-27")
@pytest.mark.parametrize("format", ["markdown", "plain", "yaml", "json"])
def test_a_brief_holds_what_the_dependencies_pass_on(ws: Workspace, format: str) -> None:
    found = ws.brief("T-2", agent="coder", format=format, budget=2_000)
    for text in ("One clock for all", "Tokens are UTC", "src/auth.py", "T-1#p1"):
        assert text in found.text
    assert "slow" not in found.text
    assert found.tokens <= 2_000
    assert {"T-1#p1", "T-1#g1", "T-1#r1"} <= {item.address for item in found.shown}


@pytest.mark.promise("S3-27")
def test_warnings_of_a_dependency_are_passed_on(ws: Workspace) -> None:
    ws.warn("T-1", agent="planner", text="Never log tokens")
    found = ws.brief("T-2", agent="coder", budget=2_000)
    assert "Never log tokens" in found.text
    assert "T-1#w1" in {item.address for item in found.shown}
    assert "- ⚠️ Never log tokens" in ws.context.injection("T-2")
    small = ws.brief("T-2", agent="coder", budget=90, record=False)
    assert "T-1#w1" in {*(item.address for item in small.shown), *left_out(ws, "T-2", 90)}


def left_out(ws: Workspace, task: str, budget: int) -> list[str]:
    """The addresses of what a brief of this size leaves out."""
    return list(ws.context.left_out(task, agent="coder", budget=budget))


@pytest.mark.promise("S3-27")
def test_a_switch_holds_it_too_and_a_small_budget_counts_it(ws: Workspace) -> None:
    switched = ws.switch("T-2", to_agent="coder", budget=1_500)
    assert "One clock for all" in switched.text
    small = ws.brief("T-2", agent="coder", budget=60, record=False)
    assert small.tokens <= 60
    assert small.left_out["pattern"] >= 1
    assert small.left_out["reading"] >= 1


@pytest.mark.promise("S3-25")
def test_high_gotchas_reach_the_briefs_of_other_tasks(ws: Workspace) -> None:
    ws.note(
        "gotcha",
        agent="coder",
        task="T-1",
        issue="The build server deletes /tmp at noon",
        mitigation="keep results elsewhere",
        severity="high",
    )
    found = ws.brief("T-3", agent="tester", budget=1_000)
    assert "deletes /tmp at noon" in found.text
    assert "Tokens are UTC" not in found.text
    assert "One clock" not in found.text
    gotcha = next(item.address for item in found.shown if item.address.startswith("T-1#g"))
    ws.set_status(gotcha, "retracted", agent="coder")
    assert "at noon" not in ws.brief("T-3", agent="tester", budget=1_000).text


@pytest.mark.promise("S3-27")
@pytest.mark.usefixtures("each_store")
def test_a_brief_holds_what_all_of_many_dependencies_pass_on(ws: Workspace, cli: Run) -> None:
    """As far as the budget goes; the rest is counted, and listed by address."""
    names = [f"D-{n}" for n in range(30)]
    for name in names:
        ws.create_task(name, title=f"Part {name}", agent="planner")
        ws.hand_off({**FIRST, "task": name, "summary": f"Done with {name}"})
    bare = [f"E-{n}" for n in range(4)]
    for name in bare:
        ws.create_task(name, title="Nothing to say", agent="planner")
    ws.create_task("T-9", title="Together", agent="planner", depends_on=[*names, *bare])
    brief = ("--store", ws.store_url, "brief", "T-9", "--agent", "coder", "--budget")
    whole = cli(*brief, "9000").out
    passed_on = [f"{name}#{each}" for name in names for each in ("p1", "g1", "r1")]
    assert [address for address in passed_on if address not in whole] == []
    assert all(f"{name} (open)" in whole for name in (*names, *bare))
    assert "left out" not in whole
    assert not cli(*brief, "9000", "--left-out").out.strip().startswith("D-")
    for budget in (100, 300, 900):
        small = ws.brief("T-9", agent="coder", budget=budget, record=False)
        shown = [item.address for item in small.shown if "#" in item.address]
        rest = cli(*brief, str(budget), "--left-out").out.split()
        assert sorted([*shown, *(each for each in rest if each in passed_on)]) == sorted(passed_on)
        counted = {**small.left_out}
        counted.pop("task_text", 0)
        assert sum(counted.values()) == len(passed_on) - len(shown)
        assert small.text.endswith(
            'left out: ws.state("T-9"); of needed tasks: ws.context.injection("T-9")\n'
        )


@pytest.mark.promise("S3-25")
@pytest.mark.usefixtures("each_store")
def test_every_high_gotcha_of_other_tasks_is_shown_or_counted(ws: Workspace, cli: Run) -> None:
    found: list[str] = []
    for n in range(30):
        ws.create_task(f"O-{n}", title="Another", agent="planner")
        for severity in ("high", "low"):
            given = {"issue": f"pit {n}", "mitigation": "go round", "severity": severity}
            ws.note("gotcha", agent="coder", task=f"O-{n}", **given)
        found.append(f"O-{n}#g1")
    brief = ("--store", ws.store_url, "brief", "T-3", "--agent", "coder", "--budget")
    whole = cli(*brief, "4000").out
    assert [address for address in found if f"{address} " not in whole] == []
    assert "#g2" not in whole
    small = ws.brief("T-3", agent="coder", budget=150, record=False)
    shown = [item.address for item in small.shown if item.address in found]
    assert 0 < len(shown) == 30 - small.left_out["gotcha"]
    rest = cli(*brief, "150", "--left-out").out.split()
    assert sorted([*shown, *(each for each in rest if each in found)]) == sorted(found)


@pytest.mark.promise("S3-25")
@pytest.mark.usefixtures("each_store")
def test_a_high_gotcha_of_another_task_is_shown_whatever_its_age(ws: Workspace, cli: Run) -> None:
    """Neither many lesser ones after it nor grave ones that were taken back hide it."""
    ws.create_task("O-1", title="Another", agent="planner")
    old = {"issue": "The clock stops at noon", "mitigation": "wait", "severity": "high"}
    ws.note("gotcha", agent="coder", task="O-1", **old)
    ws.create_task("O-2", title="A third", agent="planner")
    for severity in ("low", "high"):
        issues = [f"pit {severity} {n}" for n in range(600)]
        pits = [{"issue": i, "mitigation": "go round", "severity": severity} for i in issues]
        given = {"task": "O-2", "outcome": "completed", "from_agent": "coder", "to_agent": "b"}
        ws.hand_off({**given, "summary": severity, "gotchas": pits})
    for number in range(601, 1201):
        ws.set_status(f"O-2#g{number}", "retracted", agent="coder")
    brief = ("--store", ws.store_url, "brief", "T-3", "--agent", "coder", "--budget", "400")
    assert "The clock stops at noon" in cli(*brief).out


@pytest.mark.promise("S3-28")
def test_an_injection_has_the_form_of_the_document(ws: Workspace) -> None:
    lines = ws.context.injection("T-2").splitlines()
    assert lines[0] == "## From Task T-1: Login"
    table = lines.index("### Files to Review")
    assert lines[table + 1 : table + 4] == [
        "| File | Reason |",
        "|------|--------|",
        "| `src/auth.py` | exports verify \\| sign |",
    ]
    patterns = lines.index("### Patterns to Follow")
    assert lines[patterns + 1] == "- **One clock for all** (see: src/clock.py:1-9)"
    warnings = lines.index("### Warnings")
    assert lines[warnings + 1] == "- ⚠️ Tokens are UTC: never use local time"
    assert not [line for line in lines if "slow" in line]


AMHARIC = "የመግቢያ ገጽ ተጠናቋል እና ሁሉም ፈተናዎች አልፈዋል " * 20


@pytest.mark.promise("S1-9")
@pytest.mark.parametrize("counter", ["o200k_base", "cl100k_base", "chars4"])
def test_summaries_keep_their_limit_by_the_workspace_s_counter(
    tmp_path: Path, counter: str
) -> None:
    settings = passdown.Settings(counter=counter)
    count = counter_of(counter).tokens
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title=AMHARIC[:200], agent="planner")
        command = ws.hand_off(
            {**FIRST, "decisions": [{"summary": AMHARIC[:300], "rationale": "x"}] * 2}
        )
        assert count(command.context_summary) <= 500
        for budget in (40, 100, 500):
            assert count(ws.context.summary("T-1", budget)) <= budget
            assert len(ws.context.summary("T-1", budget, counter=len)) <= budget
            assert count(ws.context.compact("T-1", budget)) <= budget


@pytest.mark.promise("S1-8")
def test_a_sender_s_summary_is_bounded_and_not_lost(ws: Workspace) -> None:
    ws.hand_off({**FIRST, "summary": "Where it is: " + "word " * 2_000})
    ws.hand_off({"task": "T-1", "from_agent": "coder", "to_agent": "qa", "outcome": "completed"})
    found = ws.brief("T-1", agent="qa", budget=300)
    assert "Where it is: word" in ws.brief("T-1", agent="qa", budget=4_000).text
    assert found.tokens <= 300
    compact = ws.context.compact("T-1")
    assert "Where it is" in compact
    assert len(compact) <= 2_000


@pytest.mark.promise("S1-8")
@pytest.mark.parametrize("counter", ["o200k_base", "cl100k_base", "chars4"])
def test_a_sender_s_summary_is_bounded_in_the_state_and_whole_in_the_record(
    tmp_path: Path, counter: str
) -> None:
    count = counter_of(counter).tokens
    long = "SHORTSUM " + AMHARIC * 10
    with passdown.open(str(tmp_path), settings=passdown.Settings(counter=counter)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        command = ws.hand_off({**FIRST, "summary": long})
        said = ws.state("T-1").context_summary
        assert said.startswith("SHORTSUM የመግቢያ")
        assert said.endswith("…")
        assert 400 < count(said) <= 500
        assert command.state_delta["set"]["context_summary"] == said
        kept = json.loads((tmp_path / ".passdown" / "state" / "T-1.json").read_text("utf-8"))
        assert kept["context_summary"] == said
        assert long.strip() in json.dumps(ws.state("T-1").to_dict()["handoffs"], ensure_ascii=False)
        assert not ws.verify().findings
        (tmp_path / "copy").mkdir()
        bundle = tmp_path / "T-1.bundle"
        ws.maintenance.export(str(bundle))
        with passdown.open(str(tmp_path / "copy")) as other:
            other.maintenance.import_bundle(str(bundle))
            assert other.state("T-1").context_summary == said


@pytest.mark.promise("S1-23")
def test_the_sender_s_words_are_in_the_command_and_in_the_summary(
    project: Path, cli: Run, ws: Workspace
) -> None:
    """Under either name of the field; the next handoff without one keeps them, a repeat too."""
    given = {"task": "T-1", "outcome": "completed"}
    first = ws.hand_off({**given, "from_agent": "a", "context_summary": "SHORTSUM, said once"})
    assert not [each for each in first.warnings if each.code == "unknown_field"]
    assert "\nWhere it stands: SHORTSUM, said once\n" in first.context_summary
    second = ws.hand_off({**given, "from_agent": "b"}, key="k")
    assert "SHORTSUM" in second.context_summary
    assert ws.context.summary("T-1") == second.context_summary
    ws.hand_off({**given, "from_agent": "c", "summary": "Other words"})
    assert ws.hand_off({**given, "from_agent": "b"}, key="k").context_summary == (
        second.context_summary
    )
    assert "Other words" in cli("summary", "T-1", "--store", ws.root).out
    assert not ws.verify().findings


@pytest.mark.promise("S1-9")
def test_the_handoff_command_takes_a_counter(project: Path, cli: Run, ws: Workspace) -> None:
    words = AMHARIC * 10
    by_name = ws.hand_off({**FIRST, "summary": words}, counter="cl100k_base")
    assert not [each for each in by_name.warnings if each.code == "unknown_field"]
    assert counter_of("cl100k_base").tokens(by_name.context_summary) <= 500
    by_length = ws.hand_off({**FIRST, "from_agent": "qa", "summary": words}, counter=len)
    assert len(by_length.context_summary) <= 500
    said = ws.state("T-1").context_summary
    assert said == words[: len(said) - 1] + "…"
    with served(ws) as server, server.opened("qa2", "read", "write") as remote:
        asked = {**FIRST, "from_agent": "qa2", "summary": words}
        shown = remote.hand_off(asked, counter="chars4", dry_run=True).context_summary
        assert len(shown) > len(by_name.context_summary)
    told = cli(
        *("handoff", "--task", "T-1", "--from", "qa3", "--outcome", "completed", "--summary"),
        *(words, "--counter", "chars4", "--store", ws.root, "--json"),
    )
    assert len(data_of(told.out)["context_summary"]) > len(by_name.context_summary)


def test_a_budget_that_nothing_fits_is_said(ws: Workspace) -> None:
    found = ws.brief("T-1", agent="coder", budget=1)
    assert found.text == ""
    assert [warning.code for warning in found.warnings] == ["too_small"]


def test_what_a_brief_leaves_out_can_be_listed(ws: Workspace) -> None:
    small = ws.brief("T-1", agent="coder", budget=40, record=False)
    listed = ws.context.left_out("T-1", agent="coder", budget=40)
    assert listed
    assert len(listed) == sum(small.left_out.values())
    assert set(listed).isdisjoint(item.address for item in small.shown)
    assert ws.show(listed[0]).address == listed[0]


RULES = {
    "manifest": "core.layer=0\nflow.layer=workflow\nflow.trigger=ship, plan\n",
    "core": "Be brief.\n",
    "flow": "Ship small steps.\n",
}


@pytest.mark.promise("S2-19")
@pytest.mark.parametrize("scope", ["workflow", "squad"])
def test_a_switch_of_workflow_or_squad_writes_the_artifact_and_compacts_once(
    ws: Workspace, scope: str
) -> None:
    folder = Path(ws.root) / ".passdown" / "rules"
    folder.mkdir()
    for name, text in RULES.items():
        (folder / name).write_text(text, "utf-8")
    common: dict[str, Any] = {"session": "s1", "agent": "coder", "task": "T-1", "used": 10}
    reasons: list[tuple[str, ...]] = []
    for name in ("plan", "ship", "ship"):
        common[scope] = name
        found = ws.rules.inject("Go on", **common)
        reasons.append(found.compaction.reasons)
    assert reasons == [(), ("switch",), ()]
    (saved,) = ws.context.saved_switches(task="T-1")
    assert (saved["from_agent"], saved["to_agent"]) == ("coder", "coder")
    assert (Path(ws.root) / ".passdown" / "handoffs" / saved["file"]).is_file()


@pytest.mark.promise("S2-19")
def test_every_switch_between_prompts_writes_one_artifact_that_its_receiver_consumes(
    project: Path, cli: Run, ws: Workspace
) -> None:
    """With and without anything recorded between; of an agent, a workflow, a squad, or several."""

    def prompt(**changes: str) -> int:
        found = ws.rules.inject("Go on", session="s1", task="T-1", used=10, **changes)
        again = ws.rules.inject("Go on", session="s1", used=10)
        assert (found.problems, again.compaction.due) == ((), False)
        assert found.compaction.due == bool(found.switched)
        return len(ws.context.saved_switches(task="T-1"))

    assert prompt(agent="dev", workflow="plan", squad="red") == 0
    assert prompt(workflow="build") == 1
    assert prompt(squad="blue") == 2
    assert prompt(squad="green") == 3
    ws.decide(task="T-1", agent="dev", summary="Cookies", rationale="scripts can't read them")
    assert prompt(agent="qa") == 4
    assert prompt(agent="dev", workflow="ship") == 5
    assert prompt(agent="qa", workflow="check", squad="red") == 6
    saved = ws.context.saved_switches(task="T-1")
    ends = [(each["from_agent"], each["to_agent"]) for each in saved]
    assert ends == [("dev", "qa"), ("qa", "dev"), ("dev", "qa"), *[("dev", "dev")] * 3]
    # Of those that the same agent goes on with, nobody has to take one.
    assert [each["consumed"] for each in saved] == [False] * 3 + [True] * 3
    assert "Cookies" in str(saved[0]["artifact"]["decisions"])
    files = Path(ws.root) / ".passdown" / "handoffs"
    assert {each["file"] for each in saved} == {path.name for path in files.iterdir()}
    switched = ws.switch("T-1", to_agent="qa")
    assert (switched.from_agent, switched.artifact_file) == ("dev", saved[0]["file"])
    waiting = cli(*"artifact list --task T-1 --agent dev --json --store".split(), ws.root).out
    assert len(data_of(waiting)) == 1
    assert not ws.context.saved_switches(task="T-1", agent="qa")
    assert prompt(agent="dev") == 7
    ws.switch("T-1", to_agent="dev")
    assert prompt(agent="dev") == 7
    assert all(each["consumed"] for each in ws.context.saved_switches(task="T-1"))
    ws.switch("T-1", to_agent="qa", from_agent="dev")
    assert prompt(agent="qa") == 8  # that of the switch


@pytest.mark.promise("S2-29")
def test_a_prompt_does_not_wait_for_a_locked_store(ws: Workspace) -> None:
    folder = Path(ws.root) / "agents"
    folder.mkdir()
    (folder / "qa.md").write_text("You are qa.\n", "utf-8")
    lock = apsw.Connection(str(Path(ws.root) / ".passdown" / "ledger.db"))
    rows(lock, "BEGIN IMMEDIATE")
    try:
        started = time.monotonic()
        found = ws.context.prompt("@qa look at this", task="T-1", active="coder")
        assert time.monotonic() - started < 20, "writers wait for 30 seconds"
    finally:
        rows(lock, "ROLLBACK")
        lock.close()
    assert found.switched is not None
    assert "You are qa." in found.text
    assert "not_recorded" in [warning.code for warning in found.switched.warnings]


@pytest.mark.promise("S2-23", "S2-31")
def test_a_kind_of_task_has_its_executor_and_that_gets_persona_and_task(tmp_path: Path) -> None:
    """Here and through a server: chosen by kind, called with persona and task, both unchanged."""
    bindings = "{review: qa, build: {executor: dev}, write: {agent: dev}, unbound: {}}"
    (tmp_path / "tools.yaml").write_text(f"task_bindings: {bindings}\n", "utf-8")
    (tmp_path / "agents").mkdir()
    persona, task = "You are qa.  \r\n{task} ", " Review {persona}\n"
    (tmp_path / "agents" / "qa.md").write_bytes(persona.encode())
    settings = passdown.Settings(registry="tools.yaml")
    with (
        passdown.open(str(tmp_path), settings=settings) as ws,
        served(ws) as server,
        server.opened("coder", "read") as remote,
    ):
        for opened in (ws, remote):
            kinds = ("review", "build", "write", "unbound", "deploy")
            found = [opened.context.executor(kind) for kind in kinds]
            assert found == ["qa", "dev", "dev", "", ""]
            prompt = opened.context.subagent_prompt(found[0], task)
            assert (prompt[: len(persona)], prompt[-len(task) :]) == (persona, task)


@pytest.mark.promise("S2-27")
def test_the_template_of_an_artifact_can_be_chosen(project: Path, tmp_path: Path, cli: Run) -> None:
    """The framework's own, or the one of a folder: any, the data folder of the project too."""
    own = tmp_path / "own.yaml"
    cli("artifact", "template", "--output", str(own))
    assert own.read_text("utf-8") == cli("artifact", "template").out
    assert cli("artifact", "template", "--output", str(own), code=1).err
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "switch-artifact.yaml").write_text("# ours\nversion: '1.0'\n", "utf-8")
    assert cli("artifact", "template", "--folder", str(folder)).out.startswith("# ours\n")
    data = project / ".passdown" / "templates"
    data.mkdir()
    (folder / "switch-artifact.yaml").rename(data / "switch-artifact.yaml")
    assert cli("artifact", "template", "--folder", ".passdown/templates").out.startswith("# ours")
    assert cli("artifact", "template", "--folder", str(folder), code=1).err


@pytest.mark.promise("S2-27")
@pytest.mark.parametrize("command", ["switch", "artifact save"])
def test_a_switch_follows_the_template_in_the_folder_that_the_settings_name(
    project: Path, cli: Run, command: str
) -> None:
    """Its artifact has the fields of the data folder's template first; by default it is as the
    framework's. A template that isn't there is named before anything is written.
    """
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("handoff", "--task", "T-1", "--outcome", "completed", "--from", "planner", "--to", "dev")
    folder = project / ".passdown" / "handoffs"

    def fields(*names: str, code: int = 0) -> list[str]:
        """The fields of the artifact that this leaves."""
        before = {*folder.glob("*.yaml")}
        cli(*command.split(), "T-1", *names, code=code)
        files = sorted({*folder.glob("*.yaml")} - before)
        words = [line.split(":")[0] for path in files for line in path.read_text().splitlines()]
        return [word for word in words if word.isidentifier()]

    def switched(to: str, **more: Any) -> list[str]:
        return fields("--to", to, "--from", "planner", **more)

    assert switched("dev")[0] == "version"
    config = project / ".passdown" / "config.toml"
    config.write_text('[switch]\ntemplate = ".passdown/templates"\n', "utf-8")
    assert switched("qa", code=1) == []
    data = project / ".passdown" / "templates"
    data.mkdir()
    template = "# ours\nnext_action: ''\nto_agent: ''\nversion: '1.0'\n"
    (data / "switch-artifact.yaml").write_text(template, "utf-8")
    found = switched("qa")
    assert found[:3] == ["next_action", "to_agent", "version"]
    assert {"from_agent", "story_context"} <= {*found}


@pytest.mark.promise("S1-22")
def test_a_workspace_satisfies_the_protocol_of_agents(ws: Workspace) -> None:
    protocol: passdown.AgentHandoffProtocol = ws
    assert isinstance(ws, passdown.AgentHandoffProtocol)
    command = protocol.prepare_handoff("T-1", "qa", "implementing")
    assert protocol.receive_handoff(ws.hand_off(command)).task_id == "T-1"


S3_SCHEMA = """\
# Task T-1: Login

## Handoff

```yaml
outcome: [completed | partial | failed | blocked]

files_created:
  - path: [path]
    purpose: [purpose]
    lines: [range]

files_modified:
  - path: [path]
    lines: [range]
    change_type: [type]
    description: [description]

patterns_discovered:
  - pattern: [pattern description]
    location: [where]
    applies_to: [tags]

gotchas:
  - issue: [issue]
    discovered_in: [context]
    mitigation: [how to avoid]
    severity: [high | medium | low]

dependencies_for_next:
  - file: [path]
    reason: [why needed]

suggested_next_steps:
  - step: [what to do]
    priority: [high | medium | low]
    depends_on: [dependencies]
```

---

*Task completed: [timestamp]*
"""


@pytest.mark.promise("S3-20")
def test_the_document_s_own_template_is_refused_with_reasons(ws: Workspace, cli: Run) -> None:
    """Unfilled as it is in the document: lists in the place of texts, no crash anywhere."""
    with pytest.raises(InvalidInput) as refused:
        ws.hand_off(S3_SCHEMA, task="T-1", from_agent="coder")
    paths = {problem.path for problem in refused.value.problems}
    assert {"outcome", "files_created[0].path", "gotchas[0].severity"} <= paths
    file = Path(ws.root) / "T-1.md"
    file.write_text(S3_SCHEMA, "utf-8")
    assert "files_created[0].path" in cli("handoff", str(file), "--dry-run", code=1).out


@pytest.mark.promise("S3-27")
def test_a_deleted_file_is_in_the_brief(ws: Workspace, cli: Run) -> None:
    """The next agent learns which files are gone, until others have come after them."""
    gone = [
        {"path": f"src/old{n}.py", "lines": "all", "change_type": "delete", "description": "-"}
        for n in range(30)
    ]
    ws.hand_off({**FIRST, "task": "T-3", "files_modified": gone})
    told = cli("--store", ws.store_url, "brief", "T-3", "--agent", "coder", "--budget", "2000").out
    assert all(f"(delete) src/old{n}.py" in told for n in range(30))
    small = ws.brief("T-3", agent="coder", budget=150, record=False)
    shown = sum(item.address.startswith("T-3#a") for item in small.shown)
    assert shown + small.left_out["artifact"] == 30
    assert {f"T-3#a{n}" for n in range(1, 31)} == {
        address
        for address in (*(item.address for item in small.shown), *left_out(ws, "T-3", 150))
        if "#a" in address
    }


@pytest.mark.promise("S1-27")
def test_a_failed_gate_is_in_the_brief_until_it_passes(ws: Workspace, cli: Run) -> None:
    at, brief = ("--store", ws.store_url), ("brief", "T-3", "--agent", "coder")
    record = (*at, "gate", "record", "T-3", "--name", "lint", "--agent", "coder")
    assert "no gates" in cli(*at, "gate", "list", "T-3").out
    cli(*record, "--failed", "--detail", "3 errors")
    for _ in range(2):  # the handoff after it doesn't hide it
        assert "lint" in cli(*at, "gate", "list").out
        assert "lint" in cli(*at, "gate", "list", "T-3").out
        assert "(failed) lint" in cli(*at, *brief).out
        given = {"task": "T-3", "agent": "qa"}
        assert "(failed) lint" in call_tool(cast("Any", Lent(ws)), "brief", given, "").text
        ws.hand_off({**FIRST, "task": "T-3"})
    cli(*record, "--failed", "--detail", "1 error")
    told = cli(*at, *brief).out
    assert told.count("(failed) lint") == 1
    assert "1 error" in told
    assert len(ws.gates("T-3")) == 1
    cli(*record, "--passed")
    assert "lint" not in cli(*at, *brief).out
    assert "no gates" in cli(*at, "gate", "list", "T-3").out
    assert len(ws.gates("T-3", all=True)) == 3


def test_the_count_of_what_is_left_out_is_that_of_the_addresses(ws: Workspace) -> None:
    """Of needed tasks too: what isn't passed on is neither counted nor listed."""
    ws.decide(agent="planner", summary="Tabs", rationale="all work")
    ws.warn("T-1", agent="planner", text="Never log tokens")
    for budget in (40, 60, 90, 130, 200, 300, 600):
        found = ws.brief("T-2", agent="coder", budget=budget, record=False)
        assert sum(found.left_out.values()) == len(left_out(ws, "T-2", budget)), budget
