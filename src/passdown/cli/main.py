"""Entry point of the command line: find the verb, load its module alone, run it.

Exit codes: 0 done, 1 refused or problems found, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

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
    if rest in ([], ["--json"]) and (store or _is_in_workspace()):
        rest = ["status", *rest]
    if not rest or rest[0] in ("-h", "--help") or rest == ["help"]:
        print(overview())
        if not rest:
            print("There is no workspace here yet: passdown init makes one.")
        return 0
    if rest[0] == "--version":
        from passdown import __version__

        print(f"passdown {__version__}")
        return 0
    if rest[0] == "help":
        rest = [*rest[1:], "--help"]
    if rest[0] == "hook" and not {"-h", "--help"}.intersection(rest):
        # Hosts call it all day, and read exit code 2 as an order to stop: nothing parses it.
        return answer_hook(rest[1:], store)
    if rest == ["mcp"] and not sys.stdin.isatty():
        # Hosts start it at every session, and send their first request with the tools that they
        # have by then: nothing parses it.
        from passdown.mcp.stdio import serve_stdio

        serve_stdio(store or "")
        return 0
    if rest[0] not in VERBS:
        return _unknown(rest)
    return _run(rest[0], rest[1:], store)


def _is_in_workspace() -> bool:
    """Whether there is a workspace that a command here would work with."""
    if os.environ.get("PASSDOWN_STORE"):
        return True
    from passdown.workspace.location import locate

    try:
        locate(".", create=False)
    except PassdownError:
        return False
    return True


def _run(verb: str, argv: list[str], store: str | None) -> int:
    from passdown.cli.session import UsageError

    try:
        parser, given = parser_of(verb).parse(argv)
        return parser.run(given, store)
    except SystemExit as stop:
        return int(stop.code or 0)
    except UsageError as error:
        said = str(error)
        if verb == "approve" and any("#k" in word for word in argv):
            said = "it asks an agent of a run; did you mean passdown gate approve?"
        return _usage_error(said, error.prog or f"passdown {verb}", argv)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001
        from passdown.cli.output import print_error

        print_error(_known(error), as_json="--json" in argv)
        return 1


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
    """Say in one line how a command is wrong and where to read on; as JSON with --json."""
    from passdown.cli.output import error_line, print_error
    from passdown.core.text import visible

    help = prog.replace("passdown", "passdown help", 1)
    if "--json" in argv:
        print_error(PassdownError(message, next_step=help, code="usage_error"), as_json=True)
    else:
        error_line(visible(f"{prog}: {message} (see: {help})"))
    return 2


def parser_of(verb: str) -> Parser:
    """The parser of a verb, from the module that holds it."""
    from importlib import import_module

    from passdown.cli.parsing import COMMANDS, Parser

    import_module(f"passdown.cli.{VERBS[verb].module}")
    return Parser(verb, VERBS[verb].line, COMMANDS.get(verb))


def _leading_store(argv: list[str]) -> tuple[str | None, list[str]]:
    """Take `--store` from before the verb."""
    if len(argv) > 1 and argv[0] == "--store" and not argv[1].startswith("-"):
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--store="):
        return argv[0].partition("=")[2], argv[1:]
    return None, argv


def _unknown(argv: Sequence[str]) -> int:
    from passdown.cli.parsing import close_to
    from passdown.core.text import excerpt

    verb = argv[0]
    if verb.startswith("-"):
        said = f"{excerpt(verb)!r} is not a verb; a verb comes first, or --store URL and a verb"
    else:
        usual = _USUAL_WORDS.get(verb)
        hint = f"; did you mean {usual}?" if usual else close_to(verb, VERBS)
        said = f"there is no verb {excerpt(verb)!r}{hint}"
    return _usage_error(said, "passdown", argv)


_USUAL_WORDS = {
    **dict.fromkeys(("list", "ls", "tasks"), "task list"),
    **dict.fromkeys(("new", "add", "create"), "task new"),
    **dict.fromkeys(("search", "find", "query", "grep"), "recall"),
    **dict.fromkeys(("hand-off", "hand_off"), "handoff"),
    **dict.fromkeys(("begin", "take", "claim", "work", "resume", "continue"), "start"),
    **dict.fromkeys(("next", "todo"), "ready"),
    **dict.fromkeys(("done", "finish", "complete", "close"), "task done"),
    **dict.fromkeys(("edit", "update", "rename", "cancel", "delete"), "task set"),
    **dict.fromkeys(("gotcha", "pattern", "fact", "comment", "remember"), "note"),
    **dict.fromkeys(("blocker", "block", "question", "stop", "pause"), "handoff"),
    **dict.fromkeys(("setup", "hosts", "install"), "init"),
    "decision": "decide",
    "reject": "gate reject",
}
"""What people type for a verb of another name."""


class Verb(NamedTuple):
    """One verb; its `module` of this package is imported only when the verb is used."""

    name: str
    module: str
    line: str


_VERBS = """\
Every day
  ready      tasks       list what can be worked on now, the best first
  start      tasks       take a task, or make one, and print its brief
  recall     search      search what was recorded, by words and by meaning
  decide     tasks       record one decision and why
  handoff    handoffs    hand off a task, from a file or from flags
