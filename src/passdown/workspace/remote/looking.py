"""What a server is told of the files here: it has the records, and who asks has the files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput
from passdown.ledger.disk import Project
from passdown.workspace.handing import plain_handoff
from passdown.workspace.seen import FIELD, files_named, looked_at

if TYPE_CHECKING:
    from passdown.workspace.aliases import HandoffLike

Document = dict[str, Any]


def project_here() -> Project:
    """The files beneath the folder that this program works in. The store is elsewhere."""
    return Project(os.getcwd(), "")


def seen_of_handoff(handoff: HandoffLike, defaults: Document) -> Document:
    """The part of a body that says what the files that a handoff names are like here.

    Of what can't be read as a handoff nothing is said: the server refuses it.
    """
    try:
        return seen(plain_handoff(handoff, defaults))
    except InvalidInput:
        return {}


def seen(data: Document) -> Document:
    """The part of a body that says what the files that plain data names are like here."""
    named = files_named(data)
    return {FIELD: looked_at(project_here(), named)} if named else {}
