"""Issues and memories are read line by line: what is wrong with one line is its own affair."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.graph import check_graph
from passdown.imports.beads import read_beads
from passdown.imports.importer import IMPORT_FORMATS, format_of, format_of_folder
from passdown.imports.mcp_memory import read_memory
from tests.imports.sources import (
    MADR_FRONT,
    NYGARD_NEW,
    README,
    entities,
    issue,
    issues,
    link,
)


def lines(entries: list[Any]) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def test_an_issue_becomes_what_a_task_says() -> None:
    """Criteria one by one, dependencies apart from other links, the rest in words."""
    found = {each.id: each for each in read_beads(lines(issues())).issues}
    done, going = found["bd-1.1"], found["bd-a3f8"]
    assert done.criteria == ("logs in", "logs out")
    assert done.phase == "completed"
    assert done.summary == (
        "Status in beads: closed since 2025-11-07.\n\nDone in 3 commits\n\nThe clock is UTC."
    )
    assert done.relations == (("relates_to", "bd-1", "parent-child"),)
    assert going.depends_on == ("bd-1.1",)
    assert going.relations == (("discovered_in", "bd-1.1", "discovered-from"),)
    assert going.assignee == "kim"
    for words in ("Design:\nOne table.", "Comment by ada:\nMind the index.", "priority 2"):
        assert words in going.description
    assert "labels web" in found["bd-1"].description
    assert found["bd-b"].assignee == ""
    assert "Ada N <a@example.org>" in found["bd-b"].description
    assert found["bd-gone"].is_tombstone


def test_a_broken_line_is_reported_with_its_number() -> None:
    """What a merge or an editor left behind costs one line and no more."""
    good = [lines([issue(f"bd-{n}")]) for n in range(3)]
    bad = [b"<<<<<<< HEAD\n", b'{"id": "bd-9", "title": \n', b"[1]\n", b"\xff\xfe\n", b"\n"]
    found = read_beads(b"".join([good[0], *bad, good[1], good[2]]))
    assert [each.id for each in found.issues] == ["bd-0", "bd-1", "bd-2"]
    assert [(p.path, p.code) for p in found.problems] == [
        ("line 2", "invalid_json"),
        ("line 3", "invalid_json"),
        ("line 4", "wrong_type"),
        ("line 5", "invalid_utf8"),
    ]


def test_a_line_of_ten_megabytes_is_refused() -> None:
    """One line can't make the import hold more than its share."""
    found = read_beads(lines([issue("bd-1", notes="x" * 10_000_000), issue("bd-2")]))
    assert [each.id for each in found.issues] == ["bd-2"]
    assert [(p.path, p.code) for p in found.problems] == [("line 1", "too_large")]


def test_what_no_task_can_hold_is_refused_and_named() -> None:
    """Ids that can't be file names, titles that show nothing, links that lead out or in circles."""
    entries = [
        issue("../up"),
        issue("bd-1", title="\u200b"),
        issue("bd-2", dependencies=[link("bd-2", "external:x:y", "blocks")]),
        issue("bd-3", dependencies=[link("bd-3", "bd-4", "blocks")]),
        issue("bd-4", dependencies=[link("bd-4", "bd-3", "blocks"), link("bd-4", "bd-4", "x")]),
        {**issue("x"), "id": 7},
        issue("bd-5", notes="y" * 70_000),
    ]
    found = read_beads(lines(entries))
    assert [each.id for each in found.issues] == ["bd-2", "bd-3", "bd-4"]
    assert sum(len(each.depends_on) for each in found.issues) == 1
    assert [p.code for p in found.problems] == [
        *("invalid_id", "required", "invalid_link", "invalid_link", "required", "too_long"),
        "cycle",
    ]


def test_the_later_of_two_lines_with_one_id_counts() -> None:
    """Beads merges by time of update; so does this, and it says so."""
    old = issue("bd-1", title="old", updated_at="2025-01-01T00:00:00Z")
    new = issue("bd-1", title="new", updated_at="2025-02-01T00:00:00Z")
    for entries, line in (([old, new], "line 1"), ([new, old], "line 2")):
        found = read_beads(lines(entries))
        assert [each.title for each in found.issues] == ["new"]
        assert [(p.path, p.code) for p in found.problems] == [(line, "duplicate_id")]


