"""`switch` and `artifact`: an agent takes over, and what the one before it left behind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.briefing import say_warnings, with_counter
from passdown.surfaces.cli.parsing import AGENT, FILE, TASK, with_store
from passdown.surfaces.cli.printing import (
    line,
    pairs,
    print_error,
    print_json,
    print_problems,
    short_time,
    table,
    verbatim,
)
from passdown.surfaces.cli.session import Misuse, is_server, opened, read_input, store_of

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.errors import PassdownError
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace
    from passdown.workspace.artifacts import Compared
    from passdown.workspace.prompting import Prompted

Document = dict[str, Any]

_PROMPT_WAITS_S = 3.0
"""How long a prompt waits for others who write; then it goes on, and says what wasn't recorded."""


def switch(parser: Parser) -> None:
    """The arguments of `switch`."""
    parser.show(
        "passdown switch --task T-1 --to coder",
        "passdown switch --task T-1 --to coder --profiles agents --rules rules.md --json",
        "passdown switch --task T-1 --prompt - --active planner < prompt.txt",
    )
    parser.add_argument("--task", metavar=TASK, required=True, help="the task that goes over")
    parser.add_argument("--to", metavar=AGENT, help="who takes over")
    parser.add_argument(
        "--from", dest="sender", metavar=AGENT, help="who leaves; default: who has the task"
    )
    with_counter(parser)
    parser.add_argument("--profiles", metavar="DIR", help="NAME.md files; default: the settings'")
    parser.add_argument("--rules", metavar=FILE, help="text that goes in after the profile")
    parser.add_argument("--no-record", action="store_true", help="write nothing down")
    parser.add_argument(
        "--prompt",
        metavar=FILE,
        help="a user's prompt (- reads it): printed behind the context of the agent that it calls "
        "with @name or /name, else as it is",
    )
    parser.add_argument("--active", metavar=AGENT, help="with --prompt: who has the word now")
    with_store(parser)
    parser.set_defaults(run=_switch)


def _switch(args: Namespace) -> int:
    if args.prompt and any(getattr(args, name) for name in ("to", "sender", "profiles", "rules")):
        raise Misuse(
            "--prompt finds the agent in the prompt; it goes with --active, --budget, --counter "
            "and --no-record"
        )
    if args.prompt:
        return _prompt(args)
    if not args.to or args.active:
        raise Misuse("name who takes over with --to, or a prompt with --prompt")
    rules = read_input(args.rules).decode(errors="replace") if args.rules else ""
    with opened(args) as workspace:
        found = workspace.switch(
            args.task,
            to=args.to,
            from_agent=args.sender or "",
            budget=args.budget,
            counter=args.counter,
            profiles=args.profiles or "",
            rules=rules,
            record=not args.no_record,
        )
    if args.json:
        print_json(found.document())
        return 0
    if sys.stdout.isatty():
        verbatim(found.text.removesuffix("\n"))
    else:
        # A model gets the profile as it stands in its file, whatever it holds.
        _write(found.text.encode() + (b"" if found.text.endswith("\n") else b"\n"))
    say_warnings(found.warnings)
    return 0


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _prompt(args: Namespace) -> int:
    """A prompt always goes on: what fails on the way is said on standard error."""
    given = _read_prompt(args.prompt)
    text = given.decode(errors="surrogateescape")
    try:
        with _quick_to_answer(args) as workspace:
            found = workspace.prompt(
                text,
                task=args.task,
                active=args.active or "",
                budget=args.budget,
                counter=args.counter,
                record=not args.no_record,
            )
    except Exception as error:  # noqa: BLE001
        return _went_on(given, error, args)
    if args.json:
        print_json(_document(found))
        return 0
    _write(found.text.encode(errors="surrogateescape"))
    say_warnings(found.switched.warnings if found.switched else ())
    return 0


def _read_prompt(path: str) -> bytes:
    """A prompt has no limit of its own: what is too long is for the model to refuse."""
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def _quick_to_answer(args: Namespace) -> Workspace:
    """The workspace, with less patience for others who write than the settings have."""
    if is_server(store_of(args)):
        return opened(args)
    from passdown.workspace import Workspace
    from passdown.workspace.locating import place_of
    from passdown.workspace.opened import read_settings

    place = place_of(store_of(args), create=False)
    settings = read_settings(place.config)
    waits = min(settings.lock_timeout_s, _PROMPT_WAITS_S)
    return Workspace(place, settings=settings._replace(lock_timeout_s=waits))


def _document(found: Prompted) -> Document:
    switched = found.switched.document() if found.switched else None
    return {"text": found.text, "agent": found.agent, "switched": switched}


def _went_on(given: bytes, error: Exception, args: Namespace) -> int:
    from passdown.errors import PassdownError

    known = error if isinstance(error, PassdownError) else PassdownError(f"{error}", code="failed")
    if args.json:
        text = given.decode(errors="surrogateescape")
        said: Document = {"text": text, "agent": args.active or "", "switched": None}
        print_json({**said, "error": known.as_document()})
        return 0
    _write(given)
    _say_unchanged(known)
    return 0


