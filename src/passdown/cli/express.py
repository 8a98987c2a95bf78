"""`express`: small jobs that jump the queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from passdown.cli.parsing import FILE, TASK, listed, with_agent, with_store
from passdown.cli.relays import seconds_option
from passdown.cli.session import (
    UsageError,
    author,
    is_server_url,
    read_input,
    store_of,
    workspace_of,
)
from passdown.errors import InvalidInput, PassdownError, Problem

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.relay.express import ExpressRecord
    from passdown.relay.worker import RelayWorker
    from passdown.workspace import Workspace


_POLL_S = 0.2
_RESEND_S = 2.0
_MAX_FAILURES = 3


def express(parser: Parser) -> None:
    """The arguments of `express` and the verbs below it."""
    _add_send_verbs(parser)
    queue = parser.subverb(
        "queue",
        "queue an item again that is recorded",
        "passdown express queue x1",
        run=_express_queue,
    )
    queue.add_argument("id", metavar="ID")
    _add_send_options(queue)
    found = parser.subverb(
        "list",
        "list all items",
        "passdown express list",
        "passdown express list --status promoted",
        run=_express_list,
    )
    found.add_argument(
        "--status", metavar="STATUS", default="", help="such as sent, done, promoted"
    )
    with_store(found)
    show = parser.subverb(
        "show", "one item and what became of it", "passdown express show x1", run=_express_show
    )
    show.add_argument("id", metavar="ID")
    with_store(show)


def _add_send_verbs(parser: Parser) -> None:
    send = parser.subverb(
        "send",
        "send an item from a file",
        "passdown express send item.json --wait",
        "cat item.yaml | passdown express send - --here",
        run=lambda args: _send(args, _item_from_file(args)),
    )
    send.add_argument("file", metavar=FILE, help="JSON or YAML, or - for standard input")
    with_agent(send, "--by", "who wants it, where the file doesn't say")
    _add_send_options(send)
    knowledge = parser.subverb(
        "knowledge",
        "bring entries to the knowledge file",
        """passdown express knowledge --entry '{"id": "Redis", "type": "component"}' """
        "--reason 'we chose it' --wait",
        "passdown express knowledge entries.json --action replace --reason 'tidied up'",
        run=lambda args: _send(args, _knowledge(args)),
    )
    knowledge.add_argument("file", metavar=FILE, nargs="?", help="a JSON or YAML list of entries")
    listed(knowledge, "--entry", "JSON", "one entry")
    knowledge.add_argument("--action", choices=("append", "replace"), default="append")
    knowledge.add_argument("--file-path", metavar="PATH", default="", help="default: knowledge.dot")
    fix = parser.subverb(
        "fix",
        "change files at once",
        "passdown express fix --message 'Stop the crash' src/run.py=fixed.py --wait",
        "passdown express fix --message 'Stop the crash' --patch fix.diff",
        run=lambda args: _send(args, _fix(args)),
    )
    fix.add_argument("files", metavar="PATH=FILE", nargs="*", help="a path and its new content")
    fix.add_argument("--patch", metavar=FILE, help="a unified diff instead")
    fix.add_argument("--message", metavar="TEXT", required=True, help="the commit's")
    for each in (knowledge, fix, _add_file_verb(parser)):
        _add_item_options(each, needs_reason=each is not fix)
        _add_send_options(each)


def _add_file_verb(parser: Parser) -> Parser:
    file = parser.subverb(
        "file",
        "write, append to or delete one file",
        "passdown express file NOTES.md --content notes.md --reason 'asked for'",
        run=lambda args: _send(args, _file(args)),
    )
    file.add_argument("path", metavar="PATH")
    file.add_argument("--content", metavar=FILE, help="the file that has it, or -")
    file.add_argument("--action", choices=("write", "append", "delete"), default="write")
    return file


def _add_item_options(parser: Parser, *, needs_reason: bool) -> None:
    """What every item says, whatever its kind."""
    parser.add_argument("--reason", metavar="TEXT", required=needs_reason, help="why it is wanted")
    parser.add_argument("--id", metavar="ID", default="", help="default: made from what it says")
    parser.add_argument("--task", metavar=TASK, default="", help="the task that it belongs to")
    parser.add_argument("--base", metavar="REF", default="", help="what it changes; default: HEAD")
    with_agent(parser, "--by", "who wants it, and carries it out")


def _add_send_options(parser: Parser) -> None:
    """How an item is brought to whoever carries it out."""
    parser.add_argument("--wait", action="store_true", help="wait for the result")
    parser.add_argument("--here", action="store_true", help="carry it out in this process, now")
    parser.add_argument(
        "--wait-room", metavar="SECONDS", type=seconds_option, help="wait so long for a full lane"
    )
    parser.add_argument("--relay-store", metavar="URL", default="", help="the engine's database")
    with_store(parser)


def _from_file(path: str) -> object:
    from passdown.core.parsing import load_json, load_yaml

    data = read_input(path)
    return load_json(data) if path.endswith(".json") else load_yaml(data)


def _item_from_file(args: Namespace) -> object:
    """The item of a file; who sends it wants it, unless it says who."""
    item = _from_file(args.file)
    if not isinstance(item, dict):
        return item
    return {"by": author(args), **cast("JsonObject", item)}


def _item(args: Namespace, kind: str, **content: object) -> JsonObject:
    """An item as plain data; what is empty is left out and gets its default."""
    common = {"id": args.id, "task": args.task, "base": args.base}
    item: JsonObject = {"kind": kind, "by": author(args), "reason": args.reason, **content}
    return {**item, **{name: value for name, value in common.items() if value}}


def _knowledge(args: Namespace) -> JsonObject:
    from passdown.core.parsing import load_json

    if bool(args.file) == bool(args.entry):
        raise UsageError("name a FILE with entries, or each of them with --entry")
    entries = [load_json(text) for text in args.entry] or _from_file(args.file)
    item = _item(args, "knowledge_update", entries=entries, action=args.action)
    return {**item, "file_path": args.file_path} if args.file_path else item


def _fix(args: Namespace) -> JsonObject:
    if bool(args.files) == bool(args.patch):
        raise UsageError("name each change as PATH=FILE, or one --patch FILE")
    args.reason = args.reason or args.message
    if args.patch:
        return _item(args, "hot_fix", message=args.message, patch=_read_text(args.patch))
    files: dict[str, str] = {}
    for given in args.files:
        path, mark, source = given.partition("=")
        if not mark or not path or not source:
            raise UsageError(f"{given!r} is no PATH=FILE")
        files[path] = _read_text(source)
    return _item(args, "hot_fix", message=args.message, files=files)


def _file(args: Namespace) -> JsonObject:
    if (args.content is None) != (args.action == "delete"):
        raise UsageError("--content is needed unless the --action is delete")
    item = _item(args, "file_task", path=args.path, action=args.action)
    return {**item, "content": _read_text(args.content)} if args.content else item


def _read_text(path: str) -> str:
    try:
        return read_input(path).decode("utf-8")
    except UnicodeDecodeError as error:
        problem = Problem(path, "not_utf8", "is no UTF-8 text", "a text file")
        raise InvalidInput("the input can't be read", [problem]) from error


def _send(args: Namespace, item: object) -> int:
    """Record an item, then carry it out or queue it."""
    from passdown.relay.express import send

    if args.here and (args.wait or args.wait_room):
        raise UsageError("--here carries it out at once; leave --wait and --wait-room out")
    if is_server_url(store_of(args)):
        _refuse_here(args)
    with workspace_of(args) as workspace:
        return _deliver(args, workspace, send(workspace, item))


def _refuse_here(args: Namespace) -> None:
    """A server queues by itself, and carries nothing out on this machine."""
    named = [name for name in ("here", "wait_room", "relay_store") if getattr(args, name)]
    if named:
        option = "--" + named[0].replace("_", "-")
        raise UsageError(
            f"{option} is for a store on this machine; a server queues what it is sent"
        )


def _express_queue(args: Namespace) -> int:
    from passdown.relay.express import express_record, send

    with workspace_of(args) as workspace:
        record = express_record(workspace, args.id)
        if is_server_url(store_of(args)):
            _refuse_here(args)
            record = send(workspace, record.item.to_dict())
        return _deliver(args, workspace, record)


def _deliver(args: Namespace, workspace: Workspace, record: ExpressRecord) -> int:
    if args.here:
        return _run_here(workspace, record, as_json=args.json)
    if is_server_url(store_of(args)):
        record = _wait(workspace, record) if args.wait else record
    elif not record.is_over:
        record = _enqueue(args, workspace, record)
    return _print_result(record, as_json=args.json)


def _run_here(workspace: Workspace, record: ExpressRecord, *, as_json: bool) -> int:
    from passdown.relay.agents import AgentStates
    from passdown.relay.express import carry_out, express_record

    carry_out(workspace, record.item, states=AgentStates(workspace))
    return _print_result(express_record(workspace, record.item.id), as_json=as_json)


def _enqueue(args: Namespace, workspace: Workspace, record: ExpressRecord) -> ExpressRecord:
    """Queue it, and wait for it where that is wanted; what goes wrong is told together with what
    is recorded already.
    """
    try:
        from passdown.relay.worker import EngineOptions, RelayWorker, open_engine

        with open_engine(workspace, EngineOptions(url=args.relay_store)) as engine:
            work = RelayWorker(workspace, engine)
            work.send_express(record.item.id, wait_s=args.wait_room or 0.0)
            return _wait(workspace, record, work) if args.wait else record
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
    """What became of an item; it is queued again where a worker failed at it, a few times. Behind
    a server that is seen to there.
    """
    from passdown.relay.express import express_record

    failures, looked_at, is_told = 0, time.monotonic(), False
    while not record.is_over:
        time.sleep(_POLL_S)
        record = express_record(workspace, record.item.id)
        if work is None or time.monotonic() - looked_at < _RESEND_S:
            continue
        looked_at = time.monotonic()
        if not is_told and not record.is_over and not work.is_served():
            _warn_no_worker(record.item.id)
            is_told = True
        failures += work.send_express(record.item.id)
        if failures > _MAX_FAILURES:
            raise PassdownError(f"workers failed at it {failures} times; their output says why")
    return record


def _warn_no_worker(item: str) -> None:
    import sys

    from passdown.core.text import visible

    said = f"{item} waits: there is no worker; passdown worker starts one. Ctrl-C leaves it queued."
    print(visible(said), file=sys.stderr, flush=True)


def _print_result(record: ExpressRecord, *, as_json: bool) -> int:
    """Say what became of an item; 1 when it became a task."""
    from passdown.cli.output import line, pairs, print_json

    code = 1 if record.status == "promoted" else 0
    if as_json:
        print_json(record.to_dict())
        return code
    item, facts = record.item, record.facts
    if not record.is_over:
        line(f"{item.id} is queued; a worker, or a run in the foreground, carries it out")
        line(f"passdown express show {item.id}", 2)
        return code
    done = facts.get("done", {})
    asked = cast("JsonObject", done.get("pull_request") or {})
    line(f"{item.id} ({item.kind}): {record.status}")
    pairs(
        [
            ("branch", done.get("branch")),
            ("commit", done.get("commit") or ("nothing had to change" if done else "")),
            ("files", done.get("files")),
            ("pull request", asked.get("url") or asked.get("problem")),
            ("bring it on", asked.get("suggestion")),
            ("reports", [f"{r['path']}: {r['message']}" for r in done.get("reports", ())]),
            ("why", facts.get("failed", {}).get("why")),
            ("task", facts.get("promoted", {}).get("task")),
        ],
        2,
    )
    return code


def _express_list(args: Namespace) -> int:
    from passdown.cli.output import print_json, short_time, table
    from passdown.relay.express import express_records

    with workspace_of(args) as workspace:
        found = express_records(workspace, status=args.status)
    if args.json:
        print_json([record.to_dict() for record in found])
        return 0
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
    return 0


def _express_show(args: Namespace) -> int:
    from passdown.cli.output import line, pairs, print_json, short_time
    from passdown.relay.express import express_record

    with workspace_of(args) as workspace:
        record = express_record(workspace, args.id)
    if args.json:
        print_json(record.to_dict())
        return 0
    item = record.item
    pairs(
        [
            ("id", item.id),
            ("kind", item.kind),
            ("status", record.status),
            ("by", item.by),
            ("reason", item.reason),
            ("task", item.task),
            ("base", item.base),
        ]
    )
    pairs(list(item.content.items()), 2)
    for kind, at in record.times.items():
        line(f"{short_time(at)}  {kind}")
        pairs(list(record.facts.get(kind, {}).items()), 4)
    return 0
