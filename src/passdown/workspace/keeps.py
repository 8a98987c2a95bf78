"""How a workspace keeps its data safe: verify, backup, bundles, rebuilding, the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

if TYPE_CHECKING:
    from passdown.ledger.bundles import Imported
    from passdown.ledger.verifying import Verified
    from passdown.model.checkout import Checkout
    from passdown.workspace.aliases import Document, Heads, Progress
    from passdown.workspace.safety import Rebuilt


class Keeps(Held):
    """The methods that keep the data safe."""

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verified:
        """Check that the store says what was written; `against` are heads saved elsewhere."""
        from passdown.workspace.safety import verify_store

        return verify_store(self._opened, against, chain_only=chain_only, progress=progress)

    def heads(self) -> Document:
        """The heads of all streams, to be kept somewhere else for `verify`."""
        from passdown.workspace.safety import heads

        return heads(self._opened)

    def backup(self, target: str, progress: Progress | None = None) -> Verified:
        """Copy the store to a new file while others write, and verify the copy."""
        from passdown.workspace.safety import backup

        return backup(self._opened, target, progress)

    def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle of one task or of everything; gives the number of streams.

        It says where the repository stands; with `diff` it has the uncommitted changes as well.
        """
        from passdown.workspace.bundling import export

        return export(self._opened, target, task, diff=diff)

    def import_bundle(
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
        from passdown.workspace.bundling import import_file

        return import_file(self._opened, path, fork, patch, agent=agent, max_unpacked=max_unpacked)

    def checkout(self) -> Checkout | None:
        """Where the project's repository stands: branch, commit, uncommitted files."""
        from passdown.workspace.bundling import checkout

        return checkout(self._opened)

    def reindex(self, progress: Progress | None = None) -> Rebuilt:
        """Make every derived row and handle file again from the records."""
        from passdown.workspace.safety import rebuild

        return rebuild(self._opened, progress)

    def doctor(self) -> Document:
        """Facts and findings about this workspace, with what to do about each."""
        from passdown.workspace.safety import doctor

        return doctor(self._opened)
