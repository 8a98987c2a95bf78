"""Check what a handoff says that its receiver has to check before it acts.

Nothing here runs because it was received. A caller asks for it, on its own machine: files are
measured there, and commands run only where the caller says so. A server has no way in to this.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from passdown.core.items import check_text, shown_command
from passdown.core.text import excerpt
from passdown.core.types import JsonObject
from passdown.errors import Problem, raise_problems
from passdown.ledger.project_files import Project
from passdown.relay.runners.command import ProcessLimits, ProcessSpec, run_process
from passdown.workspace import Workspace

TIMEOUT_S = 300.0
MAX_OUTPUT = 1_048_576
_TOLD = 200


class CheckedItem(NamedTuple):
    """A precondition after a check: what it says, its status (`open`: not checked), and what was
    found.
    """

    address: str
    text: str
    status: str
    result: str = ""

    def to_dict(self) -> JsonObject:
        """The same as a plain JSON object."""
        return self._asdict()


def check_preconditions(
    workspace: Workspace,
    task: str,
    *,
    agent: str,
    run: Callable[[str], bool] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[CheckedItem]:
    """Check what the latest handoff of a task wants checked, and record what was found.

    Files are measured in the folder of the project. A command runs only where `run` says so, which
    is asked with the command as it runs (`/bin/sh -c '...'` if the precondition names a shell; else
    it has none), with nothing on its stdin. Questions are answered by people: see `set_status`.

    Args:
        task: The task.
        agent: Who checks.
        run: Whether a command may run; None for none of them.
        timeout_s: How long a command may take.
    """
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 86_400:  # pyright: ignore[reportUnnecessaryIsInstance]
        problem = Problem("timeout_s", "out_of_range", f"{timeout_s!r:.40}", "1 to 86,400 seconds")
        raise_problems("nothing was checked", [problem])
    found: list[CheckedItem] = []
    for entry in current_preconditions(workspace.files.state_document(task)):
        command = shown_command(entry) if "command" in entry else ""
        text = check_text({**entry, "command": command} if command else entry)
        if "file" in entry:
            status, result = _file_result(workspace.root, entry)
        elif run is None or not run(command):
            found.append(CheckedItem(entry["address"], text, entry["status"], "not run"))
            continue
        else:
            status, result = _command_result(workspace.root, entry, timeout_s)
        if status != entry["status"]:
            workspace.set_status(entry["address"], status, agent=agent, reason=result)
        found.append(CheckedItem(entry["address"], text, status, result))
    return found


def current_preconditions(state: JsonObject) -> list[JsonObject]:
    """The preconditions of the latest handoff that are commands or files."""
    entries: list[JsonObject] = state.get("preconditions", [])
    latest = max((handoff["version"] for handoff in state["handoffs"]), default=0)
    return [entry for entry in entries if entry["version"] == latest]


def _file_result(root: str, entry: JsonObject) -> tuple[str, str]:
    now = Project(root, "").measure(entry["file"])
    wanted = str(entry.get("sha256") or "").removeprefix("sha256:")
    if now.problem is not None:
        return "failed", f"can't be read: {now.problem.message}"
    if now.sha256 is None:
        return "failed", "is not there"
    if wanted and now.sha256 != wanted:
        return "failed", f"is sha256 {now.sha256[:12]}, not {wanted[:12]}"
    return "passed", f"is sha256 {now.sha256[:12]}"


def _command_result(root: str, entry: JsonObject, timeout_s: float) -> tuple[str, str]:
    shell = ["/bin/sh", "-c", entry["command"]] if entry.get("shell") else []
    try:
        argv = shell or shlex.split(entry["command"])
    except ValueError as error:
        return "failed", f"can't be read as a command ({error})"
    order = ProcessSpec(argv, dict(os.environ), root)
    ran = run_process(order, b"", ProcessLimits(timeout_s, MAX_OUTPUT, MAX_OUTPUT))
    how: dict[str, Any] = {
        "exit": f"exit {ran.exit_code}",
        "timeout": f"took longer than {timeout_s:g} s",
        "flood": f"printed more than {MAX_OUTPUT:,} bytes",
        "not_started": f"can't be started ({os.strerror(ran.errno)})",
    }
    said = (ran.out + ran.err)[-4 * _TOLD :].decode("utf-8", "replace").strip().splitlines()
    last = f": {excerpt(said[-1], _TOLD)}" if said else ""
    is_passed = ran.ended == "exit" and ran.exit_code == 0
    return "passed" if is_passed else "failed", f"{how.get(ran.ended, ran.ended)}{last}"
