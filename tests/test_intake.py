"""What comes in: every accepted form gives the same record, every fault is named at once."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

import passdown
from passdown import (
    Blocker,
    Decision,
    FileCreated,
    FileModified,
    GateResult,
    Gotcha,
    Handoff,
    NextStep,
    Pattern,
    Question,
    Reading,
    Settings,
    Story,
)
from passdown.core.handoff import TaskFields
from passdown.core.handoff_templates import pydantic_model
from passdown.core.intake import handoff_schema, state_file, switch_artifact
from passdown.core.schema import json_schema
from passdown.errors import InvalidInput, Problem
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.folders import new_folder
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path / "project"))
    with passdown.open(new_folder(tmp_path / "project"), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def minimal(**changes: Any) -> Document:
    return {"task": "T-1", "outcome": "completed", "from_agent": "planner", **changes}


def problems_of(ws: Workspace, handoff: Any, **more: Any) -> dict[str, Problem]:
    """The errors that refuse a handoff, by path; recording it must say the same."""
    found = [p for p in ws.check_handoff(handoff, **more).problems if p.level == "error"]
    before = ws.maintenance.heads().heads
    if found:
        with pytest.raises(InvalidInput) as caught:
            ws.hand_off(handoff, **more)
        assert [p for p in caught.value.problems if p.level == "error"] == found
        assert ws.maintenance.heads().heads == before
    return {problem.path: problem for problem in found}


def codes(ws: Workspace, handoff: Any, **more: Any) -> dict[str, str]:
    return {path: problem.code for path, problem in problems_of(ws, handoff, **more).items()}


# -- the forms


def as_value() -> Handoff:
    """The full example, as a Python value."""
    plain = full_handoff()
    fields: Document = {
        **plain,
        "files_created": tuple(FileCreated(**f) for f in plain["files_created"]),
        "files_modified": tuple(FileModified(**f) for f in plain["files_modified"]),
        "decisions": tuple(replace(Decision(**d), at=None) for d in plain["decisions"]),
        "patterns_discovered": tuple(Pattern(**p) for p in plain["patterns_discovered"]),
        "gotchas": tuple(Gotcha(**g) for g in plain["gotchas"]),
        "dependencies_for_next": tuple(Reading(**r) for r in plain["dependencies_for_next"]),
        "open_questions": tuple(Question(**q) for q in plain["open_questions"]),
        "suggested_next_steps": tuple(NextStep(**n) for n in plain["suggested_next_steps"]),
        "blockers": tuple(Blocker(**b) for b in plain["blockers"]),
        "gates": tuple(GateResult(**g) for g in plain["gates"]),
        "story": Story(**plain["story"]),
    }
    return Handoff(**fields)


def in_yaml(handoff: Document) -> str:
    # YAML scalars stay text, so a number under metadata would come back as one.
    return yaml.safe_dump(handoff, sort_keys=False, allow_unicode=True)


PLAIN: Document = full_handoff(metadata={"sprint": "7"})
TITLE = "# Task T-1: Login\n\n## Metadata\n- **Agent:** planner\n\n"
ELSEWHERE = """## Execution Log

```yaml
outcome: failed
summary: this fence belongs to the log
```

Then a listing that shows how a note looks:

````markdown
## Handoff
```yaml
outcome: blocked
```
````

