"""Start: look at the verb, load its module alone, run it, and turn every failure into an exit code.

0 is done, 1 refused or found wanting, 2 misuse, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from passdown.errors import PassdownError
from passdown.surfaces.cli.session import Misuse
from passdown.surfaces.cli.verbs import MODULES, VERBS, overview

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from passdown.surfaces.cli.parsing import Parser

# What is loaded stays until the end. To look it over for garbage every 700 objects, as Python does,
# takes a twentieth of the time of a short command.
_LOADED = 20_000


def run() -> NoReturn:
    """The program: runs with the process's arguments and exits."""
    gc.set_threshold(_LOADED)
    if not _have_streams():
        sys.exit(1)
    # What a stream can't spell becomes an escape; JSON is kept to ASCII there anyway.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. Nothing more may be written, not even on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _have_streams() -> bool:
    """Whether there is anywhere to print to; a closed standard input or error is as if empty.

    Without standard output nothing is begun: its number would go to the next file that is opened.
    """
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        print("passdown: standard output is closed; nothing was done", file=sys.stderr)
        return False
    return True


def main(argv: Sequence[str]) -> int:
    """Run one command; gives its exit code. Raises nothing but BrokenPipeError and interrupts."""
    store, rest = _leading_store(list(argv))
    if not rest or rest[0] in ("-h", "--help") or rest == ["help"]:
        print(overview())
        return 0
    if rest[0] == "--version":
        return _version()
    if rest[0] == "help":
        rest = [*rest[1:], "--help"]
    if rest[0] == "hook" and not {"-h", "--help"}.intersection(rest):
        # Hosts call it all day, and read exit code 2 as an order to stop: nothing parses it.
        from passdown.surfaces.cli.hooking import answer

        return answer(rest[1:], store)
    if rest[0] not in VERBS:
        return _unknown(rest)
    return _run(rest[0], rest[1:], store)


def _run(verb: str, argv: list[str], store: str | None) -> int:
    try:
        args = parser_of(verb).parse(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    except Misuse as error:
        return _misused(str(error), error.prog, argv)
    if store and getattr(args, "store", store) is None:
        args.store = store
    return _carry_out(verb, args, argv)


def _carry_out(verb: str, args: Namespace, argv: Sequence[str]) -> int:
    try:
        return args.run(args)
    except Misuse as error:
        return _misused(str(error), f"passdown {verb}", argv)
    except PassdownError as error:
        return _refused(error, args)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror or error}"
        return _refused(PassdownError(message, code="system_error"), args)
    except Exception as error:  # noqa: BLE001
        return _unexpected(error, args)


def _unexpected(error: Exception, args: Namespace) -> int:
    """A fault of ours: said in one line, whole where PASSDOWN_DEBUG asks for it."""
    if os.environ.get("PASSDOWN_DEBUG"):
        raise error
    found = PassdownError(
        f"unexpected {type(error).__name__}: {error}",
        next_step="This is a fault in Passdown. PASSDOWN_DEBUG=1 shows where; please report it.",
        code="unexpected",
    )
    return _refused(found, args)


def _misused(message: str, prog: str, argv: Sequence[str]) -> int:
    """Say how a command is wrong; nobody could read `--json` out of such arguments but by eye."""
    from passdown.surfaces.cli.printing import print_misuse

    as_json = "--json" in argv
    said = message if as_json else f"{prog}: {message}"
    print_misuse(said, prog.replace("passdown", "passdown help", 1), as_json=as_json)
    return 2


def _refused(error: PassdownError, args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_error

    print_error(error, as_json=bool(getattr(args, "json", False)))
    return 1


def parser_of(verb: str) -> Parser:
    """The parser of a verb, from the module that holds it."""
    from importlib import import_module

    from passdown.surfaces.cli.parsing import Parser

    parser = Parser(f"passdown {verb}", VERBS[verb].line)
    module = import_module(MODULES[verb])
    add_arguments = getattr(module, "import_" if verb == "import" else verb)
    add_arguments(parser)
    return parser


def _leading_store(argv: list[str]) -> tuple[str | None, list[str]]:
    """`--store` may stand before the verb as well."""
    if len(argv) > 1 and argv[0] == "--store" and not argv[1].startswith("-"):
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--store="):
        return argv[0].partition("=")[2], argv[1:]
    return None, argv


def _version() -> int:
    from passdown import __version__

    print(f"passdown {__version__}")
    return 0


def _unknown(argv: Sequence[str]) -> int:
    from passdown.model.text import excerpt
    from passdown.surfaces.cli.parsing import close_to

    verb = argv[0]
    if verb.startswith("-"):
        said = f"{excerpt(verb)!r} is out of place; a verb comes first, or --store URL and a verb"
    else:
        said = f"there is no verb {excerpt(verb)!r}{close_to(verb, VERBS)}"
    return _misused(said, "passdown", argv)
