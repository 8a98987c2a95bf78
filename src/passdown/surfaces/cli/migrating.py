"""`migrate`: freeform notes become handoffs, with where each item stands and how sure it is."""

from __future__ import annotations

import os
from re import sub
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, PassdownError, Problem
from passdown.surfaces.cli.parsing import FILE, TASK, with_agent, with_store
from passdown.surfaces.cli.printing import (
    counted,
    labelled,
    line,
    print_json,
    print_problems,
    table,
)
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import Misuse, author, opened, read_input

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace
    from passdown.workspace.migrating import Migration

Document = dict[str, Any]

ENDINGS = (".md", ".markdown", ".txt", ".json")
MANY = 5
_MAIN = ("summary", "issue", "pattern", "step", "question", "blocker", "path", "file", "name")


def migrate(parser: Parser) -> None:
    """The arguments of `migrate`."""
    parser.show(
        "passdown migrate notes/handover.md --dry-run",
        "passdown migrate notes/ --agent coder",
        "passdown migrate note.md --prompt > prompt.txt",
        "passdown migrate note.md --answer answer.json",
    )
    parser.add_argument("files", metavar=FILE, nargs="+", help="notes, folders of notes, patterns")
    parser.add_argument(
        "--task", metavar=TASK, default="", help="the task, where a note names none"
    )
    with_agent(parser, help="who hands off, where a note names nobody")
    parser.add_argument(
        "--minimum", metavar="0..1", type=_share, default=0.5, help="leave out what is less sure"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be recorded")
    parser.add_argument(
        "--prompt", action="store_true", help="print the prompt for a model instead"
    )
    parser.add_argument("--answer", metavar=FILE, help="a model's answer to that prompt")
    parser.add_argument("--ask", action="store_true", help="let PASSDOWN_MIGRATE_COMMAND answer it")
    parser.add_argument("--no-write", action="store_true", help="record, but leave the files alone")
    with_store(parser)
    parser.set_defaults(run=_migrate)


def _share(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise ArgumentTypeError(f"{text[:20]!r} given, expected a number from 0 to 1")
    return found


def _migrate(args: Namespace) -> int:
    paths = _files(args.files)
    if len(paths) > 1 and (args.task or args.answer or args.prompt):
        raise Misuse("--task, --answer and --prompt are for one file")
    if args.prompt:
        return _print_prompt(paths[0], as_json=args.json)
    answer = _given_answer(args.answer) if args.answer else None
    results: list[Document] = []
    draw = progress_bar("migrating") if len(paths) > MANY else None
    with opened(args) as workspace:
        for number, path in enumerate(paths, start=1):
            result = _one(workspace, path, args, answer)
            results.append(result)
            if draw:
                draw(number, len(paths))
            if not args.json:
                _print_result(result, is_alone=len(paths) == 1)
    if args.json:
        print_json([{k: v for k, v in result.items() if k != "text"} for result in results])
    elif len(results) > 1:
        _print_total(results)
    return 1 if any(result["result"] == "refused" for result in results) else 0


def _one(
    workspace: Workspace, named: _Named, args: Namespace, answer: Callable[[str], str] | None
) -> Document:
    path = named.path
    try:
        _check_named(named)
        found = workspace.migrate(
            path if path != "-" else _standard_input(),
            task=args.task,
            agent=author(args),
            answer=answer,
            ask=args.ask,
            minimum=args.minimum,
            dry_run=args.dry_run,
            write_back=not args.no_write,
        )
    except PassdownError as error:
        refused = {"file": path, "result": "refused", "error": error.as_document()}
        return {**refused, "text": str(error)}
    return _document(path, found)


class _Named(NamedTuple):
    """A file that is meant, and the folder that was searched for it; empty where it was named."""

    path: str
    folder: str = ""


def _files(given: list[str]) -> list[_Named]:
    """The files that are meant: folders hold notes, patterns that no shell spelled out match."""
    found: dict[str, _Named] = {}
    for path in given:
        if os.path.isdir(path):
            names = [_Named(name, path) for name in _in_folder(path)]
        elif _is_pattern(path):
            names = _matches(path) or [_Named(path)]
        else:
            names = [_Named(path)]
        for name in names:
            found.setdefault(name.path, name)
    if not found:
        problem = Problem("", "no_notes", f"no {', '.join(ENDINGS)} in {', '.join(given)}", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    return list(found.values())


def _is_pattern(path: str) -> bool:
    return _has_mark(path) and not os.path.lexists(path)


def _has_mark(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _matches(pattern: str) -> list[_Named]:
    """The files that match, each with the folder where the pattern begins to be one.

    `**` enters no folder that is a link: links in a circle would have no end.
    """
    from pathlib import Path

    whole = Path(pattern)
    first = next(n for n, part in enumerate(whole.parts) if _has_mark(part))
    folder = Path(*whole.parts[:first])
    # Whatever isn't `**` by itself means what one star means.
    parts = [part if part == "**" else sub(r"\*+", "*", part) for part in whole.parts[first:]]
    parts += ["*"] if parts[-1] == "**" else []
    is_shown = any(part.startswith(".") for part in parts)
    found: list[str] = []
    for match in folder.glob("/".join(parts)):
        is_hidden = any(part.startswith(".") for part in match.parts[len(folder.parts) :])
        if (is_shown or not is_hidden) and not os.path.isdir(match):
            found.append(str(match))
    return [_Named(path, str(folder)) for path in sorted(found)]


def _check_named(named: _Named) -> None:
    """Refuse a pattern that is still one, since it matched nothing, and a way out of a folder."""
    from passdown.workspace.given_files import is_beneath

    path, folder = named
    if not folder and _is_pattern(path):
        problem = Problem(path, "no_match", "the pattern matches no file", "notes")
        raise InvalidInput("there is nothing to migrate", [problem])
    if folder and not is_beneath(path, folder):
        fix = "name the file itself if it is meant"
        message = "leads out of the folder"
        problem = Problem(path, "path_escapes_root", message, "a file inside it", fix)
        raise InvalidInput("the note is refused", [problem])


def _in_folder(folder: str) -> list[str]:
    """The notes in a folder. Folders that are links aren't entered; those that lead out of it are
    among what is found, to be refused like any such link.
    """
    from passdown.workspace.given_files import is_beneath

    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "node_modules")
        notes = (name for name in sorted(names) if name.lower().endswith(ENDINGS))
        found += [os.path.join(root, name) for name in notes]
        links = (path for name in folders if os.path.islink(path := os.path.join(root, name)))
        found += [path for path in links if not is_beneath(path, folder)]
    return found


def _standard_input() -> str:
    """The note on standard input; one line is a note there too."""
    return read_input("-").decode("utf-8", "replace") + "\n"


def _given_answer(path: str) -> Callable[[str], str]:
    """A file as the answer. Sent back once, it would say the same again: it is refused."""
    text = read_input(path).decode("utf-8", "replace")
    return lambda _: text


def _print_prompt(named: _Named, *, as_json: bool) -> int:
    from passdown.model.freeform import extract, prompt_for

    _check_named(named)
    path = named.path
    text = read_input(path).decode("utf-8", "replace")
    prompt = prompt_for(text, extract(text, os.path.basename(path)))
    if as_json:
        print_json({"file": path, "prompt": prompt})
    else:
        print(prompt, end="")
    return 0


def _document(path: str, found: Migration) -> Document:
    word = "unchanged" if found.is_repeat else "recorded" if found.version else "planned"
    word = "skipped" if found.skipped else word
    return {
        "file": path,
        "result": word,
        "task": found.task,
        "made_task": found.made_task,
        "version": found.version,
        "changed": found.changed,
        "would_change": found.would_change,
        "reason": found.skipped,
        "found": [{**item._asdict(), "span": list(item.span)} for item in found.found],
        "kept": found.kept,
        "ambiguous": [span._asdict() for span in found.ambiguous],
        "handoff": found.handoff,
        "problems": [problem.as_document() for problem in found.problems],
    }


def _print_result(result: Document, *, is_alone: bool) -> None:
    word = result["result"]
    styles = {"recorded": "green", "unchanged": "dim", "planned": "cyan", "refused": "red"}
    styles |= {"skipped": "yellow"}
    if word == "refused":
        labelled(word, styles[word], f"{result['file']}\n{result['text']}")
        return
    if is_alone and word in ("recorded", "planned"):
        _print_found(result["found"])
    made = ", task made" if result["made_task"] else ""
    version = f" version {result['version']}" if result["version"] else ""
    found, kept = len(result["found"]), result["kept"]
    items = counted(found, "item") if kept == found else f"{kept:,} of {found:,} items"
    file = result["file"] if result["file"] != "-" else "the note"
    said = f"{result['task']}{version}, {items}{made}"
    labelled(word, styles[word], f"{file}: {result['reason'] or said}")
    if result["would_change"]:
        line(f"would add a section to {result['would_change']}", 2)
    if result["ambiguous"] and word != "unchanged":
        unclear = counted(len(result["ambiguous"]), "sentence")
        line(f"{unclear} unclear: passdown migrate {file} --prompt asks a model about them", 2)
    print_problems(Problem(**problem) for problem in result["problems"])


def _print_found(found: list[Document]) -> None:
    rows = [
        (
            item["line"],
            item["kind"].replace("_", " "),
            f"{item['confidence']:.2f}",
            item["cue"],
            next((item["fields"][name] for name in _MAIN if name in item["fields"]), ""),
        )
        for item in found
    ]
    table(("line", "kind", "sure", "cue", "says"), rows, "nothing found", whole=("line", "sure"))


def _print_total(results: list[Document]) -> None:
    words = [result["result"] for result in results]
    said = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    line(f"{counted(len(results), 'note')}: {', '.join(said)}")
    _print_shared([result["task"] for result in results if result["result"] == "planned"])


def _print_shared(planned: list[str]) -> None:
    """Say which tasks several notes of a dry run suggest: recorded, the first of them gets it."""
    for task in dict.fromkeys(task for task in planned if planned.count(task) > 1):
        count = planned.count(task)
        line(f"{count} notes suggest {task}: the first gets it, the others their path in the name")