"""
AFTER = "\n## Afterwards\n\n```yaml\noutcome: failed\n```\n\n---\n*Task completed: today*\n"

FORMS: dict[str, Any] = {
    "dict": PLAIN,
    "json": json.dumps(PLAIN),
    "json bytes": json.dumps(PLAIN, ensure_ascii=False, indent=2).encode(),
    "json with a byte order mark": "\ufeff" + json.dumps(PLAIN),
    "yaml": in_yaml(PLAIN),
    "yaml bytes": in_yaml(PLAIN).encode(),
    "yaml document": "---\n" + in_yaml(PLAIN),
    "yaml in windows lines": in_yaml(PLAIN).replace("\n", "\r\n"),
    "fence alone": f"```yaml\n{in_yaml(PLAIN)}```\n",
    "task file, fenced": f"{TITLE}## Handoff\n\n```yaml\n{in_yaml(PLAIN)}```\n",
    "task file, tildes": f"{TITLE}## Handoff ##\n\n~~~ yml\n{in_yaml(PLAIN)}~~~\n",
    "task file, bare fence": f"{TITLE}## handoff\n\n```\n{in_yaml(PLAIN)}```\n",
    "task file, json": f"{TITLE}## Handoff\n\n```json\n{json.dumps(PLAIN, indent=1)}\n```\n",
    "task file, plain": f"{TITLE}## Handoff\n\n{in_yaml(PLAIN)}\n---\n*Task completed: today*\n",
    "task file with other fences": f"{TITLE}{ELSEWHERE}## Handoff\n\n```text\nnot this\n```\n\n"
    f"```yaml\n{in_yaml(PLAIN)}```\n{AFTER}",
    "task file that shows another note": f"{TITLE}## Handoff\n\n```yaml\n# what was done\n"
    f"{in_yaml(PLAIN)}```\n\n{ELSEWHERE}",
    "task file with two notes": f"{TITLE}## Handoff\n\noutcome: failed\n\n## Review\n\nNo.\n\n"
    f"## Handoff\n\n```yaml\n{in_yaml(PLAIN)}```\n",
}


@pytest.mark.promise("S3-1", "S0-34")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_record(ws: Workspace, form: str) -> None:
    """Dict, JSON, YAML and task file, fenced or plain, are one and the same handoff."""
    expected = ws.hand_off(PLAIN)
    again = ws.hand_off(FORMS[form])
    assert again.is_replay
    assert (again.digest, again.state_delta) == (expected.digest, expected.state_delta)


@pytest.mark.promise("S0-34")
def test_a_value_gives_the_same_record(ws: Workspace) -> None:
    """A Handoff made in Python is the same as its plain form, numbers under metadata included."""
    expected = ws.hand_off(full_handoff())
    again = ws.hand_off(as_value())
    assert again.is_replay
    assert again.digest == expected.digest


@pytest.mark.promise("S3-1")
def test_a_task_file_names_its_task_and_sender(ws: Workspace) -> None:
    """What the head of the file says fills what the note leaves out, and nothing else."""
    text = f"{TITLE}- **Next agent:** tester\n\n## Handoff\n\noutcome: completed\nto_agent: coder\n"
    command = ws.hand_off(text)
    assert (command.task, command.to_agent) == ("T-1", "coder")
    assert ws.state("T-1").source_agent == "planner"


@pytest.mark.promise("S3-1")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("# Task T-1: Login\n\n## Notes\n\n- nothing\n", "wrong_type"),
        ("# Task T-1: Login\n\n## Handoff\n\n", "wrong_type"),
        ("# Task T-1: Login\n\n## Handoff\n\n```yaml\n- a\n- b\n```\n", "wrong_type"),
        ("just words", "wrong_type"),
        ("", "wrong_type"),
        ("task: T-1\noutcome: completed\n---\ntask: T-2\n", "several_documents"),
        ("[]", "wrong_type"),
        ("{", "invalid_json"),
        (b"\xff\xfe", "invalid_utf8"),
    ],
)
def test_text_that_holds_no_handoff_is_refused(ws: Workspace, text: str, code: str) -> None:
    """A file without a note, or with something else in its place, says what is missing."""
    found = ws.check_handoff(text).problems
    assert next(problem.code for problem in found if problem.level == "error") == code
    with pytest.raises(InvalidInput):
        ws.hand_off(text)
    assert ws.state("T-1").version == 1


@pytest.mark.promise("S3-1", "P-6")
def test_a_rule_inside_a_text_does_not_end_the_note(ws: Workspace) -> None:
    """Only a rule at the start of a line ends a plain note; one inside a text is text."""
    note = "outcome: completed\nsummary: |\n  first\n  ---\n  ## Handoff\n  last\nto_agent: coder\n"
    ws.hand_off(f"{TITLE}## Handoff\n\n{note}---\n*Task completed*\n")
    state = ws.state("T-1")
    assert state.context_summary == "first\n---\n## Handoff\nlast\n"
    assert state.target_agent == "coder"


# -- the rules


@pytest.mark.promise("S3-2")
@pytest.mark.parametrize("given", [None, "", "done", "Completed", 1, True, ["completed"]])
def test_an_outcome_is_required_and_one_of_four(ws: Workspace, given: Any) -> None:
    """Anything but completed, partial, failed or blocked is refused; a near miss gets a fix."""
    problem = problems_of(ws, minimal(outcome=given))["outcome"]
    if given in ("done", "Completed"):
        assert problem.code == "invalid_choice"
        assert problem.expected == "completed | partial | failed | blocked"
    if given == "Completed":
        assert problem.fix == "completed"
    handoff = minimal()
    del handoff["outcome"]
    assert codes(ws, handoff) == {"outcome": "required"}


STEP = [{"step": "go on"}]


@pytest.mark.promise("S3-12", "S3-13", "S3-14", "S3-15", "S3-11")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"outcome": "completed"}, {}),
        ({"outcome": "partial"}, {"blockers", "suggested_next_steps"}),
        ({"outcome": "partial", "suggested_next_steps": STEP}, {"blockers"}),
        ({"outcome": "partial", "blockers": [{"blocker": "b"}]}, {"suggested_next_steps"}),
        (
            {"outcome": "partial", "blockers": [{"blocker": "b"}], "suggested_next_steps": STEP},
            {},
        ),
        ({"outcome": "failed"}, {"blockers"}),
        (
            {"outcome": "failed", "blockers": [{"blocker": "b"}, {"blocker": "c"}]},
            {"blockers[0].suggested_resolution", "blockers[1].suggested_resolution"},
        ),
        ({"outcome": "failed", "blockers": [{"blocker": "b", "suggested_resolution": "r"}]}, {}),
        ({"outcome": "blocked"}, {"blockers"}),
        (
            {
                "outcome": "blocked",
                "blockers": [{"blocker": "b", "blocking_tasks": ["T-2"]}, {"blocker": "c"}],
            },
            {"blockers[1].blocking_tasks"},
        ),
        ({"outcome": "blocked", "blockers": [{"blocker": "b", "blocking_tasks": ["T-2"]}]}, {}),
    ],
)
def test_each_outcome_has_its_own_demands(
    ws: Workspace, given: Document, expected: set[str]
) -> None:
    """Partial needs blockers and steps, failed resolutions, blocked tasks; completed nothing."""
    assert set(problems_of(ws, minimal(**given))) == set(expected)
    if not expected:
        assert ws.hand_off(minimal(**given)).version == 2


@pytest.mark.promise("S3-5", "S3-15")
def test_changed_files_have_to_be_listed(ws: Workspace) -> None:
    """With changes known, at least one list names some; what is left out is warned about."""
    changed = ["src/config.py", "src/auth/jwt.py"]
    assert codes(ws, minimal(), changed_files=changed) == {"files_modified": "required"}
    faulty = minimal(to_agent="two words")
    assert set(problems_of(ws, faulty, changed_files=changed)) == {"to_agent", "files_modified"}
    assert codes(ws, minimal(), changed_files=[]) == {}
    listed = minimal(files_created=[{"path": "src/config.py", "purpose": "p"}])
    command = ws.hand_off(listed, changed_files=changed)
    unlisted = [p.message for p in command.warnings if p.code == "unlisted_file"]
    assert unlisted == ["src/auth/jwt.py changed"]


FAULTS: list[tuple[str, Document, dict[str, str]]] = [
    ("S3-3", {"files_created": [{}]}, {"path": "required", "purpose": "required"}),
    ("S3-3", {"files_created": [{"path": "src/config.py", "purpose": "", "lines": "0-1"}]},
     {"purpose": "empty", "lines": "invalid_lines"}),
    ("S3-4", {"files_modified": [{"path": "src/config.py"}]},
     {"lines": "required", "change_type": "required", "description": "required"}),
    ("S3-4", {"files_modified": [{"path": "src/config.py", "lines": "9-1",
                                  "change_type": "rewrite", "description": "d"}]},
     {"lines": "invalid_lines", "change_type": "invalid_choice"}),
    ("S3-6", {"patterns_discovered": [{"applies_to": ["Not A Tag"]}]},
     {"pattern": "required", "location": "required", "applies_to[0]": "invalid_tag"}),
    ("S3-7", {"gotchas": [{"severity": "blocker"}]},
     {"issue": "required", "mitigation": "required", "severity": "invalid_choice"}),
    ("S3-8", {"dependencies_for_next": [{"file": "/etc/passwd"}]},
     {"file": "invalid_path", "reason": "required"}),
    ("S3-9", {"open_questions": [{"blocking": "perhaps"}]},
     {"question": "required", "blocking": "wrong_type"}),
    ("S3-10", {"suggested_next_steps": [{"priority": "urgent", "depends_on": "a.py"}]},
     {"step": "required", "priority": "invalid_choice", "depends_on": "wrong_type"}),
    ("S3-11", {"blockers": [{"blocking_tasks": ["../x"], "severity": "huge",
                             "requires_human": "maybe"}]},
     {"blocker": "required", "blocking_tasks[0]": "invalid_id", "severity": "invalid_choice",
      "requires_human": "wrong_type"}),
    ("S1-6", {"decisions": [{"rationale": " ", "at": "yesterday", "status": "wild",
                             "supersedes": ["d1"]}]},
     {"summary": "required", "rationale": "empty", "at": "invalid_time", "status": "invalid_choice",
      "supersedes[0]": "invalid_address"}),
    ("S1-3", {"artifacts": [{"path": "..", "type": "binary", "size_bytes": -1, "sha256": "x"}]},
     {"path": "invalid_path", "type": "invalid_choice", "size_bytes": "out_of_range",
      "sha256": "invalid_format"}),
    ("S1-27", {"gates": [{"result": "skipped"}]},
     {"name": "required", "result": "invalid_choice"}),
]  # fmt: skip


@pytest.mark.promise(
    "S3-3", "S3-4", "S3-6", "S3-7", "S3-8", "S3-9", "S3-10", "S3-11", "S3-19", "S3-20", "S1-7"
)
@pytest.mark.parametrize(("part", "expected"), [(part, found) for _, part, found in FAULTS])
def test_every_fault_of_a_part_is_named_with_its_path(
    ws: Workspace, part: Document, expected: dict[str, str]
) -> None:
    """Each field of an entry is checked; all faults come at once, addressed by list and place."""
    ((name, _),) = part.items()
    found = codes(ws, minimal(**part))
    assert found == {f"{name}[0].{field}": code for field, code in expected.items()}


@pytest.mark.promise("S3-20", "P-7")
def test_a_missing_choice_lists_what_it_may_be(ws: Workspace) -> None:
    """At any depth, also in smaller writes."""
    handoff = {
        "task": "T-1",
        "gotchas": [{"issue": "i", "mitigation": "m"}],
        "files_modified": [{"path": "a.py", "lines": "all", "description": "d"}],
        "gates": [{"name": "lint"}],
        "decisions": [{"summary": "s"}],
    }
    expected = {
        p.path: p.expected for p in ws.check_handoff(handoff).problems if p.code == "required"
    }
    assert expected == {
        "outcome": "completed | partial | failed | blocked",
        "gotchas[0].severity": "high | medium | low",
        "files_modified[0].change_type": "add | modify | delete | refactor",
        "gates[0].result": "passed | failed",
        "decisions[0].rationale": "a value for rationale",
    }
    with pytest.raises(InvalidInput) as caught:
        ws.note("gotcha", agent="a", task="T-1", issue="i", mitigation="m")
    assert [p.expected for p in caught.value.problems] == ["high | medium | low"]


def test_all_faults_of_a_handoff_come_at_once(ws: Workspace) -> None:
    """One refusal names every fault of every part, and the broken rules across fields too."""
    handoff = minimal(outcome="failed", from_agent="system", phase="shipping")
    for _, part, _ in FAULTS:
        for name, entries in part.items():
            handoff[name] = [*handoff.get(name, []), *entries]
    expected: dict[str, str] = {
        "from_agent": "reserved_name",
        "phase": "invalid_choice",
        "blockers[0].suggested_resolution": "required",
        "files_modified[1].path": "duplicate_path",
    }
    for _, part, found in FAULTS:
        ((name, entries),) = part.items()
        place = handoff[name].index(entries[0])
        expected |= {f"{name}[{place}].{field}": code for field, code in found.items()}
    assert codes(ws, handoff) == expected


@pytest.mark.promise("S3-20")
def test_a_problem_can_be_read_by_a_machine_and_by_a_model(ws: Workspace) -> None:
    """Path, code, level, what was expected and a way to mend it stand apart and in one line."""
    handoff = minimal(gotchas=[{"issue": "i", "mitigation": "m", "severity": "hgih"}])
    problem = problems_of(ws, handoff)["gotchas[0].severity"]
    assert problem.to_dict() == {
        "path": "gotchas[0].severity",
        "code": "invalid_choice",
        "message": "'hgih' is not one of the choices",
        "expected": "high | medium | low",
        "fix": "high",
        "level": "error",
    }
    assert problem.line() == (
        "gotchas[0].severity: 'hgih' is not one of the choices; expected high | medium | low. "
        "Try: high [invalid_choice]"
    )


@pytest.mark.promise("S3-20", "P-4")
def test_unknown_fields_are_warned_about_and_kept(ws: Workspace) -> None:
    """Nothing is lost: what the schema doesn't know is named, and stands under metadata."""
    command = ws.hand_off(
        minimal(
            colour={"deep": [1, None, True]},
            gotchas=[{"issue": "i", "mitigation": "m", "severity": "low", "seen_by": ["x"]}],
            story={"id": "S-1", "epic": "E-1"},
            metadata={"mine": 1},
        )
    )
    unknown = {p.path: p for p in command.warnings if p.code == "unknown_field"}
    assert set(unknown) == {"colour", "gotchas[0].seen_by", "story.epic"}
    assert {p.level for p in unknown.values()} == {"warning"}
    assert ws.show("T-1#h1").metadata == {
        "mine": 1,
        "colour": {"deep": [1, None, True]},
        "gotchas[0]": {"seen_by": ["x"]},
        "story": {"epic": "E-1"},
    }