Start
  init       setup       create a workspace; set up coding agents, and undo it
  demo       demo        watch four agents build a small program, offline
Serve coding agents
  mcp        server      serve agents over MCP, on standard input and output
  hook       setup       answer a coding agent's host at one of its events
  plugin     setup       write a plugin for Claude Code or Codex, with a skill
Record
  task       tasks       create, list, show and change tasks
  draft      handoffs    write a draft of a handoff from the captured work
  ingest     handoffs    record the handoffs in task files
  migrate    handoffs    turn freeform notes into handoffs
  note       tasks       record a pattern, a gotcha or a fact
  warn       tasks       record a warning that stays with a task
  knowledge  knowledge   write, pack and exchange nodes and edges of the graph
  mark       tasks       resolve, answer, close or retract an item
Run agents
  run        relays      run a relay of agents on a task, and watch it
  runs       runs        list and show runs; answer one, stop one
  replay     runs        take a leg of a run again, by another agent or model, and compare
  worker     relays      execute turns of runs, and express items
  ask        relays      ask an agent of a run a question, and wait for the answer
  review     relays      let an agent of a run review a plan, code or completion
  approve    relays      like review, with exit code 1 unless it is approved
  express    express     small jobs that jump the queue: send, list, show
  agents     runs        show the status of each agent
Context for the next agent
  brief      contexts    what an agent needs to know about a task, within a budget
  switch     contexts    the whole context of an agent that takes over
  artifact   contexts    save, list and check switch artifacts
  context    contexts    what earlier tasks pass on to a task
  rules      contexts    rules by layer: list, show, add to a prompt
  why        contexts    why an item was in an agent's brief, or wasn't
  measure    contexts    measure how contexts grow from switch to switch
Read
  status     tasks       where things stand, as passdown alone prints it
  state      history     a task's whole state, now or at a version
  summary    history     a task in a few lines; check whether one is current
  log        history     list records, newest first
  show       history     show anything that has an address
  diff       history     what differs between two versions of a task
  history    history     every entry that a task has had for a path
  graph      knowledge   the knowledge graph: parts, paths, tags, pictures
  journal    search      components, blockers and gotchas, of a task or of all
  inbox      history     list the handoffs that wait for an agent
Gates
  check      tasks       check the preconditions of a handoff
  gate       tasks       list, approve, reject and record gates
Safety
  verify     maintenance verify that records are unchanged
  heads      maintenance export the heads of all streams, for verify --against
  backup     maintenance copy the store while others write, verified
  copy       maintenance copy one store into another, verified
  export     maintenance write a bundle of one task or of everything
  import     maintenance import ADRs, beads, MCP memory, notes or a bundle
  audit      search      find duplicate, outdated and never-used entries
  embed      search      make the vectors that search by meaning needs
  reindex    maintenance rebuild indexes from the records
  doctor     maintenance check this workspace for problems
  recover    maintenance accept the ledger as it is after history was lost
Serve over HTTP
  ui         server      open the dashboard in a browser
  serve      server      serve the HTTP API, the dashboard and MCP, behind tokens
  token      server      make, list and revoke tokens for a server
Tools
  schema     handoffs    print the JSON Schema of a handoff, a task or a state
  template   handoffs    print an empty task file with a handoff section
  completion completion  print a completion script for your shell
"""
"""Groups, and below each its verbs: name, module and help."""


VERBS = {
    verb.name: verb
    for verb in (Verb(*line.split(maxsplit=2)) for line in _VERBS.splitlines() if line[0] == " ")
}


def overview() -> str:
    """All verbs by group, for `passdown` alone and `passdown help`."""
    lines = ["usage: passdown VERB [...]", "", "Hand work from one agent to the next."]
    for line in _VERBS.splitlines():
        verb = VERBS.get(line.split()[0]) if line[0] == " " else None
        lines += [f"  {verb.name:<10} {verb.line}"] if verb else ["", line]
    return "\n".join(
        [
            *lines,
            "",
            "passdown help VERB (or passdown VERB --help) shows options and examples.",
            "--store URL or PASSDOWN_STORE names a store; default: the nearest .passdown/.",
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