def test_a_memory_becomes_nodes_and_edges() -> None:
    """The type is a tag, observations are lines, relations between the same two share an edge."""
    found = read_memory(lines(entities()))
    assert found.problems == ()
    service, kim, odd = found.nodes
    assert (service.id, service.type, service.tags) == ("Login service", "insight", ("service",))
    assert service.summary == "Login service: Runs on port 8080"
    assert service.attributes == {"description": "Runs on port 8080\nOwned by Kim"}
    assert kim.summary == "Kim"
    assert odd.id == "entity:task:T-1"
    owns, is_for = found.edges
    assert (owns.key, owns.attributes) == (
        ("Kim", "relates_to", "Login service"),
        {"name": "owns; wrote"},
    )
    assert is_for.source == "entity:task:T-1"
    assert check_graph(found.nodes, found.edges) == []


def test_a_memory_that_is_half_right() -> None:
    """Entities listed twice are joined; dangling relations and what is no text are named."""
    entries: list[Any] = [
        {"name": "A", "entityType": "x", "observations": ["one", 2, " "]},
        {"type": "entity", "name": "A", "entityType": "y", "observations": ["one", "two"]},
        {"type": "relation", "from": "A", "to": "B", "relationType": "knows"},
        {"type": "relation", "from": "A", "to": "A", "relationType": ""},
        {"type": "entity", "name": "", "entityType": "x", "observations": []},
        {"type": "entity", "name": "L", "entityType": "x", "observations": ["z" * 21_000, "ok"]},
        {"type": "note", "text": "hello"},
    ]
    found = read_memory(lines(entries))
    assert [(n.id, n.tags) for n in found.nodes] == [("A", ("x", "y")), ("L", ("x",))]
    assert [n.attributes["description"] for n in found.nodes] == ["one\ntwo", "ok"]
    assert found.edges == ()
    assert sorted(p.code for p in found.problems) == [
        *("required", "too_long", "unknown_node", "unknown_node", "unknown_type", "wrong_type"),
    ]


_FIELDS = (
    *("id", "title", "status", "notes", "labels", "dependencies", "depends_on_id", "comments"),
    *("type", "name", "entityType", "observations", "from", "to", "relationType"),
)
_NAMES = st.text() | st.sampled_from(_FIELDS)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner),
)
_LINES = st.lists(st.binary() | _VALUES.map(lambda value: json.dumps(value).encode()))


@given(_LINES.map(b"\n".join))
def test_no_bytes_can_break_the_readers(data: bytes) -> None:
    """Any bytes give entries and problems, and what is taken keeps to the rules."""
    memory = read_memory(data)
    assert check_graph(memory.nodes, memory.edges) == []
    for each in read_beads(data).issues:
        assert each.id
        assert each.title
    for name in ("a.jsonl", "HANDOFF.md"):
        assert format_of(name, data) in ("", *IMPORT_FORMATS)


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("x.passdown", b"PK\x03\x04rest", "bundle"),
        ("issues.jsonl", lines(issues()), "beads"),
        ("memory.json", b"\xef\xbb\xbf" + lines(entities()), "memory"),
        ("broken.jsonl", b"{oops\n" + lines(issues()), "beads"),
        ("0003-x.md", NYGARD_NEW.encode(), "adr"),
        ("any-name.md", MADR_FRONT.encode(), "adr"),
        ("HANDOFF.md", b"# Handoff\n\n## Next steps\n\n- go on\n", "notes"),
        ("README.md", README.encode(), ""),
        ("x.jsonl", b'{"hello": 1}\n', ""),
        ("x.bin", b"\x00\x01", ""),
        ("empty.jsonl", b"", ""),
    ],
)
def test_the_form_shows_in_the_content(name: str, data: bytes, form: str) -> None:
    """What a file is called matters less than what it says."""
    assert format_of(name, data) == form


def test_notes_beside_adrs_are_about_them() -> None:
    """A folder has the form of its records; two kinds of records are two forms."""
    assert format_of_folder(["adr", "notes", "", "adr"]) == ["adr"]
    assert format_of_folder(["notes", ""]) == ["notes"]
    assert format_of_folder(["adr", "beads", "adr"]) == ["adr", "beads"]
    assert format_of_folder([]) == []
