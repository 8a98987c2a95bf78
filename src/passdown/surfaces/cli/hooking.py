"""`hook`: answer a coding agent's host."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from passdown.surfaces.cli.parsing import Parser

_STORE = "--store"


def hook(parser: Parser) -> None:
    """The arguments of `hook`, for its help; calls don't come this way."""
    parser.show(
        "passdown hook claude session-start < call.json",
        "passdown hook codex stop < call.json",
    )
    parser.add_argument("host", metavar="HOST", help="as init --host writes it")
    parser.add_argument("event", metavar="EVENT", help="session-start, stop and others")
    parser.add_argument(_STORE, metavar="URL", help="a store's address, file or folder")
    parser.set_defaults(run=_hook)


def _hook(args: Namespace) -> int:
    return answer([args.host, args.event], args.store)


def answer(words: Sequence[str], store: str | None) -> int:
    """Answer a host, whatever its words are; gives 0."""
    is_all = sys.argv[1:2] == ["hook"]
    if is_all:
        # A process that lives for one answer needs neither collecting nor taking apart: together
        # they cost as much as the answer.
        gc.disable()
    from passdown.surfaces.hooks.running import run

    named, store = _without_store(words, store)
    code = run(named, store)
    if is_all:
        os._exit(code)
    return code


def _without_store(words: Sequence[str], store: str | None) -> tuple[list[str], str | None]:
    """The words without `--store URL`, and the URL."""
    left: list[str] = []
    given = iter(words)
    for word in given:
        if word == _STORE:
            store = next(given, store)
        elif word.startswith(f"{_STORE}="):
            store = word.partition("=")[2]
        else:
            left.append(word)
    return left, store
