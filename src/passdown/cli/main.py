"""Entry point of the command line: find the verb, load its module alone, run it.

Exit codes: 0 done, 1 refused or problems found, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from passdown.cli.session import UsageError
from passdown.core.values import NamedTuple
from passdown.errors import PassdownError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.cli.parsing import Parser


# What is loaded stays until the end. To look it over for garbage every 700 objects, as Python does,
# takes a twentieth of the time of a short command.
_GC_THRESHOLD = 20_000


def run() -> NoReturn:
    """The program: runs with the process's arguments and exits."""
    gc.set_threshold(_GC_THRESHOLD)
    if not _check_streams():
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


def _check_streams() -> bool:
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
        return answer_hook(rest[1:], store)
    if rest[0] not in VERBS:
        return _unknown(rest)
    return _run(rest[0], rest[1:], store)


def _run(verb: str, argv: list[str], store: str | None) -> int:
    from passdown.cli.parsing import run_command

    try:
        command, values = parser_of(verb).parse(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    except UsageError as error:
        return _usage_error(str(error), error.prog, argv)
    as_json = bool(values.get("json"))
    try:
        return run_command(command, values, store)
    except UsageError as error:
        return _usage_error(str(error), f"passdown {verb}", argv)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001
        return _refused(_known(error), as_json=as_json)


def _known(error: Exception) -> PassdownError:
    """An error as one of ours; a bug is raised with its traceback where PASSDOWN_DEBUG is set."""
    if isinstance(error, PassdownError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return PassdownError(f"{where}{error.strerror or error}", code="system_error")
    if os.environ.get("PASSDOWN_DEBUG"):
        raise error
    return PassdownError(
        f"unexpected {type(error).__name__}: {error}",
        next_step="This is a bug in Passdown. PASSDOWN_DEBUG=1 shows where; please report it.",
        code="unexpected",
    )


def _usage_error(message: str, prog: str, argv: Sequence[str]) -> int:
    """Say how a command is wrong; nobody could read `--json` out of such arguments but by eye."""
    from passdown.cli.output import print_usage_error

    as_json = "--json" in argv
    said = message if as_json else f"{prog}: {message}"
    print_usage_error(said, prog.replace("passdown", "passdown help", 1), as_json=as_json)
    return 2


def _refused(error: PassdownError, *, as_json: bool) -> int:
    from passdown.cli.output import print_error

    print_error(error, as_json=as_json)
    return 1


def parser_of(verb: str) -> Parser:
    """The parser of a verb, from the module that holds it."""
    from importlib import import_module

    from passdown.cli.parsing import parser_for

    import_module(MODULES[verb])
    return parser_for(verb, VERBS[verb].line)


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
    from passdown.cli.parsing import close_to
    from passdown.core.text import excerpt

    verb = argv[0]
    if verb.startswith("-"):
        said = f"{excerpt(verb)!r} is out of place; a verb comes first, or --store URL and a verb"
    else:
        said = f"there is no verb {excerpt(verb)!r}{close_to(verb, VERBS)}"
    return _usage_error(said, "passdown", argv)


class Verb(NamedTuple):
    """One verb."""

    name: str
    group: str
    line: str


_START, _HOSTS, _WRITE, _RUN, _CONTEXT, _READ, _GATES, _SAFETY, _SERVE, _TOOLS = (
    "Start",
    "Serve coding agents",
    "Record",
    "Run agents",
    "Tell the next agent",
    "Read",
    "Gates",
    "Safety",
    "Serve over HTTP",
    "Tools",
)

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("init", _START, "make a workspace; set coding agents up, and undo it"),
        Verb("demo", _START, "watch four agents build a small thing, offline"),
        Verb("mcp", _HOSTS, "serve agents over MCP, on standard input and output"),
        Verb("hook", _HOSTS, "answer a coding agent's host at one of its events"),
        Verb("plugin", _HOSTS, "write a plugin for Claude Code or Codex, with a skill"),
        Verb("task", _WRITE, "make, list, show and change tasks"),
        Verb("handoff", _WRITE, "hand a task on, from a file or from flags"),
        Verb("draft", _WRITE, "what was seen of the work on a task, to be completed"),
        Verb("ingest", _WRITE, "record the handoffs that stand in task files"),
        Verb("migrate", _WRITE, "turn freeform notes into handoffs"),
        Verb("decide", _WRITE, "record one decision and why"),
        Verb("note", _WRITE, "record a pattern or a gotcha"),
        Verb("warn", _WRITE, "record a warning that stays with a task"),
        Verb("knowledge", _WRITE, "write nodes and edges down, pack and exchange them"),
        Verb("mark", _WRITE, "resolve, answer, close or retract an item"),
        Verb("run", _RUN, "run a relay of agents on a task, and watch it"),
        Verb("runs", _RUN, "what runs there are; answer one, stop one"),
        Verb("worker", _RUN, "take turns of runs, and express items"),
        Verb("express", _RUN, "small work that overtakes: send, list, show"),
        Verb("agents", _RUN, "where each agent stands, and on which task"),
        Verb("brief", _CONTEXT, "what an agent needs to know of a task, within a budget"),
        Verb("switch", _CONTEXT, "the whole context of an agent that takes over"),
        Verb("artifact", _CONTEXT, "save, list and check what agents leave behind"),
        Verb("context", _CONTEXT, "what the past has for a task"),
        Verb("rules", _CONTEXT, "rules by layer: list, show, and put them into a prompt"),
        Verb("why", _CONTEXT, "whether an agent was told an item, and why not"),
        Verb("measure", _CONTEXT, "how contexts grow from switch to switch"),
        Verb("state", _READ, "a task's whole state, now or at a version"),
        Verb("summary", _READ, "a task in a few lines, or whether one still holds"),
        Verb("log", _READ, "records, newest first"),
        Verb("show", _READ, "one item and the record it came from"),
        Verb("diff", _READ, "what differs between two versions of a task"),
        Verb("history", _READ, "every entry that a task has had for a path"),
        Verb("recall", _READ, "find what was recorded, by words and by meaning"),
        Verb("graph", _READ, "the knowledge graph: parts, paths, tags, pictures"),
        Verb("journal", _READ, "places, blockers and gotchas, of a task or of all"),
        Verb("inbox", _READ, "the handoffs that wait for an agent"),
        Verb("gate", _GATES, "list, approve, reject and record gates"),
        Verb("verify", _SAFETY, "check that the store says what was written"),
        Verb("heads", _SAFETY, "export the heads, to be kept elsewhere for verify"),
        Verb("backup", _SAFETY, "copy the store while others write, verified"),
        Verb("copy", _SAFETY, "copy one store into another, verified"),
        Verb("export", _SAFETY, "write a bundle of one task or of everything"),
        Verb("import", _SAFETY, "take in ADRs, beads, MCP memory, notes or a bundle"),
        Verb("audit", _SAFETY, "what is remembered twice, out of date or untold"),
        Verb("embed", _SAFETY, "make the vectors that search by meaning needs"),
        Verb("reindex", _SAFETY, "make every derived row again from the records"),
        Verb("doctor", _SAFETY, "facts and findings about this workspace"),
        Verb("serve", _SERVE, "the HTTP API, its events and MCP, behind tokens"),
        Verb("token", _SERVE, "make, list and revoke tokens for a server"),
        Verb("schema", _TOOLS, "the JSON Schema of a handoff, a task or a state"),
        Verb("template", _TOOLS, "an empty task file with a handoff section"),
        Verb("completion", _TOOLS, "a completion script for your shell"),
    )
}


