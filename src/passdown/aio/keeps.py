"""The methods of a workspace that keep its data safe, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.aio.calling import Calling

if TYPE_CHECKING:
    from passdown.ledger.bundles import Imported
    from passdown.ledger.verifying import Verified
    from passdown.model.checkout import Checkout
    from passdown.workspace.aliases import Document, Heads, Progress
    from passdown.workspace.safety import Rebuilt


class AsyncKeeps(Calling):
    """See `workspace.keeps` for what each method does."""

    async def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verified:
        """Check that the store says what was written; `against` are heads saved elsewhere."""
        return await self._call(
            self._workspace.verify, against, chain_only=chain_only, progress=progress
        )

    async def heads(self) -> Document:
        """The heads of all streams, to be kept somewhere else for `verify`."""
        return await self._call(self._workspace.heads)

    async def backup(self, target: str, progress: Progress | None = None) -> Verified:
        """Copy the store to a new file while others write, and verify the copy."""
        return await self._call(self._workspace.backup, target, progress)

    async def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle of one task or of everything; gives the number of streams.

        It says where the repository stands; with `diff` it has the uncommitted changes as well.
        """
        return await self._call(self._workspace.export, target, task, diff=diff)

    async def import_bundle(
        self,
        path: str,
        *,
        fork: str = "",
        patch: str = "",
        agent: str = "",
        max_unpacked: int | None = None,
    ) -> Imported:
        """Take in a bundle, verified, all or nothing; `fork` keeps both where histories differ.

        `patch` is a new file for the uncommitted changes that are in it. `agent` is recorded as who
        brought it; `max_unpacked` is how many bytes it may unpack to, instead of the usual bounds.
        """
        return await self._call(
            self._workspace.import_bundle,
            path,
            fork=fork,
            patch=patch,
            agent=agent,
            max_unpacked=max_unpacked,
        )

    async def checkout(self) -> Checkout | None:
        """Where the project's repository stands: branch, commit, uncommitted files."""
        return await self._call(self._workspace.checkout)

    async def reindex(self, progress: Progress | None = None) -> Rebuilt:
        """Make every derived row and handle file again from the records."""
        return await self._call(self._workspace.reindex, progress)

    async def doctor(self) -> Document:
        """Facts and findings about this workspace, with what to do about each."""
        return await self._call(self._workspace.doctor)
