"""Record a handoff: parse any accepted form, check it, hash its files, pass the gates, append."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from passdown import tracing
from passdown.context.summary import bounded, summary
from passdown.core.documents import delta_document
from passdown.core.fold import COMPLETED
from passdown.core.handoff import all_artifacts, handoff_body
from passdown.core.intake import (
    NOTHING_CHANGED,
    HandoffLike,
    detail_score,
    read_handoff,
    renamed_problems,
    same_agent,
)
from passdown.core.intake import check_handoff as check_fields
from passdown.core.items import context_summary_of
from passdown.core.kinds import FILE_LISTS, KINDS, WORKSPACE_TASK
from passdown.core.names import key_problems, normal_path, path_problems
from passdown.core.record import canonical_bytes, digest_bytes
from passdown.core.redaction import redact, removal_message
from passdown.core.results import Check, HandoffCommand
from passdown.core.schema import MAX_ENTRIES
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.values import NamedTuple
from passdown.errors import (
    MORE_PROBLEMS,
    InvalidInput,
    NotFound,
    Problem,
    ProblemsError,
    limited_problems,
    raise_problems,
)
from passdown.ledger.gates import (
    GateCheck,
    handoff_guard,
    handoff_notices,
    handoff_reasons,
    open_at_completion,
    rejected_texts,
)
from passdown.ledger.project_files import MISSING_FILE, FileOnDisk
from passdown.ledger.writer import (
    CONTENT_KEY,
    Entry,
    prepare,
    queries_ahead,
    repeated,
    repeated_record,
    task_before,
)
from passdown.search.existing import memory_warnings
from passdown.workspace import Workspace
from passdown.workspace.context import Context
from passdown.workspace.queries import gates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from passdown.core.intake import GivenHandoff
    from passdown.core.tokens import Counter
    from passdown.core.types import JsonObject
    from passdown.ledger.writer import Written
    from passdown.store.statements import Reader
    from passdown.workspace.files import CallerFiles


_NAMED = 3
"""How many reasons a warning names."""


def hand_off(
    context: Context,
    handoff: HandoffLike | None = None,
    *,
    key: str | None = None,
    rebase: bool = False,
    changed_files: Sequence[str] | None = None,
    dry_run: bool = False,
    counter: CounterLike = None,
    **fields: Any,
) -> HandoffCommand:
    """Record a handoff and give its receiver's command.

    Raises InvalidInput, GateRefused or Conflict; then nothing was changed.

    Args:
        handoff: A `Handoff`, a dict, JSON, YAML or a task file's text; or a prepared command, which
            is refused if its task or its files have changed since.
        key: Idempotency key: a retry with the same key gives the same command.
        rebase: Append even if the task has changed since, where the handoff only adds.
        changed_files: Files that the handoff has to account for.
        dry_run: Only prepare it: give the command with what it would change, and record nothing.
        **fields: Fields of the handoff that it leaves out, or all of them.
    """
    started = context.timer()
    by = counter_of(counter, context.settings.counter)
    given = read_handoff(handoff, fields)
    turn = _accepted(context, given, changed_files, by, key=key, rebase=rebase)
    notices: list[Problem] = []
    guard = handoff_guard(turn.entry.task, _gate_check(context), turn.disk, notices)
    if dry_run:
        written = context.ledger.dry_run(turn.entry, guard)
        notices += [*_needs(context, turn.plain, turn.body), *_list_notices(written)]
        return _command(context, turn, written, notices)
    body = _with_metrics(context, turn.entry.body, started)
    trace = tracing.origin()
    prepared = prepare(turn.entry._replace(body={**body, "trace": trace} if trace else body))
    alike = memory_warnings(context.store, prepared.entry.body, prepared.texts)
    with tracing.part("handoff", _span_attributes(turn.plain)):
        written = context.ledger.append(prepared, guard)
    warnings = [*notices, *_redactions(written)]
    warnings += [] if written.is_replay else alike
    warnings += context.mirror(written)
    warnings += [*_needs(context, turn.plain), *_list_notices(written)]
    warnings += _left_open(turn.plain, written)
    return _command(context, turn, written, warnings)


def _span_attributes(handoff: JsonObject) -> dict[str, str]:
    """What a span says of a handoff; the conventions have no names of their own for it yet."""
    source, target = handoff["from_agent"], handoff.get("to_agent", "")
    named = {"passdown.handoff.source": source, "passdown.handoff.target": target}
    about = {"passdown.task": handoff["task"], "passdown.outcome": handoff["outcome"]}
    return {name: value for name, value in {**named, **about}.items() if value}


class _Accepted(NamedTuple):
    """A handoff that passed its own checks: as plain data, as a record's body, and as an entry with
    its files measured; `disk` is what they give reason to refuse it for, `counter` counts tokens.
    """

    plain: JsonObject
    body: JsonObject
    entry: Entry
    disk: list[Problem]
    problems: tuple[Problem, ...]
    counter: Counter


def _accepted(
    context: Context,
    given: GivenHandoff,
    changed_files: Sequence[str] | None,
    by: Counter,
    *,
    key: str | None = None,
    rebase: bool = False,
    with_warnings: bool = False,
) -> _Accepted:
    """Check what a handoff says by itself, and look at its files.

    Raises InvalidInput with everything that is wrong with it, NotFound without its task.
    """
    settings = context.settings
    if given.data.get("phase") == COMPLETED:  # by its name in any workspace
        given = given._replace(data={**given.data, "phase": settings.completes})
    checked = check_fields(given, changed_files=changed_files, phases=settings.phases)
    unnamed = context.files.unnamed(given.data)
    if checked.data is None or unnamed:
        slips = [each for each in checked.warnings if each.code in ("unknown_field", MORE_PROBLEMS)]
        own = checked.problems if with_warnings else (*checked.errors, *slips)
        found = (*own, *unnamed, *_files_anyway(context, given.data))
        problems = renamed_problems(found, given.names)
        raise InvalidInput("the handoff is refused", problems, next_step=NOTHING_CHANGED)
    wrong = key_problems(key) if key is not None else []
    raise_problems("the handoff is refused", wrong, next_step=NOTHING_CHANGED)
    is_content_key = key is None and not given.is_task_file and given.prepared is None
    key = key or handoff_key(checked.data, is_prepared=given.prepared is not None)
    plain = _signed(context, checked.data, key, latest_only=is_content_key)
    completion: list[Problem] = []
    if not (rebase or given.keeps_open):
        plain, completion = _completed(context, plain)
    artifacts, disk = _measured(context, plain)
    body = {**handoff_body(plain, artifacts), **_completing(context, plain)}
    if given.added_blockers:
        body["lists"].remove("blockers")
    entry = Entry(
        task=plain["task"],
        kind="handoff",
        author=plain["from_agent"],
        body=_with_context_summary(context.with_hashes(body), {by, counter_of(settings.counter)}),
        key=key,
        expect_version=plain.get("expect_version"),
        rebase=rebase,
        is_content_key=is_content_key,
    )
    disk += _changed_since(given.prepared or {}, artifacts)
    return _Accepted(plain, body, entry, disk, (*checked.problems, *completion), by)


def _completed(context: Context, handoff: JsonObject) -> tuple[JsonObject, list[Problem]]:
    """A handoff that nobody comes after completes its task: it is completed, and names neither a
    receiver nor a phase. If something is open, the task stays open, and a warning says why.
    """
    if handoff["outcome"] != "completed" or handoff.get("to_agent") or handoff.get("phase"):
        return handoff, []
    completes = context.settings.completes
    last, task = {**handoff, "phase": completes}, handoff["task"]
    body = {**handoff_body(last, []), **_completing(context, last)}
    with context.store.reading() as reader:
        reader.ahead(*queries_ahead(task, "handoff", body), lambda asked: asked.needs(task))
        before = task_before(reader, task, "handoff", body)
        if before.header["phase"] == completes or task == WORKSPACE_TASK:
            return handoff, []
        reasons = open_at_completion(reader, task, before, body)
    if not reasons or handoff.get("despite"):
        return last, []
    message = f"{task} stays open: {'; '.join(reason.message for reason in reasons[:_NAMED])}"
    fix = "name the receiver; or settle this, or say in despite why the task is completed anyway"
    return handoff, [Problem("phase", "stays_open", message, "", fix, "warning")]


def _completing(context: Context, handoff: JsonObject) -> JsonObject:
    """The phase that completes a task here, for the record of a handoff: settings may change, and
    other workspaces have others. Nothing where it is the usual one.
    """
    completes = context.settings.completes
    is_usual = completes == COMPLETED or handoff["outcome"] != "completed"
    return {} if is_usual else {"completes": completes}


def _with_context_summary(body: JsonObject, counters: set[Counter]) -> JsonObject:
    """A body whose summary isn't longer than one may be by any of the counters, or that says beside
    it what fits.
    """

    def most(text: str) -> int:
        return max(counter.tokens(text) for counter in counters)

    words = body.get("summary", "")
    if bounded(words, counter=most) == words:
        return body
    # Secrets go first: half of one isn't recognised.
    return {**body, "context_summary": bounded(redact(words)[0], counter=most)}


def _changed_since(
    prepared: Mapping[str, str | None], artifacts: list[JsonObject]
) -> Iterator[Problem]:
    """Files that aren't what they were when the handoff was prepared."""
    for artifact in artifacts:
        path = artifact["path"]
        if path in prepared and prepared[path] != artifact.get("sha256"):
            message = f"{path} has changed since the handoff was prepared"
            yield Problem("artifacts", "changed_file", message, "the same file", "prepare it again")


