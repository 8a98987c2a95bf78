"""`express`: small jobs that jump the queue."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Literal, cast

from passdown.cli.output import line, pairs, short_time, table
from passdown.cli.parsing import Author, command, seconds
from passdown.cli.session import UsageError, read_input, read_text
from passdown.core.text import visible
from passdown.errors import PassdownError
from passdown.relay.express import express_record, express_records
from passdown.relay.express import send as send_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.relay.express import ExpressRecord
    from passdown.relay.worker import RelayWorker
    from passdown.workspace import Workspace

_POLL_S = 0.2
_RESEND_S = 2.0
_MAX_FAILURES = 3
_SEND = {"wait": "bool", "here": "bool", "wait_room": "float", "relay_store": "str"}
_ITEM = {"id": "str", "task": "str", "base": "str"}
_TYPES = {"wait_room": seconds}
_HELP = {
    "by": "who wants it, and carries it out",
    "reason": "why it is wanted",
    "id": "ID: default: made from its content",
    "task": "the task that it belongs to",
    "base": "REF: what it changes; default: HEAD",
    "wait": "wait for the result",
    "here": "carry it out in this process, now",
    "wait_room": "SECONDS: wait so long for a full lane",
    "relay_store": "URL: the engine's database",
}


@command(
    "express send",
    "item.json --wait",
    "- --here < item.yaml",
    fields=_SEND,
    types=_TYPES,
    help={
        **_HELP,
        "file": "JSON or YAML, or - for stdin",
        "by": "who wants it, where the file doesn't say",
    },
)
def express_send(session: Session, file: str, *, by: Author, **send: Any) -> int:
    """Send an item from a file."""
    item = _from_file(file)
    if isinstance(item, dict):
        item = {"by": by, **cast("JsonObject", item)}
    return _send(session, item, send)


@command(
    "express knowledge",
    """--entry '{"id": "Redis", "type": "component"}' --reason 'we chose it' --wait""",
    "entries.json --action replace --reason 'tidied up'",
    fields={**_ITEM, **_SEND},
    types=_TYPES,
    flags={"entries": "--entry"},
    help={
        **_HELP,
        "file": "a JSON or YAML list of entries",
        "entries": "JSON: one entry",
        "file_path": "PATH: default: knowledge.dot",
    },
)
def express_knowledge(
    session: Session,
    file: str | None = None,
    *,
    entries: Sequence[str] = (),
    action: Literal["append", "replace"] = "append",
    file_path: str = "",
    reason: str,
    by: Author,
    **options: Any,
) -> int:
    """Add entries to the knowledge file."""
    from passdown.core.parsing import load_json

    if bool(file) == bool(entries):
        raise UsageError("name a FILE with entries, or each of them with --entry")
    content = [load_json(text) for text in entries] or _from_file(file or "")
    item = {"kind": "knowledge_update", "by": by, "reason": reason, "entries": content}
    path = {"file_path": file_path} if file_path else {}
    return _send(session, {**item, "action": action, **_item(options), **path}, options)


@command(
    "express fix",
    "--message 'Stop the crash' src/run.py=fixed.py --wait",
    "--message 'Stop the crash' --patch fix.diff",
    fields={**_ITEM, **_SEND},
    types=_TYPES,
    help={
        **_HELP,
        "files": "PATH=FILE: a path and its new content",
        "patch": "FILE: a unified diff instead",
        "message": "the commit's",
    },
)
def express_fix(
    session: Session,
    files: Sequence[str] = (),
    *,
    patch: str | None = None,
    message: str,
    reason: str | None = None,
    by: Author,
    **options: Any,
) -> int:
    """Change files at once."""
    if bool(files) == bool(patch):
        raise UsageError("name each change as PATH=FILE, or one --patch FILE")
    item: JsonObject = {"kind": "hot_fix", "by": by, "reason": reason or message}
    item["message"] = message
    if patch:
        item["patch"] = read_text(patch)
    else:
        item["files"] = {}
    for given in files:
        path, mark, source = given.partition("=")
        if not mark or not path or not source:
            raise UsageError(f"{given!r} is not PATH=FILE")
        item["files"][path] = read_text(source)
    return _send(session, {**item, **_item(options)}, options)


@command(
    "express file",
    "NOTES.md --content notes.md --reason 'asked for'",
    fields={**_ITEM, **_SEND},
    types=_TYPES,
    help={**_HELP, "path": "PATH: the file", "content": "FILE: the file that has it, or -"},
)
def express_file(
    session: Session,
    path: str,
    *,
    content: str | None = None,
    action: Literal["write", "append", "delete"] = "write",
    reason: str,
    by: Author,
    **options: Any,
) -> int:
    """Write, append to or delete one file."""
    if (content is None) != (action == "delete"):
        raise UsageError("--content is needed unless the --action is delete")
    item: JsonObject = {"kind": "file_task", "by": by, "reason": reason}
    item |= {"path": path, "action": action, **_item(options)}
    if content:
        item["content"] = read_text(content)
    return _send(session, item, options)


@command(
    "express queue",
    "x1",
    fields=_SEND,
    types=_TYPES,
    help={**_HELP, "id": "ID: of a recorded item"},
)
def express_queue(session: Session, id: str, **send: Any) -> int:
    """Queue a recorded item again."""
    with session.open() as workspace:
        record = express_record(workspace, id)
        if session.is_remote:
            _refuse_here(send)
            record = send_item(workspace, record.item.to_dict())
        return _deliver(session, workspace, record, send)


@command(
    "express list",
    "",
    "--status promoted",
    help={"status": "STATUS: such as sent, done, promoted"},
)
def express_list(session: Session, *, status: str = "") -> None:
    """List all items."""
    with session.open() as workspace:
        found = express_records(workspace, status=status)
    session.show(found, _print_records)


@command("express show", "x1", help={"id": "ID: of the item"})
def express_show(session: Session, id: str) -> None:
    """Show one item and its result."""
    with session.open() as workspace:
        record = express_record(workspace, id)
    session.show(record, _print_record)


def _from_file(path: str) -> object:
    from passdown.core.parsing import load_json, load_yaml

    data = read_input(path)
    return load_json(data) if path.endswith(".json") else load_yaml(data)


def _item(options: dict[str, Any]) -> JsonObject:
    """What every item may say; what is empty is left out and gets its default."""
    return {name: options[name] for name in _ITEM if options[name]}


def _send(session: Session, item: object, send: dict[str, Any]) -> int:
    """Record an item, then carry it out or queue it."""
    if send["here"] and (send["wait"] or send["wait_room"]):
        raise UsageError("--here carries it out at once; leave --wait and --wait-room out")
    if session.is_remote:
        _refuse_here(send)
    with session.open() as workspace:
        return _deliver(session, workspace, send_item(workspace, item), send)


def _refuse_here(send: dict[str, Any]) -> None:
    """A server queues by itself, and carries nothing out on this machine."""
    named = [name for name in ("here", "wait_room", "relay_store") if send[name]]
    if named:
        option = "--" + named[0].replace("_", "-")
        raise UsageError(
            f"{option} is for a store on this machine; a server queues what it is sent"
        )


def _deliver(
    session: Session, workspace: Workspace, record: ExpressRecord, send: dict[str, Any]
) -> int:
    """Carry an item out or queue it, and print the result; 1 when it became a task."""
    if send["here"]:
        from passdown.relay.agents import AgentStates
        from passdown.relay.express import carry_out

        carry_out(workspace, record.item, states=AgentStates(workspace))
        record = express_record(workspace, record.item.id)
    elif session.is_remote:
        record = _wait(workspace, record) if send["wait"] else record
    elif not record.is_over:
        record = _enqueue(workspace, record, send)
    session.show(record, _print_result)
    return 1 if record.status == "promoted" else 0


def _enqueue(workspace: Workspace, record: ExpressRecord, send: dict[str, Any]) -> ExpressRecord:
    """Queue it, and wait for it where that is wanted; an error says what is recorded already."""
    try:
        from passdown.relay.worker import EngineOptions, RelayWorker, open_engine

        with open_engine(workspace, EngineOptions(url=send["relay_store"] or "")) as engine:
            work = RelayWorker(workspace, engine)
            work.send_express(record.item.id, wait_s=send["wait_room"] or 0.0)
            return _wait(workspace, record, work) if send["wait"] else record
    except Exception as error:
        said = error.message if isinstance(error, PassdownError) else str(error)
        code = error.code if isinstance(error, PassdownError) else "not_queued"
        raise PassdownError(
            f"{record.item.id} is recorded, but not queued: {said}",
            next_step=f"Queue it: passdown express queue {record.item.id}; or carry it out here: "
            f"passdown express queue {record.item.id} --here",
            code=code,
        ) from error


def _wait(
    workspace: Workspace, record: ExpressRecord, work: RelayWorker | None = None
) -> ExpressRecord:
    """Wait for the result of an item; where a worker failed at it, queue it again, a few times.
    Without `work`, the server does that.
    """
    failures, looked_at, is_told = 0, time.monotonic(), False
    while not record.is_over:
        time.sleep(_POLL_S)
        record = express_record(workspace, record.item.id)
        if work is None or time.monotonic() - looked_at < _RESEND_S:
            continue
        looked_at = time.monotonic()
        if not is_told and not record.is_over and not work.is_served():
            text = f"{record.item.id} waits: there is no worker; passdown worker starts one. "
            print(visible(f"{text}Ctrl-C leaves it queued."), file=sys.stderr, flush=True)
            is_told = True
        failures += work.send_express(record.item.id)
        if failures > _MAX_FAILURES:
            raise PassdownError(f"workers failed at it {failures} times; their output says why")
    return record


def _print_result(record: ExpressRecord) -> None:
    item, facts = record.item, record.facts
    if not record.is_over:
        line(f"{item.id} is queued; a worker, or a run in the foreground, carries it out")
        line(f"passdown express show {item.id}", 2)
        return
    done = facts.get("done", {})
    asked = cast("JsonObject", done.get("pull_request") or {})
    line(f"{item.id} ({item.kind}): {record.status}")
    pairs(
        [
            ("branch", done.get("branch")),
            ("commit", done.get("commit") or ("nothing had to change" if done else "")),
            ("files", done.get("files")),
            ("pull request", asked.get("url") or asked.get("problem")),
            ("to merge", asked.get("suggestion")),
            ("reports", [f"{r['path']}: {r['message']}" for r in done.get("reports", ())]),
            ("why", facts.get("failed", {}).get("why")),
            ("task", facts.get("promoted", {}).get("task")),
        ],
        2,
    )


def _print_records(found: Sequence[ExpressRecord]) -> None:
    rows = [
        [
            record.item.id,
            record.item.kind,
            record.status,
            record.item.by,
            short_time(record.times["sent"]),
            record.facts.get("done", {}).get("branch")
            or record.facts.get("promoted", {}).get("task"),
            record.item.title,
        ]
        for record in found
    ]
    names = ("id", "kind", "status", "by", "sent (UTC)", "branch or task", "about")
    table(names, rows, "no express items", whole=("id", "status"), short=("about",))


def _print_record(record: ExpressRecord) -> None:
    item = record.item
    names = ("id", "kind", "by", "reason", "task", "base")
    pairs([("status", record.status), *((name, getattr(item, name)) for name in names)])
    pairs(list(item.content.items()), 2)
    for kind, at in record.times.items():
        line(f"{short_time(at)}  {kind}")
        pairs(list(record.facts.get(kind, {}).items()), 4)
