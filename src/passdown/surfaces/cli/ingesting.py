"""`ingest`: record the handoffs that stand in task files; the same file twice changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, NotFound, PassdownError, Problem
from passdown.surfaces.cli.parsing import FILE, with_agent, with_store
from passdown.surfaces.cli.printing import labelled, line, print_json, print_problems
from passdown.surfaces.cli.session import author, opened, read_input

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

Document = dict[str, Any]


def ingest(parser: Parser) -> None:
    """The arguments of `ingest`."""
    parser.show("passdown ingest tasks/*.md", "passdown ingest tasks/T-1.md --agent coder --json")
    parser.add_argument("files", metavar=FILE, nargs="+", help="task files with a ## Handoff")
    with_agent(parser, help="who hands off, where a file names nobody")
    with_store(parser)
    parser.set_defaults(run=_ingest)


def _ingest(args: Namespace) -> int:
    results: list[Document] = []
    with opened(args) as workspace:
        for path in args.files:
            result: Document = {
                "file": path,
                "task": "",
                "made_task": False,
                "task_fields": [],
                "left_out": [],
            }
            try:
                take_in(workspace, path, author(args), result)
            except PassdownError as error:
                result.update(result="refused", error=error.as_document(), text=str(error))
            results.append(result)
            if not args.json:
                _print_result(result)
    refused = sum(result["result"] == "refused" for result in results)
    if args.json:
        print_json([{k: v for k, v in result.items() if k != "text"} for result in results])
    elif len(results) > 1:
        taken = len(results) - refused
        line(f"{taken} of {len(results)} files {'is' if taken == 1 else 'are'} recorded")
    return 1 if refused else 0


def take_in(workspace: Workspace, path: str, agent: str, result: Document) -> None:
    """Record one file's handoff, making its task where there is none; fills in `result`."""
    from passdown.model.intake.reading import read_task_file

    text = _decoded(read_input(path), path)
    data = read_task_file(text)
    result["task"] = task = str(data.get("task") or "")
    data["from_agent"] = data.get("from_agent") or agent
    warnings: list[Document] = []
    if task and not _exists(workspace, task):
        _refuse_faults(workspace, data)
        warnings = _make_task(workspace, text, data, result)
    # The text itself, not what was read from it: a task file is recorded once and for all.
    command = workspace.hand_off(text, from_agent=data["from_agent"])
    result.update(
        result="unchanged" if command.is_replay else "recorded",
        version=command.version,
        completeness=command.completeness,
        held_by=list(command.held_by),
        warnings=[*warnings, *(problem.as_document() for problem in command.warnings)],
    )


def _make_task(workspace: Workspace, text: str, data: Document, result: Document) -> list[Document]:
    """Make the task from what its file says; gives the warnings."""
    from passdown.model.intake.reading import task_parts, task_title

    task, parts = str(data["task"]), task_parts(text)
    receipt = workspace.create_task(
        task, title=task_title(text) or task, agent=str(data["from_agent"]), **parts.fields
    )
    result.update(made_task=True, task_fields=sorted(parts.fields), left_out=parts.left_out)
    return [problem.as_document() for problem in receipt.warnings]


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(path, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error


def _exists(workspace: Workspace, task: str) -> bool:
    try:
        workspace.task(task)
    except NotFound:
        return False
    return True


def _refuse_faults(workspace: Workspace, data: Document) -> None:
    """Refuse a faulty handoff before its task is made, so that nothing is left behind."""
    faults = [
        problem
        for problem in workspace.check(data).problems
        if problem.level == "error" and (problem.path, problem.code) != ("task", "not_found")
    ]
    if faults:
        raise InvalidInput("the handoff is refused; nothing was changed", faults)


def _print_result(result: Document) -> None:
    word = result["result"]
    style = {"recorded": "green", "unchanged": "dim", "refused": "red"}[word]
    if word == "refused":
        made = f"\nthe task {result['task']} was made" if result["made_task"] else ""
        labelled(word, style, f"{result['file']}\n{result['text']}{made}")
        return
    made = ", task made" if result["made_task"] else ""
    fields = ", ".join(name.replace("_", " ") for name in result["task_fields"])
    made += f" with {fields}" if fields else ""
    labelled(word, style, f"{result['file']}: {result['task']} version {result['version']}{made}")
    for each in result["left_out"]:
        line(f"left out: {each}", 2)
    for gate in result["held_by"]:
        line(f"held by {gate} (passdown gate approve {gate} --by NAME)", 2)
    warnings = [Problem(**warning) for warning in result["warnings"]]
    print_problems(w for w in warnings if w.code != "recommended")