@pytest.mark.promise("S3-20", "P-7")
def test_a_misspelled_field_is_refused_with_the_right_one(ws: Workspace) -> None:
    """What is close to a field's name is an error, at any depth; unless both are given."""
    handoff = minimal(sumary="s", gotchas=[{"issue": "i", "mitigation": "m", "severty": "low"}])
    found = problems_of(ws, handoff)
    assert found["sumary"].fix == "did you mean summary?"
    assert found["gotchas[0].severty"].fix == "did you mean severity?"
    assert codes(ws, minimal(summary="s", sumary="t")) == {}
    with pytest.raises(InvalidInput, match="did you mean description"):
        ws.create_task("T-2", title="t", agent="a", descriptoin="d")


@pytest.mark.promise("S0-34")
def test_usual_names_and_bare_texts_are_accepted(ws: Workspace) -> None:
    """Aliases give the same record as the handoff's own names; a text stands for an entry."""
    expected = ws.hand_off(
        minimal(
            to_agent="coder",
            suggested_next_steps=[{"step": "go on"}],
            open_questions=[{"question": "why?"}],
            artifacts=[{"path": "src/config.py", "note": "n"}],
        )
    )
    again = ws.hand_off(
        {
            "task_id": "T-1",
            "outcome": "completed",
            "from": "planner",
            "to": "coder",
            "next_steps": ["go on"],
            "questions": ["why?"],
            "files": [{"path": "src/config.py", "purpose": "n"}],
        }
    )
    assert again.is_replay
    assert again.digest == expected.digest
    faulty = minimal(to="two words", next_steps=[{"step": "s", "priority": "urgent"}])
    assert set(problems_of(ws, faulty)) == {"to", "next_steps[0].priority"}


