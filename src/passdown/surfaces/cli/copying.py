"""`copy`: one store into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.surfaces.cli.printing import counted, labelled, line, print_json, print_problems
from passdown.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def copy(parser: Parser) -> None:
    """The arguments of `copy`."""
    parser.show(
        "passdown copy . 'postgresql://db.example/work?workspace=shop'",
        "passdown copy 'postgresql://db.example/work?workspace=shop' ../here.db",
    )
    parser.add_argument("source", metavar="FROM", help="a store's address, file or folder")
    parser.add_argument("target", metavar="TO", help="another; made where there is none")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_copy)


def _copy(args: Namespace) -> int:
    from passdown.workspace.copying import copy_workspace

    done = copy_workspace(args.source, args.target, progress_bar)
    found = done.verified.findings
    if args.json:
        shown = {**done._asdict(), "ok": not found}
        shown["verified"] = {
            "streams": done.verified.streams,
            "records": done.verified.records,
            "findings": [finding.as_document() for finding in found],
        }
        print_json(shown)
        return 0 if not found else 1
    earlier = f", {done.before} had come before" if done.before else ""
    line(f"copied {counted(done.records, 'record')} to {done.target}{earlier}")
    label, style = ("ok", "green") if not found else (counted(len(found), "finding"), "red")
    streams = counted(done.verified.streams, "stream")
    labelled(label, style, f"{counted(done.verified.records, 'record')} in {streams}, verified")
    print_problems(found)
    return 0 if not found else 1