def _say_unchanged(error: PassdownError) -> None:
    print_error(error, as_json=False)
    print("the prompt went on unchanged", file=sys.stderr)


def artifact(parser: Parser) -> None:
    """The arguments of `artifact` and the verbs below it."""
    save = parser.subverb(
        "save",
        "leave an artifact for an agent that comes later",
        "passdown artifact save --task T-1 --to tester",
        run=_save,
    )
    save.add_argument("--task", metavar=TASK, required=True)
    save.add_argument("--to", metavar=AGENT, required=True, help="who it waits for")
    save.add_argument("--from", dest="sender", metavar=AGENT, help="default: who has the task")
    with_store(save)
    listing = parser.subverb(
        "list",
        "the latest artifacts of all tasks, those of a task, or those that wait for an agent",
        "passdown artifact list",
        "passdown artifact list --task T-1",
        "passdown artifact list --agent tester --json",
        run=_list,
    )
    listing.add_argument("--task", metavar=TASK)
    listing.add_argument("--agent", metavar=AGENT, help="only what waits for it")
    with_store(listing)
    _of_files(parser)


def _of_files(parser: Parser) -> None:
    """The verbs that read artifact files, wherever they are."""
    check = parser.subverb(
        "check",
        "whether artifact files are sound and as they were recorded; exit code 1 when not",
        "passdown artifact check .passdown/handoffs/*.yaml",
        run=_check,
    )
    check.add_argument("files", metavar=FILE, nargs="+")
    with_store(check)
    show = parser.subverb(
        "show",
        "one artifact file, to read",
        "passdown artifact show handoff.yaml --markdown",
        run=_show,
    )
    show.add_argument("file", metavar=FILE)
    show.add_argument("--markdown", action="store_true", help="with headings")
    show.add_argument("--json", action="store_true", help="print JSON")
    parser.subverb(
        "template",
        "an empty artifact, to fill in by hand",
        "passdown artifact template > handoff.yaml",
        run=_template,
    )


def _save(args: Namespace) -> int:
    with opened(args) as workspace:
        saved = workspace.save_artifact(args.task, to=args.to, from_agent=args.sender or "")
    if args.json:
        print_json(saved)
        return 0
    line(f"{saved['file']} waits for {saved['to_agent']}")
    names = ("path", "from_agent", "version")
    pairs([(name.replace("_", " "), saved[name]) for name in names], 2)
    return 0


def _list(args: Namespace) -> int:
    from passdown.workspace.artifacts import every_artifact

    with opened(args) as workspace:
        if args.task:
            workspace.task(args.task)  # which refuses one that isn't there
        if args.task or args.agent:
            found = workspace.switch_artifacts(task=args.task or "", agent=args.agent or "")
        else:
            found = every_artifact(workspace)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            entry["task"],
            short_time(entry["at"]),
            entry["from_agent"],
            entry["to_agent"],
            entry["version"],
            "consumed" if entry["consumed"] else "waits",
            entry["file"],
        ]
        for entry in found
    ]
    names = ("task", "at (UTC)", "from", "to", "version", "state", "file")
    empty = f"nothing waits for {args.agent}" if args.agent else "no artifacts"
    table(names, rows, empty, whole=names[:-1])
    return 0


def _check(args: Namespace) -> int:
    """1 when a file has an error; a warning alone leaves it sound."""
    found = {path: _findings(args, path) for path in args.files}
    is_sound = all(p.level != "error" for each in found.values() for p in each.problems)
    if args.json:
        plain = {path: [p._asdict() for p in each.problems] for path, each in found.items()}
        known = [path for path, each in found.items() if each.is_known]
        print_json({"sound": is_sound, "files": plain, "compared": known})
        return int(not is_sound)
    for path, each in found.items():
        line(f"{path}: {_verdict(each)}")
        print_problems(each.problems)
    return int(not is_sound)


def _verdict(found: Compared) -> str:
    if any(problem.level == "error" for problem in found.problems):
        return "not sound"
    return "sound" if found.is_known else "well formed; not compared (no record of this file)"


def _findings(args: Namespace, path: str) -> Compared:
    from passdown.errors import InvalidInput, NotFound
    from passdown.workspace.artifacts import Compared, check_artifact, compared

    try:
        data = read_input(path)
    except InvalidInput as error:
        return Compared(list(error.problems), is_known=False)
    try:
        workspace = opened(args)
    except NotFound:
        if args.store:
            raise
        return Compared(check_artifact(data), is_known=False)
    with workspace:
        return compared(workspace, path, data)


def _show(args: Namespace) -> int:
    from passdown.workspace.artifacts import artifact_data, artifact_view

    data = read_input(args.file)
    artifact = artifact_data(data)
    if args.json:
        print_json(artifact)
    elif args.markdown:
        verbatim(artifact_view(data).rstrip("\n"))
    else:
        verbatim(data.decode(errors="replace").rstrip("\n"))
    return 0


def _template(args: Namespace) -> int:
    from passdown.workspace.artifacts import artifact_template

    print(artifact_template(), end="")
    return 0
