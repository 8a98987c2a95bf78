"""Record a handoff: parse any accepted form, check it, hash its files, pass the gates, append."""

from __future__ import annotations

import dataclasses
import json
import uuid
from typing import TYPE_CHECKING, Any, cast

from passdown.core.handoff import Artifact, Handoff, all_artifacts, as_plain, handoff_body
from passdown.core.intake import (
    NOTHING_CHANGED,
    check_handoff,
    completeness,
    read_handoff,
    same_agent,
)
from passdown.core.kinds import FILE_LISTS
from passdown.core.names import normal_path, path_problems
from passdown.core.record import digest_bytes
from passdown.core.redaction import removal_message
from passdown.core.results import Check, HandoffCommand
from passdown.core.schema import MAX_ENTRIES
from passdown.errors import (
    MORE_PROBLEMS,
    InvalidInput,
    NotFound,
    Problem,
    limited_problems,
    unknown_task,
)
from passdown.ledger import Entry
from passdown.ledger.admission import key_problems
from passdown.ledger.gates import handoff_guard, handoff_notices, handoff_reasons
from passdown.ledger.writer import repeated_record, task_before
from passdown.workspace.entries import memory_warnings
from passdown.workspace.task_context import handoff_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.ledger import Written
    from passdown.store.statements import Reader
    from passdown.workspace.context import Context
    from passdown.workspace.files import CallerFiles
    from passdown.workspace.types import HandoffLike


def hand_off(
    opened: Context,
    handoff: HandoffLike,
    defaults: Mapping[str, Any],
    *,
    key: str | None,
    rebase: bool,
    changed_files: Sequence[str] | None,
) -> HandoffCommand:
    """Record a handoff and give the receiver's command."""
    given = read_handoff(handoff, defaults)
    data = given.data
    checked = check_handoff(data, changed_files=changed_files)
    unnamed = opened.files.unnamed(data)
    if checked.handoff is None or unnamed:
        slips = [each for each in checked.warnings if each.code in ("unknown_field", MORE_PROBLEMS)]
        problems = (*checked.errors, *slips, *unnamed, *_files_anyway(opened, data))
        written_as = given.as_written(problems)
        raise InvalidInput("the handoff is refused", written_as, next_step=NOTHING_CHANGED)
    _check_key(key)
    is_content_key = key is None and not given.is_task_file
    plain = as_plain(checked.handoff)
    key = key or handoff_key(plain)
    value = _signed(opened, checked.handoff, key, latest_only=is_content_key)
    plain["from_agent"] = value.from_agent
    artifacts, disk = _measured(opened, value)
    entry = Entry(
        task=value.task,
        kind="handoff",
        author=value.from_agent,
        body=opened.with_hashes(handoff_body(plain, artifacts)),
        key=key,
        expect_version=value.expect_version,
        rebase=rebase,
        is_content_key=is_content_key,
    )
    notices: list[Problem] = []
    guard = handoff_guard(value.task, opened.settings, disk, notices)
    alike = memory_warnings(opened, entry.body)
    written = opened.ledger.append(entry, guard)
    warnings = [*checked.warnings, *notices, *_redactions(written)]
    warnings += [] if written.is_replay else alike
    warnings += opened.mirror(written)
    warnings += [*_needs(opened, value), *_left_open(opened, value, written)]
    return handoff_command(opened, written, limited_problems(warnings), completeness(plain))


def check_handoff_input(
    opened: Context,
    handoff: HandoffLike,
    *,
    defaults: Mapping[str, Any],
    rebase: bool,
    changed_files: Sequence[str] | None,
) -> Check:
    """Everything that `hand_off` would check, without recording anything."""
    data: dict[str, Any] = {}
    try:
        given = read_handoff(handoff, defaults)
        data = given.data
        checked = check_handoff(data, changed_files=changed_files)
        unnamed = opened.files.unnamed(data)
        if checked.handoff is None or unnamed:
            problems = (*checked.problems, *unnamed, *_files_anyway(opened, data))
            return Check(limited_problems(given.as_written(problems)), 0, data)
        key = handoff_key(as_plain(checked.handoff))
        value = _signed(opened, checked.handoff, key, latest_only=not given.is_task_file)
    except InvalidInput as error:
        return Check(error.problems, 0, data)
    except NotFound as error:
        return Check((_no_task(error),), 0, data)
    artifacts, disk = _measured(opened, value)
    plain = as_plain(value)
    body = handoff_body(plain, artifacts)
    with opened.store.reading() as reader:
        try:
            before = task_before(reader, value.task, "handoff", body)
            gates = handoff_reasons(reader, value.task, before, body, opened.settings)
            gates += [] if rebase else _stale(reader, value)
            gates += handoff_notices(reader, value.task, before, body)
        except NotFound as error:
            gates = [_no_task(error)]
    alike = memory_warnings(opened, body)
    problems = (*checked.problems, *disk, *gates, *_needs(opened, value, body), *alike)
    return Check(limited_problems(problems), completeness(plain), body)


def _needs(opened: Context, handoff: Handoff, body: dict[str, Any] | None = None) -> list[Problem]:
    """What the receiver declares that it needs and doesn't get."""
    if not handoff.to_agent or not (opened.settings.needs or opened.has_profiles):
        return []
    from passdown.workspace.task_context import need_warnings

    return need_warnings(opened, handoff.task, handoff.to_agent, body)