def _command(
    context: Context, turn: _Accepted, written: Written, warnings: Iterable[Problem]
) -> HandoffCommand:
    """What a handoff gives back: prepared, recorded, and each time that it is repeated."""
    record, body, answer = written.record, written.body, written.answer
    task = turn.entry.task
    if written.is_replay and answer["held_by"]:
        with context.store.reading() as reader:
            held = {gate.address for gate in gates(reader, task) if gate.holds}
        # A gate that was answered since holds nobody up.
        kept: JsonObject = {"held_by": [gate for gate in answer["held_by"] if gate in held]}
        answer = {**answer, **kept}
    place = context.state_location(task)
    head = {"task_id": task, "version": record.position, "digest": record.digest}
    said = {"context_summary": context_summary_of(body)}
    own = (problem for problem in turn.problems if problem.level == "warning")
    is_prepared = not record.digest
    return HandoffCommand(
        task=task,
        version=record.position,
        digest=record.digest,
        to_agent=body.get("to_agent", ""),
        phase=answer["phase"],
        outcome=body["outcome"],
        state_delta=delta_document(record, body, written.added, answer),
        context_summary=summary({**said, **answer, **head}, place, counter=turn.counter),
        state_file=place,
        held_by=tuple(answer["held_by"]),
        detail_score=detail_score(turn.plain),
        is_replay=written.is_replay,
        warnings=limited_problems([*own, *warnings]),
        prepared={**turn.plain, "expect_version": record.position - 1} if is_prepared else None,
    )


