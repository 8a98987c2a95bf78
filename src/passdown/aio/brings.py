"""The methods of a workspace that take in what was written elsewhere, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.aio.calling import Calling

if TYPE_CHECKING:
    from os import PathLike

    from passdown.workspace.aliases import Progress
    from passdown.workspace.answering import Answer
    from passdown.workspace.importing import Brought
    from passdown.workspace.migrating import Migration


class AsyncBrings(Calling):
    """See `workspace.brings` for what each method does."""

    async def bring(
        self,
        source: str,
        *,
        form: str = "auto",
        agent: str = "",
        task: str = "",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Brought:
        """Take in a folder of ADRs, a beads file, a memory of MCP, notes or a bundle."""
        return await self._call(
            self._workspace.bring,
            source,
            form=form,
            agent=agent,
            task=task,
            dry_run=dry_run,
            progress=progress,
        )

    async def migrate(
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
        """Record what a freeform note says as a handoff; a second run does nothing."""
        return await self._call(
            self._workspace.migrate,
            note,
            task=task,
            agent=agent,
            answer=answer,
            ask=ask,
            minimum=minimum,
            dry_run=dry_run,
            write_back=write_back,
        )
