"""Task files: read, filled in from the template, taken in once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from passdown.core.task_files import task_file_fields, task_template
from passdown.errors import InvalidInput
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

SECTIONS = (
    "## Metadata",
    "## Objective",
    "## Acceptance Criteria",
    "## Context Provided",
    "## Execution Log",
    "## Handoff",
    "*Task completed:",
)

OTHER_FENCES = """\
# Task {task}: {title}

- **Agent:** coder
- **Next agent:** tester

## Context Provided

```yaml
outcome: failed   # an example, not the handoff
```

~~~markdown
## Handoff
outcome: blocked
~~~

## Handoff

{handoff}

## Notes

```yaml
outcome: partial
```
"""

PLAIN = "outcome: completed\nsummary: all done"


def taken_in(cli: Run, code: int = 0, *files: str) -> list[dict[str, Any]]:
    return data_of(cli("ingest", *files, "--json", code=code).out)


@pytest.mark.promise("S3-1")
@pytest.mark.parametrize(
    "handoff",
    [
        f"```yaml\n{PLAIN}\n```",
        f"```yml\n{PLAIN}\n```",
        f"~~~yaml\n{PLAIN}\n~~~",
        f"```\n{PLAIN}\n```",
        f"Some words first.\n\n```text\nnot this\n```\n\n```yaml\n{PLAIN}\n```",
        PLAIN,
        f"{PLAIN}\n\n---\n\n*Task completed: today*",
    ],
)
def test_the_handoff_section_alone_is_read(
    project: Path, cli: Run, as_json: Callable[..., Any], handoff: str
) -> None:
    text = OTHER_FENCES.format(task="T-7", title="Log in", handoff=handoff)
    (project / "T-7.md").write_text(text, "utf-8")
    result = taken_in(cli, 0, "T-7.md")[0]
    assert (result["task"], result["made_task"], result["result"]) == ("T-7", True, "recorded")
    state = as_json("state", "T-7")
    assert (state["outcome"], state["context_summary"]) == ("completed", "all done")
    assert (state["title"], state["source_agent"], state["target_agent"]) == (
        "Log in",
        "coder",
        "tester",
    )
    assert (project / "T-7.md").read_text("utf-8") == text


@pytest.mark.promise("S3-31")
def test_the_same_file_twice_changes_nothing(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    (project / "a.py").write_text("a\n", "utf-8")
    handoff = f"{PLAIN}\nfiles_created:\n  - path: a.py\n    purpose: everything\n    lines: all\n"
    text = OTHER_FENCES.format(task="T-7", title="Log in", handoff=handoff)
    (project / "T-7.md").write_text(text, "utf-8")
    taken_in(cli, 0, "T-7.md")
    log, heads = as_json("log"), as_json("heads", "export")["heads"]
    handle = (project / ".passdown" / "state" / "T-7.json").read_bytes()
    (project / "a.py").unlink()
    again = taken_in(cli, 0, "T-7.md", "T-7.md")
    assert [(each["result"], each["version"]) for each in again] == [("unchanged", 2)] * 2
    assert as_json("log") == log
    assert as_json("heads", "export")["heads"] == heads
    assert (project / ".passdown" / "state" / "T-7.json").read_bytes() == handle


def test_a_file_that_names_nobody_can_be_taken_in_twice(project: Path, cli: Run) -> None:
    (project / "x.md").write_text(f"# Task X-1: X\n\n## Handoff\n{PLAIN}\nto_agent: b\n", "utf-8")
    assert taken_in(cli, 0, "x.md")[0]["result"] == "recorded"
    assert taken_in(cli, 0, "x.md")[0]["result"] == "unchanged"


def test_a_bad_file_does_not_stop_the_others(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    good = OTHER_FENCES.format(task="G-1", title="Good", handoff=PLAIN)
    bad = OTHER_FENCES.format(task="B-1", title="Bad", handoff="outcome: perhaps")
    (project / "bad.md").write_text(bad, "utf-8")
    (project / "none.md").write_text("# Task N-1: None\n", "utf-8")
    (project / "binary.md").write_bytes(b"\xff\xfe\x00")
    (project / "good.md").write_text("\ufeff" + good.replace("\n", "\r\n"), "utf-8", newline="")
    files = ("bad.md", "none.md", "binary.md", "gone.md", "good.md")
    results = taken_in(cli, 1, *files)
    assert [each["result"] for each in results] == [*["refused"] * 4, "recorded"]
    assert [each["file"] for each in results] == list(files)
    codes = [each["error"]["problems"][0]["code"] for each in results[:4]]
    assert codes == ["invalid_choice", "no_handoff", "invalid_utf8", "missing_file"]
    assert [each["task"] for each in as_json("task", "list")] == ["G-1"]
    told = cli("ingest", *files, code=1).out
    assert "1 of 5 files is recorded" in told
    assert "invalid_choice" in told


@pytest.mark.promise("S3-32")
def test_the_template_has_every_part(cli: Run) -> None:
    text = cli("template", "--task", "T-9", "--title", "Pay $5").out
    assert text.startswith("# Task T-9: Pay $5\n")
    places = [text.index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert text == task_template("T-9", "Pay $5")
    assert "# Task TASK-ID: Name" in cli("template").out


@pytest.mark.promise("S3-32")
def test_a_template_is_taken_in_once_it_names_an_outcome(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    (project / "empty.md").write_text(task_template("E-1", "Empty"), "utf-8")
    refused = taken_in(cli, 1, "empty.md")[0]
    problems = [(p["path"], p["code"]) for p in refused["error"]["problems"]]
    assert problems == [("outcome", "required")]
    assert as_json("task", "list") == []
    cli("handoff", "empty.md", code=1)
    least = task_template("E-1", "Empty").replace("outcome:  #", "outcome: completed  #")
    (project / "empty.md").write_text(least, "utf-8")
    for name in ("src/login.py", "src/app.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("pass\n", "utf-8")
    text = task_template("F-1", "Filled").replace("[who works on this, such as coder]", "coder")
    text = text.replace("outcome:  #", "outcome: completed  #")
    head, mark, handoff = text.partition("# summary:")
    filled = "\n".join(
        line.removeprefix("# ") if not line.startswith("# Needed") else line
        for line in (mark + handoff).split("\n")
    )
    (project / "filled.md").write_text(head + filled, "utf-8")
    results = taken_in(cli, 0, "empty.md", "filled.md")
    assert [each["result"] for each in results] == ["recorded", "recorded"]
    assert [(each["task_fields"], each["left_out"]) for each in results] == [([], [])] * 2
    unknown = [w for w in results[1]["warnings"] if w["code"] == "unknown_field"]
    assert unknown == []
    assert results[1]["detail_score"] > 90
    state = as_json("state", "F-1")
    assert state["title"] == "Filled"
    assert state["source_agent"] == "coder"
    for name in ("decisions", "patterns", "gotchas", "reading", "questions", "next_steps"):
        assert len(state[name]) == 1, name
    assert len(state["artifacts"]) == 2


METADATA = """\
# Task M-1: Money