def _with_metrics(context: Context, body: JsonObject, started: float) -> JsonObject:
    """A body with what the handoff took until it is written: milliseconds, bytes, and how many
    entries of each kind it has.
    """
    lists = {name for name in body if isinstance(body[name], list)}
    counts = {name: len(body[name]) for name in lists - {"lists", "memories", "references"}}
    metrics = {
        "duration_ms": round((context.timer() - started) * 1_000),
        "bytes": len(canonical_bytes(body)),
        "counts": counts,
    }
    return {**body, "metrics": metrics}


def prepare_handoff(
    workspace: Workspace,
    task: str,
    to_agent: str,
    phase: str,
    *,
    outcome: str = "completed",
    counter: CounterLike = None,
    **fields: Any,
) -> HandoffCommand:
    """Prepare a handoff of a task by its holder: its command, with what it would change.

    Nothing is recorded; `hand_off(command)` does that, and refuses it if the task or a file that it
    names has changed since.

    Args:
        to_agent: The receiver.
        phase: The phase that the task enters.
        outcome: completed, partial, failed or blocked.
        counter: As of `hand_off`.
        **fields: Other fields of the handoff.
    """
    given = {**fields, "task": task, "to_agent": to_agent, "phase": phase, "outcome": outcome}
    return workspace.hand_off(given, dry_run=True, counter=counter)


