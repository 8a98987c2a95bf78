"""`log`, `show`, `diff` and `history`: what happened, who did it, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import TASK, whole_number, with_store
from passdown.surfaces.cli.printing import (
    heading,
    line,
    pairs,
    print_json,
    short_digest,
    short_time,
    shown,
    table,
)
from passdown.surfaces.cli.session import opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser

Document = dict[str, Any]


def log(parser: Parser) -> None:
    """The arguments of `log`."""
    parser.show(
        "passdown log",
        "passdown log T-1 --limit 5",
        "passdown log T-1 --before 12 --json",
        "passdown log T-1 --briefs",
    )
    parser.add_argument("task", metavar=TASK, nargs="?")
    parser.add_argument(
        "--briefs", action="store_true", help="what was told to whom, instead of records"
    )
    parser.add_argument("--limit", metavar="N", type=whole_number, default=50, help="at most")
    parser.add_argument(
        "--before",
        metavar="N",
        type=whole_number,
        help="older than this version; without a task, than this sequence number",
    )
    with_store(parser)
    parser.set_defaults(run=_log)


def _log(args: Namespace) -> int:
    before = {} if args.before is None else {"before": args.before}
    with opened(args) as workspace:
        ask = workspace.briefs if args.briefs else workspace.log
        found = ask(args.task, limit=args.limit, **before)
    if args.json:
        print_json(found)
    elif args.briefs:
        _print_briefs(found, args)
    else:
        _print_log(found, args)
    return 0


def _print_log(found: list[Document], args: Namespace) -> None:
    first = "version" if args.task else "seq"
    rows = [
        [
            entry[first],
            "" if args.task else f"{entry['task']} v{entry['version']}",
            short_time(entry["at"]),
            _author(entry),
            entry["kind"],
            entry["summary"],
        ]
        for entry in found
    ]
    names = (first, "task", "at (UTC)", "author", "kind", "what")
    table(names, rows, "nothing recorded", whole=names[:-1], short=("what",))
    _say_older(rows, args.limit)


def _author(entry: Document) -> str:
    """Who wrote a record, and, where it came in a bundle, who brought it."""
    brought = entry.get("imported")
    return f"{entry['author']}, by {brought['by']}'s bundle" if brought else entry["author"]


def _say_older(rows: list[list[Any]], limit: int) -> None:
    if len(rows) == limit and rows:
        line(f"older: --before {rows[-1][0]}")


def _print_briefs(found: list[Document], args: Namespace) -> None:
    """Print deliveries: when, to whom, from which version, how long, what was left out or asked."""
    first = "number" if args.task else "seq"
    rows = [
        [
            entry[first],
            "" if args.task else entry["task"],
            short_time(entry["at"]),
            entry["kind"].replace("_", " "),
            entry["agent"],
            entry.get("version"),
            f"{entry['tokens']}/{entry['budget']}" if "tokens" in entry else "",
            len(entry["shown"]) if "shown" in entry else "",
            sum(entry["left_out"].values()) if "left_out" in entry else "",
            entry.get("query"),
        ]
        for entry in found
    ]
    counts = ("version", "tokens", "shown", "left out")
    names = (first, "task", "at (UTC)", "kind", "to", *counts, "asked")
    table(names, rows, "nobody was told anything yet", whole=names[:-1], short=("asked",))
    _say_older(rows, args.limit)


def show(parser: Parser) -> None:
    """The arguments of `show`."""
    parser.show("passdown show T-1#d3", "passdown show T-1#b1 --json")
    parser.add_argument("item", metavar="ITEM", help="an address such as T-1#d3, or node:ID")
    with_store(parser)
    parser.set_defaults(run=_show)


def _show(args: Namespace) -> int:
    from passdown.errors import NotFound
    from passdown.surfaces.cli.items import print_item
    from passdown.surfaces.cli.node_edits import written_node

    with opened(args) as workspace:
        if args.item.startswith("node:"):
            from passdown.surfaces.cli.knowing import print_node

            return print_node(workspace, args.item, as_json=args.json)
        try:
            found = workspace.show(args.item)
        except NotFound as error:
            if written_node(workspace, args.item) is None:
                raise
            raise NotFound(error.message, next_step=f"Did you mean node:{args.item}?") from error
    if args.json:
        print_json(found)
        return 0
    source = found.pop("source")
    print_item(found)
    line()
    heading("source")
    names = ("task", "version", "author", "at", "kind")
    digests = [(name, short_digest(source[name])) for name in ("digest", "previous")]
    pairs([*((name, source[name]) for name in names), *digests, *_origin(source)], 2)
    return 0


def _origin(source: Document) -> list[tuple[str, str]]:
    """Through which door a record came, or who brought it in which bundle."""
    brought = source.get("imported")
    if not brought:
        return [("via", source["via"])] if "via" in source else []
    through = f" via {brought['via']}" if "via" in brought else ""
    found = [("brought by", f"{brought['by']}{through}, {short_time(brought['at'])}")]
    if "bundle" in brought:
        found.append(("bundle", short_digest(brought["bundle"])))
    if "claimed_via" in brought:
        found.append(("claims via", brought["claimed_via"]))
    return found


def diff(parser: Parser) -> None:
    """The arguments of `diff`."""
    parser.show("passdown diff T-1 3 7", "passdown diff T-1 3 7 --json")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("old", metavar="V1", type=whole_number)
    parser.add_argument("new", metavar="V2", type=whole_number)
    with_store(parser)
    parser.set_defaults(run=_diff)


def _diff(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.diff(args.task, args.old, args.new)
    if args.json:
        print_json(found)
    else:
        print_diff(found)
    return 0


def print_diff(found: Document) -> None:
    """Print what differs: fields, then items added, changed and gone."""
    from passdown.surfaces.cli.items import title_of

    heading(f"{found['task']}  version {found['old']} to {found['new']}")
    before = len(found["fields"])
    pairs(
        [
            (name.replace("_", " "), f"{shown(was['old']) or '-'} -> {shown(was['new']) or '-'}")
            for name, was in found["fields"].items()
        ],
        2,
    )
    count = 0
    for mark, part in (("+", "added"), ("~", "changed"), ("-", "removed")):
        for entries in found[part].values():
            for entry in entries:
                count += 1
                item = entry if part != "changed" else entry["new"]
                line(f"{mark} {item['address']}  {title_of(item)}{_changed(entry, part)}", 2)
    if not count and not before:
        line("nothing differs", 2)


def _changed(entry: Document, part: str) -> str:
    """The fields of an item that changed."""
    if part != "changed":
        return ""
    old, new = entry["old"], entry["new"]
    names = [name for name in new if old.get(name) != new[name] and name != "address"]
    return "".join(f"; {n}: {shown(old.get(n)) or '-'} -> {shown(new[n])}" for n in names)


def history(parser: Parser) -> None:
    """The arguments of `history`."""
    parser.show("passdown history T-1 src/login.py")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("path", metavar="PATH", help="relative to the project")
    with_store(parser)
    parser.set_defaults(run=_history)


def _history(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.path_history(args.task, args.path)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            entry["version"],
            short_time(entry["at"]),
            *(entry.get(name) for name in ("agent", "change", "size_bytes")),
            str(entry.get("sha256") or "").removeprefix("sha256:")[:12],
            entry.get("note"),
        ]
        for entry in found
    ]
    headers = ("version", "at (UTC)", "agent", "change", "bytes", "sha256", "note")
    empty = f"{args.task} has no entry for {args.path}"
    table(headers, rows, empty, whole=headers[:-1])
    return 0