MODULES = {
    verb: module
    for module, verbs in (
        ("passdown.cli.setup", "init"),
        ("passdown.cli.demo", "demo"),
        ("passdown.cli.server", "mcp"),
        ("passdown.cli.setup", "hook plugin"),
        ("passdown.cli.tasks", "task"),
        ("passdown.cli.handoffs", "handoff"),
        ("passdown.cli.handoffs", "draft"),
        ("passdown.cli.handoffs", "ingest"),
        ("passdown.cli.handoffs", "migrate"),
        ("passdown.cli.tasks", "decide note warn mark"),
        ("passdown.cli.knowledge", "knowledge"),
        ("passdown.cli.relays", "run"),
        ("passdown.cli.runs", "runs"),
        ("passdown.cli.relays", "worker"),
        ("passdown.cli.express", "express"),
        ("passdown.cli.runs", "agents"),
        ("passdown.cli.briefs", "brief why"),
        ("passdown.cli.switches", "switch artifact"),
        ("passdown.cli.briefs", "context"),
        ("passdown.cli.switches", "rules"),
        ("passdown.cli.switches", "measure"),
        ("passdown.cli.history", "state summary inbox"),
        ("passdown.cli.history", "log show diff history"),
        ("passdown.cli.search", "recall embed"),
        ("passdown.cli.knowledge", "graph"),
        ("passdown.cli.search", "journal audit"),
        ("passdown.cli.tasks", "gate"),
        ("passdown.cli.maintenance", "verify heads backup reindex doctor"),
        ("passdown.cli.maintenance", "copy"),
        ("passdown.cli.maintenance", "export import"),
        ("passdown.cli.server", "serve"),
        ("passdown.cli.server", "token"),
        ("passdown.cli.handoffs", "schema template"),
        ("passdown.cli.completion", "completion"),
    )
    for verb in verbs.split()
}
"""The module of each verb, imported only when the verb is used."""


def overview() -> str:
    """All verbs by group, for `passdown` alone and `passdown help`."""
    lines = ["usage: passdown VERB [...]", "", "Hand work from one agent to the next.", ""]
    group = ""
    for verb in VERBS.values():
        if verb.group != group:
            lines += ["", verb.group] if group else [verb.group]
            group = verb.group
        lines.append(f"  {verb.name:<10} {verb.line}")
    return "\n".join(
        [
            *lines,
            "",
            "passdown help VERB (or passdown VERB --help) shows options and examples.",
            "--store URL or PASSDOWN_STORE names a store; default: the nearest .passdown/ folder.",
            "Exit codes: 0 done, 1 refused or problems found, 2 usage error.",
        ]
    )


_STORE_OPTION = "--store"


def answer_hook(words: Sequence[str], store: str | None) -> int:
    """Answer a host, whatever its words are; gives 0."""
    is_all = sys.argv[1:2] == ["hook"]
    if is_all:
        # A process that lives for one answer needs neither collecting nor taking apart: together
        # they cost as much as the answer.
        gc.disable()
    from passdown.hosts.hooks.runner import run_hook

    named, store = _without_store(words, store)
    code = run_hook(named, store)
    if is_all:
        os._exit(code)
    return code


def _without_store(words: Sequence[str], store: str | None) -> tuple[list[str], str | None]:
    """The words without `--store URL`, and the URL."""
    left: list[str] = []
    given = iter(words)
    for word in given:
        if word == _STORE_OPTION:
            store = next(given, store)
        elif word.startswith(f"{_STORE_OPTION}="):
            store = word.partition("=")[2]
        else:
            left.append(word)
    return left, store