@pytest.mark.promise("S3-20", "P-4")
def test_unknown_fields_of_smaller_writes_are_kept_too(ws: Workspace) -> None:
    """A task, a decision and a note keep what their schema doesn't know."""
    made = ws.create_task("T-2", title="t", agent="a", colour="red")
    decided = ws.decide(task="T-2", agent="a", summary="s", rationale="r", mood="sure")
    noted = ws.note("gotcha", task="T-2", agent="a", issue="i", mitigation="m", severity="low", x=1)
    for receipt, field in ((made, "colour"), (decided, "mood"), (noted, "x")):
        assert [p.path for p in receipt.warnings if p.code == "unknown_field"] == [field]
    state = ws.files.state_document("T-2")
    assert state["metadata"] == {"colour": "red"}
    assert state["decisions"][0]["metadata"] == {"mood": "sure"}
    assert state["gotchas"][0]["metadata"] == {"x": 1}


@pytest.mark.promise("S3-21")
def test_recommended_fields_are_warned_about_and_scored(ws: Workspace) -> None:
    """Required ones are errors, recommended ones warnings, optional ones nothing; all score."""
    bare = ws.check_handoff(minimal())
    advised = {p.path for p in bare.problems if p.code == "recommended"}
    assert advised == {
        "summary",
        "patterns_discovered",
        "gotchas",
        "dependencies_for_next",
        "suggested_next_steps",
    }
    assert {p.level for p in bare.problems} == {"warning"}
    assert bare.ok
    full = ws.check_handoff(full_handoff())
    assert [p for p in full.problems if p.code == "recommended"] == []
    assert full.detail_score == 100
    assert 0 < bare.detail_score < ws.check_handoff(minimal(summary="s")).detail_score < 100
    assert ws.check_handoff({"task": "T-1"}).detail_score == 0
    assert ws.hand_off(full_handoff()).detail_score == 100
    assert json.loads(json.dumps(full.to_dict()))["detail_score"] == 100


