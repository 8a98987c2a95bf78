"""`hook`: answer a coding agent's host."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def hook(parser: Parser) -> None:
    """The arguments of `hook`: lenient, since a misuse would block the agent that it is run for."""
    parser.show(
        "passdown hook claude session-start < call.json",
        "passdown hook codex stop < call.json",
    )
    parser.add_argument("words", metavar="HOST EVENT", nargs="*", help="as init --host writes them")
    parser.add_argument("--store", metavar="URL", help="a store's address, file or folder")
    parser.set_defaults(run=_hook)


def _hook(args: Namespace) -> int:
    is_all = sys.argv[1:2] == ["hook"]
    if is_all:
        # A process that lives for one answer needs neither collecting nor taking apart: together
        # they cost as much as the answer.
        import gc

        gc.disable()
    from passdown.surfaces.hooks.running import run

    code = run(args.words, args.store)
    if is_all:
        os._exit(code)
    return code


BUILDERS = {"hook": hook}
