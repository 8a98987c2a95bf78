"""`express`: small jobs that jump the queue."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Literal, cast

from passdown.cli.output import line, pairs, row_printer, short_time
from passdown.cli.parsing import Author, command, operation, seconds
from passdown.cli.session import UsageError, read_input, read_text
from passdown.core.text import visible
from passdown.errors import PassdownError
from passdown.relay.express import carry_out, express_document, express_record, submit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_POLL_S = 0.2
_NOTICE_S = 2.0
_SEND = {"wait": "bool", "here": "bool", "wait_room": "float", "relay_store": "str"}
_ITEM = {"agents": "Sequence[str]", "id": "str", "task": "str", "base": "str"}
_HELP = {
    "by": "who wants it",
    "reason": "why it is wanted",
    "agents": "NAME: who may carry it out: the first that is WAITING; default: coder",
    "id": "ID: default: made from its content",
    "task": "the task that it belongs to",
    "base": "REF: what it changes; default: HEAD",
    "wait": "wait for the result",
    "here": "carry it out in this process, now",
    "wait_room": "SECONDS: wait so long for a full queue",
    "relay_store": "URL: the engine's database",
}
_COMMON: dict[str, Any] = {"fields": {**_ITEM, **_SEND}, "types": {"wait_room": seconds}}
_AGENTS = {"agents": "--agent"}


@command(
    "express send",
    "item.json --wait",
    "- --here < item.yaml",
    fields=_SEND,
    types=_COMMON["types"],
    help={
        **_HELP,
        "file": "JSON or YAML, or - for stdin",
        "by": "who wants it, where the file doesn't say",
    },
)
def express_send(session: Session, file: str, *, by: Author, **options: Any) -> int:
    """Send an item from a file."""
    item = _from_file(file)
    if isinstance(item, dict):
        item = {"by": by, **cast("JsonObject", item)}
    return _deliver(session, item, options)


@command(
    "express knowledge",
    """--reason new --entry '{"id": "Redis"}'""",
    "entries.json --action replace --reason 'tidied up'",
    **_COMMON,
    flags={"entries": "--entry", **_AGENTS},
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
    return _deliver(session, {**item, "action": action, "file_path": file_path}, options)


@command(
    "express fix",
    "--message 'Stop the crash' src/run.py=fixed.py --wait",
    "--message 'Stop the crash' --patch fix.diff",
    **_COMMON,
    flags=_AGENTS,
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
    """Change several files in one step."""
    if bool(files) == bool(patch):
        raise UsageError("name each change as PATH=FILE, or one --patch FILE")
    item = {"kind": "hot_fix", "by": by, "reason": reason or message, "message": message}
    texts: dict[str, str] = {}
    for given in files:
        path, _, source = given.partition("=")
        if not path or not source:
            raise UsageError(f"{given!r} is not PATH=FILE")
        texts[path] = read_text(source)
    change = {"patch": read_text(patch)} if patch else {"files": texts}
    return _deliver(session, {**item, **change}, options)


@command(
    "express file",
    "NOTES.md --content notes.md --reason 'asked for'",
    **_COMMON,
    flags=_AGENTS,
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
    item = {"kind": "file_task", "by": by, "reason": reason, "path": path, "action": action}
    return _deliver(
        session, {**item, **({"content": read_text(content)} if content else {})}, options
    )


@command(
    "express queue",
    "x1",
    fields=_SEND,
    types=_COMMON["types"],
    help={**_HELP, "id": "ID: of a recorded item"},
)
def express_queue(session: Session, id: str, **options: Any) -> int:
    """Queue a recorded item again."""
    with session.open() as workspace:
        item = express_record(workspace, id).item.to_dict()
    return _deliver(session, item, options)


def _from_file(path: str) -> object:
    from passdown.core.parsing import load_json, load_yaml

    data = read_input(path)
    return load_json(data) if path.endswith(".json") else load_yaml(data)


def _deliver(session: Session, item: object, options: Mapping[str, Any]) -> int:
    """Carry an item out or queue it, and print the result; 1 when it was not carried out."""
    if isinstance(item, dict):
        # What is empty is left out and gets its default.
        given = {name: options[name] for name in _ITEM if options.get(name)}
        item = {**cast("JsonObject", item), **given}
    here, room, url = options["here"], options["wait_room"], options["relay_store"]
    if here and (options["wait"] or room):
        raise UsageError("--here carries it out at once; leave --wait and --wait-room out")
    if session.is_remote and (here or room or url):
        raise UsageError(
            "--here, --wait-room and --relay-store are for a store on this machine; "
            "a server queues what it is sent"
        )
    with session.open() as workspace:
        why = ""
        if here:
            record = express_document(workspace, carry_out(workspace, item))
        elif session.is_remote:
            record = workspace.relay.send_express(cast("JsonObject", item))
        else:
            sent, why = submit(workspace, item, url=url or "", wait_s=room or 0.0)
            record = express_document(workspace, sent)
        if why:
            raise PassdownError(
                f"{record['id']} is recorded, but not queued: {why}",
                next_step="The next worker finds it; or carry it out here: "
                f"passdown express queue {record['id']} --here",
                code="not_queued",
            )
        if options["wait"]:
            record = _wait(workspace, record, None if session.is_remote else url or "")
    session.show(record, _print_result)
    return 1 if record["is_over"] and record["status"] != "done" else 0


def _wait(workspace: Workspace, record: JsonObject, url: str | None) -> JsonObject:
    """Wait for the result of an item; say once if no worker is there to carry it out."""
    notice_at = time.monotonic() + _NOTICE_S
    while not record["is_over"]:
        time.sleep(_POLL_S)
        record = workspace.relay.express_item(record["id"])
        if url is not None and not record["is_over"] and time.monotonic() > notice_at:
            from passdown.cli.relays import live_workers

            notice_at = float("inf")
            reasons = list(record["waits_for"])
            if not live_workers(workspace, url):
                reasons.append(
                    "there is no worker; passdown worker starts one. Ctrl-C leaves it queued."
                )
            for text in reasons:
                print(visible(f"{record['id']} waits: {text}"), file=sys.stderr, flush=True)
    return record


def _print_result(record: JsonObject) -> None:
    name = record["id"]
    if not record["is_over"]:
        line(f"{name} is queued; a worker, or a run in the foreground, carries it out")
        for text in record["waits_for"]:
            line(f"waits: {text}", 2)
        line(f"passdown express show {name}", 2)
        return
    line(f"{name} ({record['kind']}): {record['status']}")
    pairs(_result_pairs(record), 2)
    for text in record["next"]:
        line(text, 2)


def _result_pairs(record: JsonObject) -> list[tuple[str, object]]:
    result = record["result"]
    asked = cast("JsonObject", result.get("pull_request") or {})
    is_unchanged = result.get("commit") == ""
    return [
        ("agent", result.get("agent")),
        ("branch", result.get("branch")),
        ("commit", "nothing had to change" if is_unchanged else result.get("commit")),
        ("files", result.get("files")),
        ("pull request", asked.get("url") or asked.get("problem")),
        ("to merge", asked.get("suggestion")),
        ("reports", [f"{r['path']}: {r['message']}" for r in result.get("reports", ())]),
        ("why", record["why"]),
        ("task", record["promoted"]),
    ]


def _print_record(record: JsonObject) -> None:
    names = ("status", "id", "kind", "by", "reason", "task", "base", "agents")
    pairs([(name, record[name]) for name in names])
    pairs(list(record["content"].items()), 2)
    pairs([("run", record["run"]), ("waits for", record["waits_for"]), *_result_pairs(record)])
    for turn in record["attempts"]:
        times = ", ".join(short_time(turn[at]) for at in ("begun_at", "ended_at") if turn[at])
        line(f"attempt {turn['number']}: {turn['outcome'] or 'open'} {times}")


operation(
    "express list",
    row_printer(
        "id, kind, status, by, agent, sent (UTC)=sent_at, branch or task=made, about=title",
        "no express items",
        whole="id,status",
        short="about",
        agent=lambda record: record["result"].get("agent"),
        made=lambda record: record["result"].get("branch") or record["promoted"],
    ),
    "",
    "--status promoted",
    method="relay.express_items",
    line="list all items",
    as_options=("status",),
    help={"status": "STATUS: such as sent, done, promoted"},
)
operation(
    "express show",
    _print_record,
    "x1",
    method="relay.express_item",
    line="show one item and its result",
    help={"item": "ID: of the item"},
)
