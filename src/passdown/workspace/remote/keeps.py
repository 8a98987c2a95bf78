"""How a store behind a server is kept safe: files are written and read here, verified here."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput
from passdown.workspace.remote.asking import Asking
from passdown.workspace.remote.values import verified_of

if TYPE_CHECKING:
    from passdown.ledger.bundles import Imported
    from passdown.ledger.verifying import Verified
    from passdown.model.checkout import Checkout
    from passdown.workspace.aliases import Heads, Progress
    from passdown.workspace.safety import Rebuilt

Document = dict[str, Any]

_SQLITE = "application/vnd.sqlite3"


class RemoteKeeps(Asking):
    """The methods that keep the data safe; see `Workspace` for what each one does."""

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verified:
        """Check, where the store is, that it says what was written."""
        if against is None:
            found = self._get("/api/verify", is_heavy=True, chain_only=chain_only)
        else:
            heads = against if isinstance(against, str) else dict(against)
            body = {"against": heads, "chain_only": chain_only}
            found = self._check("/api/verify", body, is_heavy=True)
        return verified_of(found)

    def heads(self) -> Document:
        """The heads of all streams."""
        return self._get("/api/heads", is_heavy=True)

    def backup(self, target: str, progress: Progress | None = None) -> Verified:
        """Copy the store to a new file here while others write, and verify the copy."""
        from passdown.workspace.remote.saving import kept_if_whole
        from passdown.workspace.safety import check_new

        check_new(target, ("", "-wal", "-shm"))
        return kept_if_whole(
            target, lambda path: self._wire.fetch("/api/backup", _SQLITE, path, progress)
        )

    def export(self, target: str, task: str | None = None, *, diff: bool = False) -> int:
        """Write a bundle here; gives the number of streams. It says where the repository here
        stands, or that of the server, where there is none.
        """
        from passdown.workspace.bundling import standing_here, write_bundle
        from passdown.workspace.safety import check_new

        check_new(target, ())
        query = {} if task is None else {"task": task}
        reply = self._wire.ask("GET", "/api/bundle", query=query, is_heavy=True)
        data, count = standing_here(reply.body, os.getcwd(), diff=diff)
        write_bundle(target, data)
        return count

    def import_bundle(
        self,
        path: str,
        *,
        fork: str = "",
        patch: str = "",
        agent: str = "",
        max_unpacked: int | None = None,
    ) -> Imported:
        """Take in a bundle from here; `patch` is a new file here. Who brings it is whom the token
        says, and how large it may be there is up to the server.
        """
        from passdown.workspace.bundling import bundle_at, imported_of, patch_written, strayed
        from passdown.workspace.safety import check_new

        with bundle_at(path, max_unpacked) as bundle:
            if patch:
                check_new(patch, ())
            with open(path, "rb") as file:
                packed = base64.b64encode(file.read()).decode()
            body = {"bundle": packed, "fork": fork, "agent": agent or None}
            with patch_written(bundle, patch):
                try:
                    found = self._post("/api/bundle", body, repeats=True, is_heavy=True)
                except InvalidInput as error:
                    raise _too_large(error) from error
            return imported_of(found)._replace(warnings=strayed(os.getcwd(), bundle.checkout))

    def checkout(self) -> Checkout | None:
        """Where the repository here stands: branch, commit, uncommitted files."""
        from passdown.workspace.bundling import checkout_at

        return checkout_at(os.getcwd())

    def reindex(self, progress: Progress | None = None) -> Rebuilt:
        """Make every derived row again from the records, where the store is."""
        from passdown.workspace.safety import Rebuilt

        found = self._post("/api/reindex", {}, repeats=True, is_heavy=True)
        return Rebuilt(found["records"], tuple(found["differing"]))

    def doctor(self) -> Document:
        """Facts and findings about the workspace of the server."""
        return self._get("/api/doctor", is_heavy=True)


def _too_large(error: InvalidInput) -> InvalidInput:
    """What to do about a bundle that the server doesn't take for its size; else the error."""
    if not any(problem.code == "too_large" for problem in error.problems):
        return error
    step = "Import it where the store is, or have the server take more: passdown serve --max-body."
    return InvalidInput(error.message, error.problems, next_step=step)