@pytest.mark.promise("S3-42")
def test_the_schema_has_a_version_and_unknown_ones_are_reported(ws: Workspace) -> None:
    """1.0 is the version, given or not; another one is named and refused."""
    problem = problems_of(ws, minimal(schema_version="2.0"))["schema_version"]
    assert (problem.code, problem.expected) == ("invalid_choice", "1.0")
    assert problems_of(ws, {**minimal(), "schema_version": 1.0}).keys() == {"schema_version"}
    ws.hand_off(minimal(schema_version="1.0"))
    assert ws.hand_off(minimal()).is_replay


@pytest.mark.promise("S3-6", "S3-7")
def test_ids_are_made_from_the_content_where_none_is_given(ws: Workspace) -> None:
    """An id is stable for the same text, unique within a handoff, and kept when it is given."""
    pattern = {"pattern": "p", "location": "l"}
    gotcha = {"issue": "i", "mitigation": "m", "severity": "low"}
    handoff = minimal(
        patterns_discovered=[pattern, pattern, {**pattern, "id": "pattern-mine"}],
        gotchas=[gotcha, {**gotcha, "issue": "j"}],
    )
    ws.hand_off(handoff)
    state = ws.files.state_document("T-1")
    first, second, third = (p["id"] for p in state["patterns"])
    assert first.startswith("pattern-")
    assert (second, third) == (f"{first}-2", "pattern-mine")
    one, two = (g["id"] for g in state["gotchas"])
    assert one.startswith("gotcha-")
    assert one != two
    ws.create_task("T-2", title="t", agent="a")
    ws.hand_off({**handoff, "task": "T-2", "summary": "elsewhere"})
    assert ws.files.state_document("T-2")["patterns"][0]["id"] == first


