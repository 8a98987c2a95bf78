"""`token`: who may use a server of this workspace, and for what."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from passdown.model.access import RIGHTS
from passdown.model.text import visible
from passdown.surfaces.cli.parsing import AGENT, several, with_store
from passdown.surfaces.cli.session import name_here, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.access import Access
    from passdown.surfaces.cli.parsing import Parser

_UNITS = {"h": 1 / 24, "d": 1.0, "w": 7.0}


def token(parser: Parser) -> None:
    """The arguments of `token` and the verbs below it."""
    new = parser.subverb(
        "new",
        "make a token; it is shown once and kept nowhere",
        "passdown token new --agent coder --rights read,write --expires 90d",
        "passdown token new --person kim --rights read,write,approve",
        "passdown token new --agent relay --rights read,write,others",
        run=_new,
    )
    whose = new.add_mutually_exclusive_group(required=True)
    for option, metavar, help in (
        ("--agent", AGENT, "the agent that it is for: it writes under this name and no other"),
        ("--person", "NAME", "the person that it is for: people may answer gates"),
    ):
        new.offers.append(whose.add_argument(option, metavar=metavar, help=help))
    new.add_argument(
        "--rights",
        metavar="LIST",
        type=several,
        default=["read", "write"],
        help=f"some of {', '.join(RIGHTS)}, with commas; default: read,write",
    )
    new.add_argument("--expires", metavar="TIME", type=_expiry, default=None, help="12h, 90d, 4w")
    new.add_argument("--label", metavar="TEXT", default="", help="what it is for")
    with_store(new)
    found = parser.subverb("list", "list tokens", "passdown token list --all", run=_list)
    found.add_argument("--all", action="store_true", help="expired and revoked ones as well")
    with_store(found)
    revoke = parser.subverb(
        "revoke",
        "take a token back; servers refuse it within a second",
        "passdown token revoke k3v5x2m7qa",
        run=_revoke,
    )
    revoke.add_argument("id", metavar="ID", help="from passdown token list")
    with_store(revoke)


def _expiry(text: str) -> float:
    """A span of time in days."""
    number, unit = text[:-1], text[-1:]
    is_span = unit in _UNITS and number.isascii() and number.isdigit() and len(number) <= 5
    if not is_span or not int(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no span of time; try 12h, 90d or 4w")
    return int(number) * _UNITS[unit]


def _new(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_json, verbatim
    from passdown.workspace.access import Tokens

    with opened(args) as workspace:
        minted = Tokens(workspace).new(
            args.person or args.agent,
            args.rights,
            by=name_here(),
            is_person=bool(args.person),
            days=args.expires or 0,
            label=args.label,
        )
    if args.json:
        print_json({**minted.access.as_document(), "token": minted.token})
        return 0
    verbatim(minted.token)
    # Beside it, so that TOKEN=$(passdown token new ...) holds the token alone.
    said = f"token {minted.access.id}, {_said(minted.access)}; it is not shown again"
    print(visible(said), file=sys.stderr)
    return 0


def _list(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_json, short_time, table
    from passdown.workspace.access import Tokens
    from passdown.workspace.beside import Beside

    with opened(args) as workspace:
        now = Beside(workspace).now()
        known = Tokens(workspace).all().values()
    kept = [(one, one.state(now)) for one in known if args.all or one.state(now) == "live"]
    if args.json:
        print_json([{**one.as_document(), "state": state} for one, state in kept])
        return 0
    rows = [
        [
            one.id,
            state,
            f"{one.name} (person)" if one.is_person else one.name,
            ",".join(one.rights),
            short_time(one.made),
            one.expires[:10] or "never",
            one.label,
        ]
        for one, state in kept
    ]
    names = ("id", "state", "whose", "rights", "made (UTC)", "expires", "label")
    table(names, rows, "no tokens", whole=names[:-1])
    return 0


def _revoke(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import line, print_json
    from passdown.workspace.access import Tokens

    with opened(args) as workspace:
        revoked = Tokens(workspace).revoke(args.id, by=name_here())
    if args.json:
        print_json(revoked.as_document())
        return 0
    line(f"token {revoked.id}, {_said(revoked)}, is revoked")
    return 0


def _said(access: Access) -> str:
    who = f"of {access.name}, a person" if access.is_person else f"of the agent {access.name}"
    until = f", until {access.expires[:10]}" if access.expires else ""
    return f"{who}, for {', '.join(access.rights)}{until}"
