"""How the answer to a write is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.surfaces.cli.printing import (
    counted,
    line,
    pairs,
    print_json,
    print_problems,
    short_digest,
    verbatim,
)
from passdown.surfaces.cli.terminal import styled

if TYPE_CHECKING:
    from passdown.model.command import Check, HandoffCommand, Receipt


def print_receipt(receipt: Receipt, *, as_json: bool) -> int:
    """Print the version and the items of a small write."""
    if as_json:
        print_json(receipt.as_document())
        return 0
    said = "was recorded already" if receipt.is_replay else "recorded"
    items = f": {', '.join(receipt.items)}" if receipt.items else ""
    line(f"{said}, {receipt.task_id} version {receipt.version}{items}")
    print_problems(receipt.warnings)
    return 0


def print_command(command: HandoffCommand, *, as_json: bool) -> int:
    """Print what the receiver of a handoff is given."""
    if as_json:
        print_json(command.as_document())
        return 0
    said = "was recorded already" if command.is_replay else "recorded"
    line(f"{said}, {command.task_id} version {command.version}")
    answer = [f"{gate} (passdown gate approve {gate} --by NAME)" for gate in command.held_by]
    delta = command.state_delta
    files = counted(delta["artifacts_added"], "artifact")
    pairs(
        [
            ("to", command.target_agent),
            ("phase", command.phase),
            ("outcome", command.outcome),
            ("held by", answer),
            ("complete", f"{command.completeness} of 100"),
            ("added", f"{files}, {counted(delta['decisions_made'], 'decision')}"),
            (
                "state" if command.state_file.startswith("/api/") else "state file",
                command.state_file,
            ),
            ("digest", short_digest(command.digest)),
        ],
        2,
    )
    print_problems(command.warnings)
    line()
    verbatim(command.context_summary)
    return 0


def print_check(check: Check, *, as_json: bool) -> int:
    """Print what a dry run found; 1 when the handoff would be refused."""
    if as_json:
        print_json(check.as_document())
    else:
        print(styled("would be recorded", "green") if check.ok else styled("refused", "red"))
        pairs([("complete", f"{check.completeness} of 100")], 2)
        print_problems(sorted(check.problems, key=lambda problem: problem.level != "error"))
        line("nothing was changed (dry run)")
    return 0 if check.ok else 1