@pytest.mark.promise("S0-34")
def test_values_inside_are_plain_and_typed(ws: Workspace) -> None:
    """YAML's texts become the types of the schema; what isn't of them is refused, not guessed."""
    text = "task: T-1\nfrom_agent: planner\noutcome: completed\nexpect_version: 1\n" + (
        "open_questions:\n  - question: 'yes?'\n    blocking: true\n"
        "  - question: 12\n    blocking: no\n"
    )
    ws.hand_off(text)
    questions = ws.state("T-1").questions
    assert [(q.question, q.blocking) for q in questions] == [("yes?", True), ("12", False)]
    assert codes(ws, minimal(expect_version=True)) == {"expect_version": "wrong_type"}
    assert codes(ws, minimal(summary=5)) == {"summary": "wrong_type"}
    assert codes(ws, minimal(decisions={"summary": "s"})) == {"decisions": "wrong_type"}
    assert codes(ws, minimal(decisions=["s"])) == {"decisions[0].rationale": "required"}
    assert codes(ws, minimal(story="s", warnings=[{}])) == {
        "story": "wrong_type",
        "warnings[0]": "wrong_type",
    }


@pytest.mark.promise("S0-34", "S3-42")
def test_the_published_schema_accepts_the_examples() -> None:
    """The JSON Schema of a handoff holds for the full one and refuses what the door refuses."""
    schema = handoff_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(json_schema(TaskFields))
    valid: Any = jsonschema.Draft202012Validator(schema)
    assert list(valid.iter_errors(full_handoff())) == []
    assert list(valid.iter_errors(minimal())) == []
    for wrong in ({}, minimal(outcome="done"), minimal(gotchas=[{"issue": "i"}])):
        assert list(valid.iter_errors(wrong))
    task = {"task": "T-1", "title": "t", "agent": "a", "depends_on": ["T-2"]}
    for_tasks: Any = jsonschema.Draft202012Validator(json_schema(TaskFields))
    assert list(for_tasks.iter_errors(task)) == []


def test_a_pydantic_model_is_made_on_request() -> None:
    """It takes the full example and refuses what a field's own rule refuses."""
    model = pydantic_model()
    assert model(**full_handoff()).outcome == full_handoff()["outcome"]
    assert set(model.model_fields) == set(handoff_schema()["properties"])
    for wrong in (
        minimal(task="../x"),
        minimal(outcome="done"),
        minimal(blockers=[{"blocker": ""}]),
    ):
        with pytest.raises(ValueError, match="validation error"):
            model(**wrong)


# -- the neighbouring shapes


