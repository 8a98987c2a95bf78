"""How a workspace takes in what people already have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

if TYPE_CHECKING:
    from os import PathLike

    from passdown.workspace.aliases import Progress
    from passdown.workspace.answering import Answer
    from passdown.workspace.importing import Brought
    from passdown.workspace.migrating import Migration


class Brings(Held):
    """The methods that take in what was written elsewhere."""

    def bring(
        self,
        source: str,
        *,
        form: str = "auto",
        agent: str = "",
        task: str = "",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Brought:
        """Take in a folder of ADRs, a beads file, a memory of MCP, notes or a bundle.

        A second run of the same source writes nothing; a changed one only what changed. `dry_run`
        says what would happen. Raises InvalidInput where nothing can be taken.
        """
        from passdown.workspace.importing import bring

        return bring(
            self._opened,
            source,
            form=form,
            agent=agent,
            task=task,
            dry_run=dry_run,
            progress=progress,
        )

    def migrate(
        self,
        note: str | PathLike[str],
        *,
        task: str = "",
        agent: str = "",
        answer: Answer | None = None,
        ask: bool = False,
        minimum: float = 0.5,
        dry_run: bool = False,
        write_back: bool = True,
    ) -> Migration:
        """Record what a freeform note says as a handoff; a second run does nothing.

        `note` is a file (Markdown, text, a JSON report), or the text itself where it has more than
        one line. `answer` is called with the prompt about what is unclear and gives the handoff as
        text; with `ask` the command of PASSDOWN_MIGRATE_COMMAND is. Items that are less sure than
        `minimum` are left out. The file gets a handoff section below the note unless `write_back`
        is False.
        """
        from passdown.workspace.migrating import migrate

        return migrate(
            self._opened,
            note,
            task=task,
            agent=agent,
            answer=answer,
            ask=ask,
            minimum=minimum,
            dry_run=dry_run,
            write_back=write_back,
        )