def check_handoff(
    context: Context,
    handoff: HandoffLike | None = None,
    *,
    rebase: bool = False,
    changed_files: Sequence[str] | None = None,
    counter: CounterLike = None,
    **fields: Any,
) -> Check:
    """Check everything that `hand_off` would check, without recording anything.

    Args:
        handoff: A `Handoff`, a dict, JSON, YAML or a task file's text.
        rebase: As of `hand_off`.
        changed_files: Files that the handoff has to account for.
        counter: As of `hand_off`.
        **fields: Fields of the handoff that it leaves out, or all of them.
    """
    by = counter_of(counter, context.settings.counter)
    data: dict[str, Any] = {}
    try:
        given = read_handoff(handoff, fields)
        data = given.data
        turn = _accepted(context, given, changed_files, by, rebase=rebase, with_warnings=True)
    except InvalidInput as error:
        return Check(limited_problems(error.problems), 0, data)
    except NotFound as error:
        return Check((_no_task(error),), 0, data)
    entry, body, score = turn.entry, turn.body, detail_score(turn.plain)
    task = entry.task
    with context.store.reading() as reader:
        known = repeated(reader, entry)
        if known is not None:
            message = f"it is recorded already, as version {known.position} of {task}"
            repeat = Problem("", "already_recorded", message, level="warning")
            return Check((repeat, *turn.problems), score, body)
        try:
            before = task_before(reader, task, "handoff", body)
            gates = handoff_reasons(reader, task, before, body, _gate_check(context))
            gates += [] if rebase else _stale(reader, turn.plain)
            gates += handoff_notices(reader, task, before, body)
        except NotFound as error:
            gates = [_no_task(error)]
    alike = memory_warnings(context.store, body)
    problems = (*turn.problems, *turn.disk, *gates, *_needs(context, turn.plain, body), *alike)
    check = Check(limited_problems(problems), score, body)
    if not check.ok:
        return check
    try:
        written = context.ledger.dry_run(entry)
    except ProblemsError as error:
        return check._replace(problems=limited_problems((*check.problems, *error.problems)))
    problems = limited_problems((*check.problems, *_list_notices(written)))
    return check._replace(problems=problems, command=_command(context, turn, written, ()))


def _gate_check(context: Context) -> GateCheck:
    """What gates are checked by; no file is missed where nobody looks at the disk."""
    is_gone = context.files.is_gone if context.settings.artifacts_on_disk else _is_never_gone
    return GateCheck(context.settings, is_gone)


def _is_never_gone(path: str) -> bool:
    return False


def _needs(context: Context, handoff: JsonObject, body: JsonObject | None = None) -> list[Problem]:
    """What the receiver declares that it needs and doesn't get."""
    to_agent = handoff.get("to_agent")
    if not to_agent or not (context.settings.needs or context.has_profiles):
        return []
    from passdown.workspace.task_context import need_warnings

    return need_warnings(context, handoff["task"], to_agent, body)


def _list_notices(written: Written) -> list[Problem]:
    """The items that the handoff closed because its lists don't have them, and the gates that stay
    rejected.
    """
    fix = "list the blocker again to ask again; only a person can settle it"
    kept = [
        Problem("blockers", "rejected", text, "", fix, "warning")
        for text in (rejected_texts(written.step) if written.step else ())
    ]
    before = written.step.before.open_items if written.step else ()
    again = {row.fingerprint for row in written.added}
    kept += [
        Problem(
            "preconditions",
            "closed",
            f"{row.address} has failed, and this handoff doesn't ask for it again: {row.title}",
            "",
            "if it has to hold, state it again",
            "warning",
        )
        for row in before
        if (row.letter, row.status) == ("c", "failed") and row.fingerprint not in again
    ]
    return kept + [
        Problem(
            KINDS[row.letter].field,
            "closed",
            f"{row.address} is dropped, as this handoff's list doesn't have it: {row.title}",
            "",
            "if it still holds, list it again; a handoff without the list leaves it open",
            "warning",
        )
        for row in written.closed
        if row.letter != "c"  # preconditions are those of the last handoff
    ]


def _left_open(handoff: JsonObject, written: Written) -> list[Problem]:
    """The next steps of others that a completed turn says nothing of: done, or still to do?"""
    is_listed = bool(handoff.get("suggested_next_steps"))
    if handoff["outcome"] != "completed" or is_listed or written.step is None:
        return []
    rows = written.step.open_of("n")
    if not rows:
        return []
    first = rows[0]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    message = f"{first.address}{more} is still open: {first.title}"
    fix = f"if it is done, name {first.address} in resolves, or mark it done"
    return [Problem("resolves", "still_open", message, "", fix, "warning")]


def _no_task(error: NotFound) -> Problem:
    return Problem("task", "not_found", error.message, "a task that exists")