STATE_FILE: Document = {
    "task_id": "T-1",
    "task_title": "Login",
    "phase": "implementing",
    "previous_phase": "planning",
    "phase_started_at": "2026-01-08T10:00:00Z",
    "artifacts": [
        {
            "path": "src/config.py",
            "artifact_type": "config",
            "content_hash": "not a real hash",
            "size_bytes": 9,
        }
    ],
    "context_summary": "Tokens are signed.",
    "decisions_made": [
        {
            "decision": "JWT",
            "rationale": "scripts",
            "timestamp": "2026-01-08T09:00:00+00:00",
            "agent": "planner",
            "alternatives": ["cookies"],
        }
    ],
    "blocking_issues": [
        {
            "issue": "No key",
            "severity": "high",
            "suggested_action": "Ask",
            "requires_human": False,
        }
    ],
    "warnings": ["Slow"],
    "quality_gates_passed": ["lint"],
    "quality_gates_failed": ["types"],
    "source_agent": "planner",
    "target_agent": "coder",
    "handoff_timestamp": "2026-01-08T11:00:00Z",
    "version": 2,
}


@pytest.mark.promise("S1-8", "S1-18", "S1-6", "S1-7")
def test_a_state_file_is_taken_in_field_by_field(ws: Workspace) -> None:
    """Every field of a state file is found again, in its place or under metadata."""
    command = ws.hand_off(STATE_FILE)
    state = ws.state("T-1")
    assert (command.version, state.phase, state.previous_phase) == (2, "implementing", "planning")
    assert (state.source_agent, state.target_agent) == ("planner", "coder")
    assert state.context_summary == "Tokens are signed."
    (decision,) = state.decisions
    assert (decision.summary, decision.rationale) == ("JWT", "scripts")
    assert decision.at is not None
    assert decision.at.isoformat() == "2026-01-08T09:00:00+00:00"
    assert decision.alternatives == ("cookies",)
    (issue,) = state.blockers
    assert (issue.blocker, issue.severity, issue.suggested_resolution) == ("No key", "high", "Ask")
    assert (state.gates_passed, state.gates_failed) == (("lint",), ("types",))
    assert state.warnings == ("Slow",)
    (artifact,) = state.artifacts
    assert (artifact.path, artifact.type, artifact.size_bytes) == ("src/config.py", "config", 9)
    assert artifact.sha256 != "not a real hash"
    metadata = ws.show("T-1#h1").metadata
    assert metadata["artifacts[0]"] == {"content_hash": "not a real hash"}
    assert metadata["state_file"] == {
        "task_title": "Login",
        "previous_phase": "planning",
        "phase_started_at": "2026-01-08T10:00:00Z",
        "handoff_timestamp": "2026-01-08T11:00:00Z",
    }


@pytest.mark.promise("S1-18", "S1-8")
def test_a_state_file_makes_the_round_trip(ws: Workspace, tmp_path: Path) -> None:
    """Rendered, taken in elsewhere and rendered again, a state file stays the same."""
    ws.hand_off(full_handoff())
    rendered = state_file(ws.files.state_document("T-1"))
    elsewhere = tmp_path / "elsewhere"
    write_files(str(elsewhere))
    with passdown.open(str(elsewhere), clock=fixed_clock()) as other:
        other.create_task("T-1", title="Login", agent="planner")
        other.hand_off(json.dumps({**rendered, "suggested_next_steps": STEP}))
        assert state_file(other.files.state_document("T-1")) == rendered


SWITCH: Document = {
    "version": "1.0",
    "timestamp": "2026-01-08T10:00:00Z",
    "from_agent": "sm",
    "to_agent": "dev",
    "story_context": {
        "story_id": "T-1",
        "story_path": "stories/1.md",
        "story_status": "Ready",
        "current_task": "Login",
        "branch": "login",
    },
    "decisions": ["Use JWT", "Use Redis"],
    "files_modified": ["src/config.py", "src/auth/jwt.py"],
    "blockers": ["No key"],
    "next_action": "Write the tests. Then ask for the key.",
}


@pytest.mark.promise("S0-34")
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_switch_artifact_is_taken_in_and_rendered_again(ws: Workspace, wrapped: bool) -> None:
    """Every field of a switch artifact is recorded, and rendering gives the artifact back."""
    given = {"handoff": SWITCH, "consumed": True} if wrapped else SWITCH
    command = ws.hand_off(in_yaml(given))
    assert (command.task, command.to_agent, command.outcome) == ("T-1", "dev", "partial")
    metadata = ws.show("T-1#h1").metadata
    assert metadata["switch_artifact"] == {"version": "1.0", "timestamp": SWITCH["timestamp"]}
    assert ("consumed" in metadata) is wrapped
    rendered = switch_artifact(ws.files.state_document("T-1"), command.state_file)
    assert rendered.pop("full_record") == command.state_file
    assert rendered.pop("omitted") == {}
    rendered["timestamp"] = SWITCH["timestamp"]
    assert rendered == SWITCH