def _left_open(opened: Context, handoff: Handoff, written: Written) -> list[Problem]:
    """The next steps of others that a completed turn says nothing of: done, or still to do?"""
    if handoff.outcome != "completed" or handoff.suggested_next_steps or written.is_replay:
        return []
    if not written.changes.header["counts"].get("n", 0):
        return []
    with opened.store.reading() as reader:
        rows = reader.open_items(handoff.task, ("n",))
    if not rows:
        return []
    first = rows[0]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    message = f"{first.address}{more} is still open: {first.title}"
    fix = f"if it is done, name {first.address} in resolves, or mark it done"
    return [Problem("resolves", "still_open", message, "", fix, "warning")]


def _check_key(key: object) -> None:
    problems = [] if key is None else key_problems(key)
    if problems:
        raise InvalidInput("the handoff is refused", problems, next_step=NOTHING_CHANGED)


def _no_task(error: NotFound) -> Problem:
    return Problem("task", "not_found", error.message, "a task that exists")


def _stale(reader: Reader, handoff: Handoff) -> list[Problem]:
    row = reader.task(handoff.task)
    if row is None or handoff.expect_version in (None, row.version):
        return []
    message = f"{handoff.task} is at version {row.version}, not {handoff.expect_version}"
    return [Problem("expect_version", "conflict", message, str(row.version))]


def _signed(opened: Context, handoff: Handoff, key: str, *, latest_only: bool) -> Handoff:
    """The handoff with its sender: the task's holder where none is named.

    A repeat has the sender of the first time, though the task has another holder since.
    """
    if handoff.from_agent:
        return handoff
    with opened.store.reading() as reader:
        known = repeated_record(reader, handoff.task, key, latest_only=latest_only)
        row = reader.task(handoff.task)
    if row is None:
        raise unknown_task(handoff.task)
    sender = known.author if known else row.holder
    if sender == handoff.to_agent:
        problem = same_agent(f"{sender} holds {handoff.task}")
        raise InvalidInput("the handoff is refused", [problem], next_step=NOTHING_CHANGED)
    return dataclasses.replace(handoff, from_agent=sender)


def _measured(opened: Context, handoff: Handoff) -> tuple[list[Artifact], list[Problem]]:
    """The artifacts with hash and size from disk, and what stands against them."""
    found: list[Artifact] = []
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for name in FILE_LISTS:
        places |= {p.path: f"{name}[{i}].path" for i, p in enumerate(getattr(handoff, name))}
    files = opened.files
    for artifact in all_artifacts(handoff):
        where = places[artifact.path]
        on_disk = files.measure(artifact.path, where)
        if on_disk.problem is not None:
            problems.append(on_disk.problem)
        elif on_disk.sha256 is None and artifact.change != "delete":
            if opened.settings.artifacts_on_disk:
                problems.append(_not_there(files, artifact.path, where))
            found.append(artifact)
            continue
        found.append(
            dataclasses.replace(artifact, sha256=on_disk.sha256, size_bytes=on_disk.size_bytes)
        )
    return found, problems


def _files_anyway(opened: Context, data: Mapping[str, Any]) -> list[Problem]:
    """What the disk says against the files of a handoff that is refused for other reasons."""
    found: list[Problem] = []
    seen: set[str] = set()
    for name in FILE_LISTS:
        given: object = data.get(name)
        entries = cast("list[object]", given) if isinstance(given, list) else []
        for index, entry in enumerate(entries[:MAX_ENTRIES]):
            if isinstance(entry, dict):
                found += _file_anyway(
                    opened, cast("dict[str, Any]", entry), f"{name}[{index}].path", seen
                )
    return found


def _file_anyway(
    opened: Context, entry: dict[str, Any], where: str, seen: set[str]
) -> list[Problem]:
    """What the disk says against a file, once for each that is named."""
    path = entry.get("path")
    if not isinstance(path, str) or path in seen or path_problems(path, where):
        return []
    seen.add(path)
    files = opened.files
    on_disk = files.measure(normal_path(path), where)
    if on_disk.problem is not None:
        return [on_disk.problem]
    is_gone = "delete" in (entry.get("change_type"), entry.get("change"))
    is_wanted = opened.settings.artifacts_on_disk and not is_gone
    return [_not_there(files, path, where)] if is_wanted and on_disk.sha256 is None else []


def _not_there(files: CallerFiles, path: str, where: str) -> Problem:
    disk = "the server's disk" if files.are_server_s else "disk"
    fix = "write the file first, or name it in files_modified with change_type delete"
    if files.are_server_s:
        fix += (
            "; if the server has no files, set artifacts_on_disk = false there, or hand off with "
            "passdown handoff --store, which looks at yours"
        )
    return Problem(where, "missing_file", f"{path} is not on {disk}", "an existing file", fix)


def handoff_key(handoff: dict[str, Any]) -> str:
    """Without a key of its own, a handoff is known by its content: given twice, recorded once.

    One that names the version it worked from is a compare-and-set and never taken for a repeat.
    """
    if "expect_version" in handoff:
        return uuid.uuid4().hex
    text = json.dumps(handoff, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "content-" + digest_bytes(text.encode()).removeprefix("sha256:")


def _redactions(written: Written) -> list[Problem]:
    return [
        Problem("", "redacted", removal_message(kind), level="warning") for kind in written.redacted
    ]
