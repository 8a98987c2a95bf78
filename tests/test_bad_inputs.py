"""Hostile and broken input, through the same door as everything else.

The table below stands for whole classes of input; a larger one is run where PASSDOWN_DATA names a
folder with `bad_inputs.jsonl`. What is refused changes nothing; what is stored comes back to the
letter.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown import Settings
from passdown.core.text import visible
from passdown.errors import GateRefused, InvalidInput, PassdownError, ProblemsError
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]

REJECT = "REJECT"
STORED = "stored"

# surface, input, what is expected: REJECT with a code, or stored
OWN: list[tuple[str, Any, str]] = [
    ("artifact_path", "../up", "REJECT invalid_path"),
    ("artifact_path", "a/../../up", "REJECT invalid_path"),
    ("artifact_path", "/etc/passwd", "REJECT invalid_path"),
    ("artifact_path", "C:\\x", "REJECT invalid_path"),
    ("artifact_path", "\\\\host\\share", "REJECT invalid_path"),
    ("artifact_path", "http://x/y", "REJECT invalid_path"),
    ("artifact_path", "a\x00b", "REJECT invalid_path"),
    ("artifact_path", "a\tb", "REJECT invalid_path"),
    ("artifact_path", "aux.txt", "REJECT invalid_path"),
    ("artifact_path", "", "REJECT invalid_path"),
    ("artifact_path", ".", "REJECT invalid_path"),
    ("artifact_path", {"repeat": ["a/", 65]}, "REJECT too_long"),
    ("artifact_path", {"repeat": ["a", 2_000]}, "REJECT too_long"),
    ("artifact_path", "~/.ssh/id", "treated as a literal relative name"),
    ("artifact_path", {"symlink": {"in_project": "l", "target": "/"}, "path": "l/etc/passwd"},
     "REJECT path_escapes_root"),
    ("artifact_path", {"fifo": "pipe"}, "REJECT not_regular_file"),
    ("task_id", "../x", "REJECT invalid_id"),
    ("task_id", ".hidden", "REJECT invalid_id"),
    ("task_id", "a/b", "REJECT invalid_id"),
    ("task_id", "a\n", "REJECT invalid_id"),
    ("task_id", "nul", "REJECT invalid_id"),
    ("task_id", "", "REJECT invalid_id"),
    ("task_id", {"repeat": ["x", 129]}, "REJECT too_long"),
    ("filter_key", {"'; --": 1}, "REJECT unknown_filter"),
    ("filter_key", {"limit": 0}, "REJECT out_of_range"),
    ("filter_key", {"limit": True}, "REJECT not_an_integer"),
    ("filter_key", {"after": "0 OR 1=1"}, "REJECT not_an_integer"),
    ("filter_key", {"after": 10**30}, "REJECT out_of_range"),
    ("filter_key", {"status": "' OR 1=1"}, "REJECT invalid_choice"),
    ("filter_key", {"phase": ["planning"]}, "REJECT invalid_choice"),
    ("filter_key", {"agent": None}, "REJECT wrong_type"),
    ("text_field", "<script>alert(1)</script>", STORED),
    ("text_field", "{{7*7}} ${x} %s {0}", STORED),
    ("text_field", "\x1b[31mred", STORED),
    ("text_field", "a\u2028b\u2029c\x85d", STORED),
    ("text_field", "\ufeffmark", STORED),
    ("text_field", " padded \n", STORED),
    ("text_field", "\ud800", "REJECT lone_surrogate"),
    ("text_field", "a\x00", "REJECT nul_character"),
    ("text_field", "\u200b\u3164", "REJECT empty"),
    ("text_field", {"repeat": ["x\u0301\u0301", 30]}, STORED),
    ("text_field", {"repeat": ["\u0301", 40]}, "REJECT empty"),
    ("text_field", {"join": ["x", "\u0301" * 40]}, "REJECT too_many_marks"),
    ("text_field", {"repeat": ["x", 70_000]}, "REJECT too_long"),
    ("json_body", '{"a": 1, "a": 2}', "REJECT duplicate_key"),
    ("json_body", '{"a": Infinity}', "REJECT not_finite"),
    ("json_body", '{"a": 1e999}', "REJECT out_of_range"),
    ("json_body", '{"a": 12345678901234567890}', "REJECT out_of_range"),
    ("json_body", '{"a": "\\ud800"}', "REJECT lone_surrogate"),
    ("json_body", '{"expect_version": "one"}', "REJECT wrong_type"),
    ("json_body", '{"metadata": [1]}', "REJECT wrong_type"),
    ("json_body", {"repeat": ["[", 100_000]}, "REJECT too_deep"),
    ("json_body", '{"nested": {"__class__": "os.system"}}', STORED),
    ("yaml_import", "a: &a 1\nb: *a\n", "REJECT yaml_alias"),
    ("yaml_import", "a: !!python/object/apply:os.system ['id']\n", "REJECT yaml_tag"),
    ("yaml_import", "<<: {a: 1}\n", "REJECT yaml_merge"),
    ("yaml_import", "a: 1\na: 2\n", "REJECT duplicate_key"),
    ("yaml_import", "? [a]\n: b\n", "REJECT yaml_key"),
    ("yaml_import", "a: \x07\n", "REJECT control_character"),
    ("yaml_import", "a: [\n", "REJECT invalid_yaml"),
    ("yaml_import", "outcome: yes\n", "REJECT invalid_choice"),
    ("identity", {"agent": "assistant"}, "REJECT reserved_name"),
    ("identity", {"agent": "SYSTEM"}, "REJECT reserved_name"),
    ("identity", {"agent": "a b"}, "REJECT invalid_id"),
    ("identity", {"agent": "dev\u202e"}, "REJECT invalid_id"),
    ("identity", {"agent": ""}, "REJECT invalid_id"),
    ("secrets", {"join": ["gl", "pat-", "x" * 24]}, "REDACT [redacted:gitlab_token]"),
    ("secrets", {"join": ["AK", "\u200d", "IA", "A" * 16]}, "REDACT [redacted:aws_key_id]"),
    ("import_archive", {"zip_entry": "..\\x"}, "REJECT bad_archive"),
    ("import_archive", {"zip_bomb": "manifest"}, "REJECT too_large"),
    ("import_archive", {"tar_hardlink": True}, "REJECT bad_archive"),
]  # fmt: skip

SURFACES = sorted({surface for surface, _, _ in OWN})

# Entries about things that other doors hold: sessions with tokens, and private conversations.
ELSEWHERE = {"session", "read"}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    root = tmp_path / "project"
    write_files(str(root))
    settings = Settings(durability="normal")
    with passdown.open(str(root), settings=settings, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        workspace.hand_off(full_handoff())
        yield workspace


def described(given: Any) -> Document:
    """An input that is described rather than given; empty for any other."""
    return cast("Document", given) if isinstance(given, dict) else {}


def expanded(given: Any) -> Any:
    """The input that an entry describes: `repeat` and `join` stand for long and odd texts."""
    words = described(given)
    if "repeat" in words:
        text, times = words["repeat"]
        return text * times
    if "join" in words:
        return "".join(words["join"])
    if "digits" in words:
        return '{"n": ' + "9" * words["digits"] + "}"
    if "pickle_hex" in words:
        return bytes.fromhex(words["pickle_hex"])
    return given


def snapshot(ws: Workspace) -> Document:
    """Everything that a refused input must leave as it is."""
    return {
        "heads": ws.maintenance.heads().heads,
        "tasks": ws.tasks(),
        "gates": ws.gates(all=True),
        "state": ws.files.state_document("T-1"),
    }


def codes(ws: Workspace, call: Callable[[], Any]) -> set[str]:
    """The codes for which a call is refused, having changed nothing."""
    before = snapshot(ws)
    outside = sorted(os.listdir(os.path.dirname(ws.root)))
    started = time.process_time()
    with pytest.raises((PassdownError, TypeError)) as caught:
        call()
    assert time.process_time() - started < 5
    assert snapshot(ws) == before
    assert sorted(os.listdir(os.path.dirname(ws.root))) == outside
    error = caught.value
    assert len(str(error)) < 20_000
    if isinstance(error, TypeError):
        return {"unknown_filter"} if "keyword" in str(error) else set()
    assert visible(str(error), keep_newlines=True) == str(error)
    return {error.code} | (
        {p.code for p in error.problems} if isinstance(error, ProblemsError) else set()
    )


def expects(expected: str) -> str:
    """The code that `REJECT code (words)` names, or nothing."""
    match = re.search(r"REJECT (?:or truncate|([a-z_]+))", expected)
    return (match[1] or "any") if match else ""


def handoff(**fields: Any) -> Document:
    return {"task": "T-1", "outcome": "completed", "from_agent": "coder", **fields}


def prepared(ws: Workspace, given: Any, expected: str) -> tuple[str, str]:
    """The path of an entry that describes a link, a pipe or a neighbour, once these are made."""
    words = described(given)
    if "symlink" in words:
        link = os.path.join(ws.root, words["symlink"]["in_project"])
        os.symlink(words["symlink"]["target"], link)
        return words["path"], expected
    if "fifo" in words:
        os.mkfifo(os.path.join(ws.root, "pipe"))
        return "pipe", expected
    if "prefix_sibling" in words:
        near = ws.root + "-secrets"
        write_files(near, {"key": "k"})
        os.symlink(near, os.path.join(ws.root, "near"))
        absolute = handoff(artifacts=[{"path": f"{near}/key"}])
        assert "invalid_path" in codes(ws, lambda: ws.hand_off(absolute))
        return "near/key", "REJECT path_escapes_root"
    return given, expected


def run_artifact_path(ws: Workspace, described_path: Any, expectation: str) -> None:
    given, expected = prepared(ws, described_path, expectation)
    ways: list[Document] = [
        {"artifacts": [{"path": given}]},
        {"files_created": [{"path": given, "purpose": "p"}]},
        {"files_modified": [
            {"path": given, "lines": "all", "change_type": "modify", "description": "d"}
        ]},
    ]  # fmt: skip
    if code := expects(expected):
        for way in ways:
            assert code in codes(ws, lambda way=way: ws.hand_off(handoff(**way)))
        if code in ("invalid_path", "too_long"):
            call = {"dependencies_for_next": [{"file": given, "reason": "r"}]}
            assert code in codes(ws, lambda: ws.hand_off(handoff(**call)))
        return
    write_files(ws.root, {given: "x"})
    ws.hand_off(handoff(artifacts=[{"path": given}]))
    import unicodedata

    assert ws.state("T-1").artifacts[-1].path == unicodedata.normalize("NFC", given)
    assert not os.path.exists(os.path.expanduser(os.path.expandvars(given)))


def run_task_id(ws: Workspace, given: Any, expected: str) -> None:
    code = expects(expected)
    assert code in codes(ws, lambda: ws.create_task(given, title="t", agent="a"))
    assert code in codes(
        ws, lambda: ws.create_task("T-9", title="t", agent="a", depends_on=[given])
    )
    assert code in codes(ws, lambda: ws.hand_off(handoff(task=given)))
    assert code in codes(ws, lambda: ws.warn(given, agent="a", text="w"))
    blockers = [{"blocker": "b", "suggested_resolution": "r", "blocking_tasks": [given]}]
    assert code in codes(ws, lambda: ws.hand_off(handoff(blockers=blockers)))
    for read in (ws.state, ws.task, ws.log, ws.artifacts, ws.files.state_file, ws.context.summary):
        assert codes(ws, lambda read=read: read(given)) == {"not_found"}


def run_filter_key(ws: Workspace, given: Any, expected: str) -> None:
    assert expects(expected) in codes(ws, lambda: ws.tasks(**given))


def run_text_field(ws: Workspace, given: Any, expected: str) -> None:
    writes: list[Callable[[], Any]] = [
        lambda: ws.decide(task="T-1", agent="a", summary=given, rationale=given),
        lambda: ws.warn("T-1", agent="a", text=given),
        lambda: ws.note("pattern", task="T-1", agent="a", pattern=given, location="l"),
        lambda: ws.create_task("T-9", title=given, agent="a"),
        lambda: ws.hand_off(
            handoff(warnings=[given], open_questions=[{"question": given}], decisions=[
                {"summary": "s", "rationale": given}])
        ),
    ]  # fmt: skip
    code = expects(expected)
    if "counts as empty" in expected:
        code = "empty"
    if code:
        for write in writes:
            found = codes(ws, write)
            assert code == "any" or code in found
        if code != "empty":
            assert codes(ws, lambda: ws.hand_off(handoff(summary=given)))
        return
    for write in writes:
        write()
    state = ws.files.state_document("T-1")
    kept = [
        state["decisions"][-2]["summary"],
        state["decisions"][-1]["rationale"],
        state["warnings"][-1]["text"],
        state["patterns"][-1]["pattern"],
        state["questions"][-1]["question"],
        ws.state("T-9").title,
    ]
    assert kept == [given] * len(kept)
    path = os.path.join(ws.root, ws.files.state_file("T-1"))
    with open(path, encoding="utf-8", newline="") as file:
        stored = passdown.read_state_file(file.read())
    assert stored["warnings"][-1]["text"] == given
    text = ws.context.summary("T-9")
    assert visible(text, keep_newlines=True) == text
    assert len(text.splitlines()) == 9
    target = os.path.join(os.path.dirname(ws.root), "bundle.zip")
    ws.maintenance.export(target)
    with zipfile.ZipFile(target) as archive:
        lines = archive.read("records.jsonl").decode("ascii").split("\n")
    assert len(lines) - 1 == sum(head[0] for head in ws.maintenance.heads().heads.values())
    if "approved" in given:
        blockers = [{"blocker": "b", "suggested_resolution": "r", "requires_human": True}]
        ws.hand_off(handoff(outcome="failed", blockers=blockers, summary="ask"))
        with pytest.raises(GateRefused):
            ws.hand_off(handoff(summary=given))


def run_json_body(ws: Workspace, given: Any, expected: str) -> None:
    if isinstance(given, str) and given.startswith("{"):
        rest = json.dumps({"task": "T-1", "outcome": "completed", "from_agent": "coder"})
        given = rest[:-1] + ", " + given[1:]
    modules = set(sys.modules)
    if expects(expected):
        assert codes(ws, lambda: ws.hand_off(given)) & {expects(expected), "invalid_utf8"}
        return
    ws.hand_off(given)
    kept = ws.files.state_document("T-1")["handoffs"][-1]["metadata"]
    data = json.loads(given)
    assert kept == {k: v for k, v in data.items() if k not in ("task", "outcome", "from_agent")}
    assert not {name for name in set(sys.modules) - modules if not name.startswith("passdown")}


def run_yaml_import(ws: Workspace, given: Any, expected: str) -> None:
    found = codes(ws, lambda: ws.hand_off(f"task: T-1\nfrom_agent: coder\n{given}"))
    if "strings kept as written" in expected:
        assert found - {"unknown_field"} == {"invalid_input", "invalid_choice"}
        text = "task: T-1\nfrom_agent: coder\noutcome: completed\nnote:\n" + "".join(
            f"  {line}\n" for line in given.splitlines()
        )
        ws.hand_off(text)
        kept = ws.files.state_document("T-1")["handoffs"][-1]["metadata"]["note"]
        assert kept == dict(line.split(": ") for line in given.splitlines())
        return
    assert expects(expected) in found or (given.startswith("&a [") and "invalid_yaml" in found)


def run_identity(ws: Workspace, given: Any, expected: str) -> None:
    code, agent = expects(expected), given["agent"]
    writes: list[Callable[[], Any]] = [
        lambda: ws.create_task("T-9", title="t", agent=agent),
        lambda: ws.decide(task="T-1", agent=agent, summary="s", rationale="r"),
        lambda: ws.decide(agent=agent, summary="s", rationale="r"),
        lambda: ws.note("pattern", agent=agent, pattern="p", location="l"),
        lambda: ws.set_status("T-1#q1", "answered", agent=agent),
        lambda: ws.update_task("T-1", agent=agent, title="t"),
    ]
    if agent:
        writes += [
            lambda: ws.hand_off(handoff(from_agent=agent)),
            lambda: ws.hand_off(handoff(to_agent=agent)),
            lambda: ws.hand_off(
                handoff(decisions=[{"summary": "s", "rationale": "r", "agent": agent}])
            ),
        ]
    for write in writes:
        assert code in codes(ws, write)


def run_secrets(ws: Workspace, given: Any, expected: str) -> None:
    ws.decide(task="T-1", agent="a", summary=f"with {given} inside", rationale=given)
    ws.hand_off(handoff(summary=given, metadata={given: given}))
    marker = re.search(r"\[redacted:[a-z_]+\]", expected)
    shown = json.dumps(ws.files.state_document("T-1"), ensure_ascii=False)
    assert (marker[0] if marker else "[redacted:") in shown
    hidden = re.compile("[\u200b\u200d]")
    needles = {given.encode(), hidden.sub("", given).encode(), json.dumps(given)[1:-1].encode()}
    for folder, _, names in os.walk(ws.root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            assert not [needle for needle in needles if needle in data], name


def _archive(ws: Workspace, given: Document, target: str) -> None:
    """The archive that an entry describes."""
    if any(name.startswith("tar") for name in given):
        with tarfile.open(target, "w") as archive:
            for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE)):
                member = tarfile.TarInfo(f"d/{number}")
                member.type, member.linkname = kind, "../../../x"
                archive.addfile(member)
        return
    if "bundle" in given:
        ws.maintenance.export(target)
        if "edited" in given["bundle"]:
            with zipfile.ZipFile(target) as old:
                members = {name: old.read(name) for name in old.namelist()}
            members["records.jsonl"] = members["records.jsonl"].replace(b"Login", b"Logic")
            with zipfile.ZipFile(target, "w") as new:
                for name, data in members.items():
                    new.writestr(name, data)
        else:
            ws.warn("T-1", agent="a", text="newer")
        return
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * (1 << 25) if "zip_bomb" in given else b"{}")
        archive.writestr(given.get("zip_entry", "records.jsonl"), b"")
        if "duplicate_member" in given:
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("records.jsonl", b"")
    with open(target, "wb") as file:
        file.write(buffer.getvalue())


def run_import_archive(ws: Workspace, given: Any, expected: str) -> None:
    target = os.path.join(os.path.dirname(ws.root), "archive.bin")
    _archive(ws, given, target)
    code = expects(expected)
    assert code in codes(ws, lambda: ws.maintenance.import_bundle(target))
    if "bundle" in given and "edited" in given["bundle"]:
        with pytest.raises(InvalidInput, match="task/T-1@1"):
            ws.maintenance.import_bundle(target)


RUN: dict[str, Callable[[Any, Any, str], None]] = {
    "artifact_path": run_artifact_path,
    "task_id": run_task_id,
    "filter_key": run_filter_key,
    "text_field": run_text_field,
    "json_body": run_json_body,
    "yaml_import": run_yaml_import,
    "identity": run_identity,
    "secrets": run_secrets,
    "import_archive": run_import_archive,
}


def collected() -> list[Document]:
    """The entries of the larger table that concern this door; none where there is no table."""
    folder = os.environ.get("PASSDOWN_DATA")
    if not folder or not os.path.exists(os.path.join(folder, "bad_inputs.jsonl")):
        return []
    with open(os.path.join(folder, "bad_inputs.jsonl"), encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [
        entry
        for entry in entries
        if entry["surface"] in RUN
        and not (isinstance(entry["input"], dict) and ELSEWHERE & entry["input"].keys())
    ]


@pytest.mark.promise("P-6", "P-7", "S0-34")
@pytest.mark.parametrize(
    ("surface", "given", "expected"),
    OWN,
    ids=[f"{surface}-{number}" for number, (surface, _, _) in enumerate(OWN)],
)
def test_hostile_input_is_refused_or_kept_as_text(
    ws: Workspace, surface: str, given: Any, expected: str
) -> None:
    """What is refused names its code and changes nothing; what is stored stays as it was."""
    RUN[surface](ws, expanded(given), expected)
    assert ws.verify().ok


@pytest.mark.parametrize("entry", collected(), ids=lambda entry: str(entry["id"]))
def test_the_larger_table_is_answered_as_it_says(ws: Workspace, entry: Document) -> None:
    """Every entry of the sample data that concerns this door gets the answer written there."""
    RUN[entry["surface"]](ws, expanded(entry["input"]), entry["expected"])
    assert ws.verify().ok


def test_every_surface_has_entries_of_its_own() -> None:
    """The table in this file bites where there is no larger one."""
    assert sorted(RUN) == SURFACES


def test_the_larger_table_was_read(data_folder: Path) -> None:
    """Where the sample data is at hand, its entries are among the tests."""
    if (data_folder / "bad_inputs.jsonl").exists():
        assert len(collected()) > 50
        assert {entry["surface"] for entry in collected()} == set(RUN)