@pytest.mark.promise("P-4")
def test_a_switch_artifact_counts_what_its_limits_cut(ws: Workspace) -> None:
    """Five decisions, ten files, three blockers; what is left out is counted, not lost."""
    names = [f"src/{number:02}.py" for number in range(12)]
    write_files(ws.root, dict.fromkeys(names, "x"))
    severities = ("low", "blocker", "medium", "high", "low")
    command = ws.hand_off(
        minimal(
            outcome="failed",
            decisions=[{"summary": f"d{n}", "rationale": "r"} for n in range(7)],
            artifacts=[{"path": name} for name in names],
            blockers=[
                {"blocker": f"b{n}", "severity": s, "suggested_resolution": "r"}
                for n, s in enumerate(severities)
            ],
        )
    )
    rendered = switch_artifact(ws.files.state_document("T-1"), command.state_file)
    assert rendered["decisions"] == [f"d{n} (r)" for n in (6, 5, 4, 3, 2)]
    assert rendered["files_modified"] == names[:1:-1]
    assert rendered["blockers"] == ["b1", "b3", "b2"]
    assert rendered["omitted"] == {"decisions": 2, "files_modified": 2, "blockers": 2}
    assert rendered["full_record"] == command.state_file


@pytest.mark.promise("S0-34", "P-7")
@pytest.mark.parametrize(
    ("shape", "changes", "path"),
    [
        (STATE_FILE, {"artifacts": "src/config.py"}, "artifacts"),
        (STATE_FILE, {"artifacts": [5]}, "artifacts[0]"),
        (STATE_FILE, {"decisions_made": "JWT"}, "decisions"),
        (STATE_FILE, {"quality_gates_passed": "lint"}, "gates"),
        (STATE_FILE, {"blocking_issues": {"issue": "x"}}, "blockers"),
        (STATE_FILE, {"version": "two"}, "expect_version"),
        (STATE_FILE, {"version": True}, "expect_version"),
        (SWITCH, {"story_context": "T-1"}, "story"),
        (SWITCH, {"decisions": "Use JWT"}, "decisions"),
        (SWITCH, {"files_modified": "src/config.py"}, "artifacts"),
        (SWITCH, {"next_action": 5}, "suggested_next_steps[0].step"),
    ],
)
def test_a_faulty_shape_is_refused_not_emptied(
    ws: Workspace, shape: Document, changes: Document, path: str
) -> None:
    """A list that is no list, or a field of the wrong type, is named; nothing falls away."""
    assert path in problems_of(ws, {**shape, **changes})


def test_shapes_can_be_read_where_files_are_elsewhere(tmp_path: Path) -> None:
    """Without the files at hand, hashes and sizes of a state file are taken as they are."""
    digest = "sha256:" + "a" * 64
    given = {**STATE_FILE, "artifacts": [{**STATE_FILE["artifacts"][0], "content_hash": digest}]}
    with passdown.open(str(tmp_path), settings=Settings(artifacts_on_disk=False)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.hand_off(given)
        assert state_file(ws.files.state_document("T-1"))["artifacts"] == given["artifacts"]


@pytest.mark.parametrize("place", ["metadata", "weird", "metadata.deep", "decision"])
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_key_that_is_no_text_is_refused_wherever_it_is(
    tmp_path: Path, place: str, is_remote: bool
) -> None:
    """`1` and `"1"` would be one key in JSON: nobody loses a value without being told."""
    odd: Any = {1: "a", "1": "b"}
    given: dict[str, Any] = {
        "metadata": {"metadata": odd},
        "weird": {"weird": odd},
        "metadata.deep": {"metadata": {"deep": [odd]}},
        "decision": {"decisions": [{"summary": "x", "rationale": "y", "weird": odd}]},
    }[place]
    with contextlib.ExitStack() as opened:
        ws = opened.enter_context(passdown.open(str(tmp_path)))
        ws.create_task("T-1", title="Login", agent="dev")
        if is_remote:
            server = opened.enter_context(served(ws))
            ws = opened.enter_context(server.opened("dev", "read", "write"))
        handoff = {"task": "T-1", "outcome": "completed", **given}
        for handed in ((handoff,), ()):
            with pytest.raises(InvalidInput, match="a key is int"):
                ws.hand_off(*handed, **({} if handed else handoff))
        assert ws.task("T-1").version == 1
