"""A note's reasons, alternatives, receivers, results and files survive its migration."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from passdown.imports.note_items import extract_note

REDIS = {
    "summary": "Keep sessions in Redis",
    "rationale": "They end by themselves there",
    "alternatives": ["A table", "Signed cookies"],
}
COLUMNS = {
    "Decision": "Keep sessions in Redis",
    "Rationale": "They end by themselves there",
    "Alternatives considered": "A table; Signed cookies",
}


def found(text: str, kind: str) -> list[dict[str, Any]]:
    return [item.fields for item in extract_note(text).found if item.kind == kind]


def decision(text: str) -> dict[str, Any]:
    (fields,) = found(text, "decisions")
    return {name: fields.get(name) for name in REDIS}


def table(columns: dict[str, str]) -> str:
    rule = "|" + "---|" * len(columns)
    return f"# N\n\n| {' | '.join(columns)} |\n{rule}\n| {' | '.join(columns.values())} |\n"


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize("order", list(permutations(COLUMNS)), ids=" ".join)
def test_columns_count_by_their_header_in_any_order(order: tuple[str, ...]) -> None:
    assert decision(table({name: COLUMNS[name] for name in order})) == REDIS


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize("order", list(permutations(("decision", "rationale", "alternatives"))))
@pytest.mark.parametrize("is_listed", [True, False])
def test_keys_of_a_report_count_by_their_name(order: tuple[str, ...], *, is_listed: bool) -> None:
    """Also where the reason is longer than the decision, and in any spelling of the key."""
    values = {"decision": REDIS["summary"], "rationale": REDIS["rationale"]}
    values["alternatives"] = REDIS["alternatives"] if is_listed else "A table; Signed cookies"
    for key in ("decisions", "keyDecisions", "design_decisions"):
        report = {"agent": "a", key: [{name: values[name] for name in order}]}
        assert decision(json.dumps(report, indent=1)) == REDIS
    (short,) = found(
        '{"decisions": [{"decision": "Use FastAPI", "rationale": "Async"}]}', "decisions"
    )
    assert short == {"summary": "Use FastAPI", "rationale": "Async"}


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    "body",
    [
        "- **Keep sessions in Redis**\n  - Rationale: They end by themselves there\n"
        "  - Alternatives considered: A table; Signed cookies\n",
        "1. Keep sessions in Redis\n   - **Why:** They end by themselves there\n"
        "   - **Rejected:** A table; Signed cookies\n",
        "**Decision:** Keep sessions in Redis\n**Reason:** They end by themselves there\n"
        "**Alternatives:** A table; Signed cookies\n",
        "### 1. Sessions\n**Decision**: Keep sessions in Redis\n\n**Rationale**:\n"
        "- They end by themselves there\n\n**Alternatives**:\n- A table\n- Signed cookies\n\n"
        "**Implementation**:\n- One key per session\n",
        "**ADR-1: Sessions**\n- Decision: Keep sessions in Redis\n"
        "- Reason: They end by themselves there\n- Rejected: A table; Signed cookies\n"
        "- Impact: Redis has to be backed up\n",
        "### 1. Keep sessions in Redis\n\n**Rationale**: They end by themselves there\n"
        "**Alternatives**: A table; Signed cookies\n",
    ],
)
def test_labels_below_a_decision_are_its_fields(body: str) -> None:
    assert decision(f"# N\n\n## Decisions\n\n{body}") == REDIS


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    ("line", "summary", "why", "others"),
    [
        ("Use Redis because it is there", "Use Redis", "it is there", None),
        ("**Use Redis**: sessions end there", "Use Redis", "sessions end there", None),
        ("Use Redis - sessions end there", "Use Redis", "sessions end there", None),
        (
            "Celery for all jobs (we have it already)",
            "Celery for all jobs",
            "we have it already",
            None,
        ),
        ("**Session store**: Redis", "Session store: Redis", "Not stated.", None),
        (
            "Chose Redis over a table because rows stay",
            "Chose Redis over a table",
            "rows stay",
            ["a table"],
        ),
    ],
)
def test_a_line_of_decisions_keeps_its_why(
    line: str, summary: str, why: str, others: list[str] | None
) -> None:
    expected = {"summary": summary, "rationale": why, "alternatives": others}
    assert decision(f"# N\n\n## Decisions\n\n- {line}\n") == expected


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    ("note", "sender", "receiver"),
    [
        ("# N\n\nFrom: coder\nTo: tester\n", "coder", "tester"),
        ("# N\n\n**From**: @coder\n**To**: QA Lead (Kim)\n", "coder", "qa-lead"),
        ("# N\n\n## Metadata\n- **Agent:** coder\n- **Next agent:** tester\n", "coder", "tester"),
        ("# N\n\nDone.\n\n## Summary\n\nx\n\n## Metadata\nAgent: coder\n", "coder", ""),
        ("# N\n<!-- From: coder -->\n<!-- To: tester -->\n", "coder", "tester"),
        ("# Handoff: coder \u2192 tester\n\nAll done.\n", "coder", "tester"),
        ('{"from_agent": "coder", "to_agents": ["tester"]}', "coder", "tester"),
        ('{"metadata": {"agent": "coder", "next_agent": "tester"}}', "coder", "tester"),
        ('{"from": {"agent": "coder"}, "to": {"name": "tester"}}', "coder", "tester"),
        ("# N\n\nTo: TBD\n", "", ""),
    ],
)
def test_sender_and_receiver_are_who_the_note_names(note: str, sender: str, receiver: str) -> None:
    header = extract_note(note).header
    assert (header.from_agent, header.to_agent) == (sender, receiver)


@pytest.mark.promise("S3-33")
def test_passed_and_failed_are_results_of_gates_and_no_next_steps() -> None:
    note = (
        "# N\n\n## Next steps: validation\n\n| Check | Result | Note |\n|---|---|---|\n"
        "| Lint | PASS | no warnings |\n| Unit tests | FAILED | 2 of 40 |\n\n"
        "- Build: \u2705 PASS\n- Types: FAIL (3 errors)\n- Ship it\n"
    )
    gates = {fields["name"]: fields["result"] for fields in found(note, "gates")}
    assert gates == {"Lint": "passed", "Unit tests": "failed", "Build": "passed", "Types": "failed"}
    assert [fields["step"] for fields in found(note, "suggested_next_steps")] == ["Ship it"]
    report = {"checks": [{"name": "lint", "status": "pass"}, {"name": "types", "status": "fail"}]}
    assert [fields["result"] for fields in found(json.dumps(report), "gates")] == [
        "passed",
        "failed",
    ]


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize("is_lower", [True, False])
def test_one_remark_a_line_is_one_item_a_line(*, is_lower: bool) -> None:
    lines = [
        "The cache outlives a logout",
        "Tokens end by the server's clock",
        "Mail is sent twice",
    ]
    lines = [line.lower() for line in lines] if is_lower else lines
    note = "# N\n\n## Gotchas\n\n" + "\n".join(lines) + "\n\n## Rest\n\nWell.\n"
    assert [fields["issue"] for fields in found(note, "gotchas")] == lines
    wrapped = (
        "# N\n\n## Gotchas\n\n"
        "The cache of the login page outlives a logout in every browser that we\n"
        "tried, and the tokens in it end by the clock of the server.\n"
    )
    assert len(found(wrapped, "gotchas")) == 1


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Implemented the client in src/a.py", "files_created"),
        ("Wrote the parser in `src/a.py`.", "files_created"),
        ("Added a retry to src/a.py", "files_modified"),
        ("Added src/a.py for that.", "files_created"),
        ("Fixed the timeout in src/a.py.", "files_modified"),
        ("src/a.py was created for this.", "files_created"),
        ("src/a.py: updated for the new client", "files_modified"),
        ("Removed the old code with src/a.py", "files_modified"),
        ("See src/a.py.", "artifacts"),
    ],
)
def test_a_verb_says_what_was_done_to_a_file(sentence: str, kind: str) -> None:
    assert [fields["path"] for fields in found(f"# N\n\n{sentence}\n", kind)] == ["src/a.py"]


@pytest.mark.promise("S3-33")
def test_a_risk_keeps_its_mitigation_in_every_form() -> None:
    issue = {"issue": "The disk fills up", "mitigation": "Rotate the logs"}
    for note in (
        "# N\n\n**Risk**: The disk fills up\n**Mitigation**: Rotate the logs\n",
        "# N\n\n## Risks\n- The disk fills up\n  - Mitigation: Rotate the logs\n",
        "# N\n\n## Risks\n- **Risk**: The disk fills up\n- **Mitigation**: Rotate the logs\n",
        table({"Mitigation": "Rotate the logs", "Severity": "low", "Risk": "The disk fills up"}),
        json.dumps({"risks": [{"mitigation": "Rotate the logs", "risk": "The disk fills up"}]}),
    ):
        (fields,) = found(note, "gotchas")
        assert {name: fields[name] for name in issue} == issue, note


@pytest.mark.promise("S3-33")
def test_a_label_is_an_item_where_it_is_no_part_of_one() -> None:
    """A gap that is called Testing is a gap; the status of the work is no gate."""
    note = (
        "# N\n\nStatus: FAILED\n\n## Known gaps\n- Login: no retry\n- Testing: no browser tests\n"
    )
    assert [fields["issue"] for fields in found(note, "gotchas")] == [
        "Login: no retry",
        "Testing: no browser tests",
    ]
    assert found(note, "gates") == []
    assert extract_note(note).header.outcome == "failed"