def _stale(reader: Reader, handoff: JsonObject) -> list[Problem]:
    task, expected = handoff["task"], handoff.get("expect_version")
    row = reader.task(task)
    if row is None or expected in (None, row.version):
        return []
    message = f"{task} is at version {row.version}, not {expected}"
    return [Problem("expect_version", "conflict", message, str(row.version))]


def _signed(context: Context, handoff: JsonObject, key: str, *, latest_only: bool) -> JsonObject:
    """The handoff with its sender: the task's holder where none is named.

    A repeat has the sender of the first time, though the task has another holder since.
    """
    if handoff.get("from_agent"):
        return handoff
    task = handoff["task"]
    with context.store.reading() as reader:
        known = repeated_record(reader, task, key, latest_only=latest_only)
        row = reader.existing_task(task)
    sender = known.author if known else row.holder
    if sender == handoff.get("to_agent"):
        problem = same_agent(f"{sender} holds {task}")
        raise InvalidInput("the handoff is refused", [problem], next_step=NOTHING_CHANGED)
    return {**handoff, "from_agent": sender}


def _measured(context: Context, handoff: JsonObject) -> tuple[list[JsonObject], list[Problem]]:
    """The artifacts with hash and size from disk, and the problems with them."""
    found: list[JsonObject] = []
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for name in FILE_LISTS:
        places |= {p["path"]: f"{name}[{i}].path" for i, p in enumerate(handoff.get(name, ()))}
    files = context.files
    for artifact in all_artifacts(handoff):
        on_disk, wrong = _on_disk(context, files, artifact, places[artifact["path"]])
        problems += wrong
        size = {"sha256": on_disk.sha256, "size_bytes": on_disk.size_bytes}
        if on_disk == MISSING_FILE and artifact.get("change") != "delete":
            size = {}
        found.append({k: v for k, v in {**artifact, **size}.items() if v is not None})
    return found, problems


def _files_anyway(context: Context, data: Mapping[str, Any]) -> list[Problem]:
    """What the disk says against the files of a handoff that is refused for other reasons, once
    for each that is named.
    """
    named: dict[str, tuple[JsonObject, str]] = {}
    for name in FILE_LISTS:
        given: object = data.get(name)
        entries = cast("list[Any]", given) if isinstance(given, list) else []
        # What is too long is refused anyway: no file is read for it.
        for index, entry in enumerate(entries if len(entries) <= MAX_ENTRIES else ()):
            fields = cast("JsonObject", entry) if isinstance(entry, dict) else {}
            path, where = fields.get("path"), f"{name}[{index}].path"
            if isinstance(path, str) and not path_problems(path, where):
                named.setdefault(path, (fields, where))
    files = context.files
    return [p for entry, where in named.values() for p in _on_disk(context, files, entry, where)[1]]


def _on_disk(
    context: Context, files: CallerFiles, entry: JsonObject, where: str
) -> tuple[FileOnDisk, list[Problem]]:
    """A named file as it is on disk, and what speaks against it."""
    path: str = entry["path"]
    found = files.measure(normal_path(path), where)
    if found.problem is not None:
        return found, [found.problem]
    is_gone = "delete" in (entry.get("change_type"), entry.get("change"))
    if found.sha256 is None and context.settings.artifacts_on_disk and not is_gone:
        return found, [_not_there(files, path, where)]
    return found, []


def _not_there(files: CallerFiles, path: str, where: str) -> Problem:
    disk = "the server's disk" if files.are_server_s else "disk"
    fix = "write the file first, or name it in files_modified with change_type delete"
    if files.are_server_s:
        fix += (
            "; if the server has no files, set artifacts_on_disk = false there, or hand off with "
            "passdown handoff --store, which looks at yours"
        )
    return Problem(where, "missing_file", f"{path} is not on {disk}", "an existing file", fix)


def handoff_key(handoff: dict[str, Any], *, is_prepared: bool = False) -> str:
    """Without a key of its own, a handoff is known by its content: given twice, recorded once.

    One that names the version it worked from is a compare-and-set and never taken for a repeat,
    unless it was prepared: recording it again is a retry.
    """
    if "expect_version" in handoff and not is_prepared:
        return os.urandom(16).hex()
    text = json.dumps(handoff, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return CONTENT_KEY + digest_bytes(text.encode()).removeprefix("sha256:")


def _redactions(written: Written) -> list[Problem]:
    return [
        Problem("", "redacted", removal_message(kind), level="warning") for kind in written.redacted
    ]
