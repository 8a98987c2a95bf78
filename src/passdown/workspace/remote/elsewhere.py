"""What isn't done through a server: it needs files or functions of one machine. Each says so, and
what to do instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from passdown.errors import PassdownError
from passdown.workspace.remote.asking import Asking

if TYPE_CHECKING:
    from os import PathLike

    from passdown.recall.embedders import Embed
    from passdown.workspace.aliases import CounterLike, Document, Progress
    from passdown.workspace.answering import Answer
    from passdown.workspace.importing import Brought
    from passdown.workspace.migrating import Migration
    from passdown.workspace.ruling import RulesInjected

_WHERE = "Do it where the store is, with passdown.open of its folder or address."


def not_offered(url: str, what: str, instead: str = _WHERE) -> PassdownError:
    """The error for what a server doesn't offer."""
    return PassdownError(f"{url} doesn't offer {what}", next_step=instead, code="not_offered")


class Elsewhere(Asking):
    """The methods that work on files or functions of one machine."""

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise not_offered(self._wire.server.url, what, instead)

    def handle_file(self, task: str) -> str:
        """A handle file is on the server's disk."""
        self._refuse("its handle files", "state_document (passdown state) gives what one holds.")

    def rules(
        self,
        prompt: str,
        *,
        session: str,
        agent: str | None = None,
        workflow: str | None = None,
        squad: str | None = None,
        task: str | None = None,
        used_tokens: int | None = None,
        counter: CounterLike = None,
    ) -> RulesInjected:
        """Rules and sessions are files of a project, and need no records."""
        self._refuse("rules", _RULES)

    def rule_report(self) -> Document:
        """Rules are files of a project, and need no records."""
        self._refuse("rules", _RULES)

    def embed_with(self, name: str, function: Embed) -> None:
        """A function can't be sent."""
        self._refuse("a program's own embedder", "Set it where the server is; embed() asks for it.")

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
        """A folder or file is read where it is, and each of its parts compared with the store."""
        self._refuse(
            "imports from other tools",
            "Bring it in where the store is, or into a workspace here whose bundle you import.",
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
        """A note is read, and written back to, where it is."""
        self._refuse(
            "the migration of notes",
            "Migrate it where the store is, or in a workspace here whose bundle you import.",
        )


_RULES = "They are files of a project: open its folder, for which passdown.open('.') is enough."