## Metadata
- **Agent:** coder
- **Phase:** Implementing
- **Time limit:** 2 hours
- **Depends on:** M-0, M-00
- **Priority:** high

## Objective
<!-- not this -->
Count cents.
In whole numbers.

## Acceptance Criteria
- [ ] half a cent
  goes up
- [x] no floats
1. tested
- [ ] [Something that can be tested.]

## Context Provided
Read this first:
- src/money.py

---

## Execution Log
- 10:00 began

## Handoff
outcome: completed
"""


def test_a_task_is_made_from_all_that_its_file_says(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    (project / "m.md").write_text(METADATA, "utf-8")
    told = cli("ingest", "m.md").out
    assert "task made with criteria, depends on, description, inputs, phase, time limit" in told
    for text in (
        "left out: Priority: high (a task has no place for it)",
        "left out: Context Provided: what isn't a list item",
        "left out: sections that a task has no place for: Execution Log",
        "M-0 does not exist yet",
    ):
        assert text in told, text
    shown = as_json("task", "show", "M-1")
    assert shown["description"] == "Count cents.\nIn whole numbers."
    assert shown["criteria"] == ["half a cent goes up", "no floats", "tested"]
    assert shown["inputs"] == ["src/money.py"]
    assert (shown["phase"], shown["time_limit_minutes"]) == ("implementing", 120)
    assert shown["needs"] == ["M-0", "M-00"]
    again = taken_in(cli, 0, "m.md")[0]
    assert (again["result"], again["task_fields"], again["left_out"]) == ("unchanged", [], [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("- **Phase:** polishing", "Phase: polishing (expected planning |"),
        ("- **Time limit:** soon", "Time limit: soon (expected a number of minutes)"),
        ("- **Time limit:** 0", "Time limit: 0 (expected"),
        ("- Depends on: a/b, T-2", "Depends on: a/b (expected task ids)"),
        ("- Depends on: [T-2]", "Depends on: [T-2] (in brackets"),
    ],
)
def test_what_a_task_file_says_in_vain_is_told(line: str, said: str) -> None:
    parts = task_file_fields(f"# Task T-1: x\n\n{line}\n\n## Handoff\noutcome: completed\n")
    assert said in "\n".join(parts.left_out)
    assert parts.fields in ({}, {"depends_on": ["T-2"]})


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("- Time limit: 45 min", {"time_limit_minutes": 45}),
        ("- **Time limit:** 45", {"time_limit_minutes": 45}),
        ("- Depends on: none", {}),
        ("- Depends on: T-2 T-3", {"depends_on": ["T-2", "T-3"]}),
        ("- Agent: coder", {}),
        ("<!-- - Phase: testing", {}),
        ("<!--\n- Phase: testing", {"phase": "testing"}),
        ("<!-- - Phase: testing -->", {}),
    ],
)
def test_metadata_of_a_task_file(line: str, fields: dict[str, Any]) -> None:
    parts = task_file_fields(f"# Task T-1: x\n\n{line}\n")
    assert (parts.fields, parts.left_out) == (fields, [])


def test_a_template_title_stays_one_line() -> None:
    text = task_template("T-1", "a\n## Handoff\n@task@ \x1b[2J")
    assert text.splitlines()[0] == "# Task T-1: a ## Handoff @task@ \\x1b[2J"
    with pytest.raises(InvalidInput):
        task_template("../T", "x")


def test_a_file_is_recorded_once_whatever_came_in_between(project: Path, cli: Run) -> None:
    """Another handoff of the task doesn't make an old file news again."""
    text = OTHER_FENCES.format(task="T-1", title="x", handoff=PLAIN)
    (project / "t.md").write_text(text)
    assert cli("ingest", "t.md").code == 0
    between = ("--task", "T-1", "--from", "tester", "--to", "coder", "--outcome", "completed")
    assert cli("handoff", *between).code == 0
    assert taken_in(cli, 0, "t.md")[0]["result"] == "unchanged"
