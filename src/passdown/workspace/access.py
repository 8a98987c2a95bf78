"""The tokens of a workspace, as records of one stream: made, revoked, looked up.

They stand in the ledger, so they are where the store is, on every machine that serves it; that one
was made or revoked is chained like everything else. A bundle carries tasks only, and no tokens.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.model.access import (
    RANDOM_BYTES,
    Access,
    access_problems,
    checked_rights,
    digest_of,
    id_of,
    is_same,
    mint,
)
from passdown.model.kinds import ACCESS_STREAM
from passdown.model.times import stamp
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.model.record import Record
    from passdown.workspace.opened import Held


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Minted(NamedTuple):
    """A new token: `token` is shown once and kept nowhere."""

    token: str
    access: Access


class Tokens:
    """The tokens of one open workspace; threads may share it.

    Whether one has expired goes by this machine's time. `all` reads what is new; `holder` goes by
    what was read, so that it costs no look at the store.
    """

    def __init__(self, workspace: Held, now: Callable[[], datetime] = _utc_now) -> None:
        self._beside = Beside(workspace)
        self._now = now
        self._known: dict[str, Access] = {}
        self._position = 0

    def new(
        self,
        name: str,
        rights: Iterable[str],
        *,
        by: str,
        is_person: bool = False,
        days: float = 0,
        expires: str = "",
        label: str = "",
    ) -> Minted:
        """Make a token for an agent or a person; without `days` or `expires` it never expires."""
        now = self._now()
        if days:
            expires = stamp(now + timedelta(days=days))
        problems = access_problems(name, expires, now) + self._shared(name, is_person, now)
        if problems:
            raise InvalidInput("no token was made", problems)
        allowed = checked_rights(rights, is_person=is_person)
        identity, token = mint(os.urandom(RANDOM_BYTES))
        access = Access(
            id=identity,
            name=name,
            is_person=is_person,
            rights=allowed,
            digest=digest_of(token),
            made=stamp(now),
            expires=expires,
            label=label[:80],
        )
        body = {**access._asdict(), "rights": list(allowed)}
        self._beside.add(Aside(ACCESS_STREAM, "token_made", by, body, f"made-{identity}"))
        return Minted(token, access)

    def _shared(self, name: str, is_person: bool, now: datetime) -> list[Problem]:
        """A problem where a person and an agent would bear one name: what either writes would look
        like the other's.
        """
        for known in self.all().values():
            if known.name == name and known.is_person != is_person and known.state(now) == "live":
                whose = "a person's" if known.is_person else "an agent's"
                message = f"{name!r} is {whose} name, by token {known.id}"
                return [Problem("name", "name_taken", message, "a name of its own")]
        return []

    def revoke(self, identity: str, *, by: str) -> Access:
        """Take a token back; doing it twice is fine. Raises NotFound."""
        known = self.all().get(identity)
        if known is None:
            message = f"there is no token {identity[:40]!r}"
            raise NotFound(message, next_step="List them with: passdown token list")
        if not known.revoked:
            at = stamp(self._now())
            body = {"id": identity, "revoked": at}
            self._beside.add(Aside(ACCESS_STREAM, "token_revoked", by, body))
        return self.all()[identity]

    def all(self) -> dict[str, Access]:
        """Every token that was ever made, by id, in the order of making."""
        for record in self._beside.records(ACCESS_STREAM, after=self._position):
            self._take(record)
        return dict(self._known)

    def holder(self, token: str) -> Access | None:
        """Whose token this is; None for one that is unknown, expired or revoked."""
        identity = id_of(token)
        if not identity:
            return None
        known = self._known.get(identity)
        if known is None or not is_same(token, known):
            return None
        return known if known.state(self._now()) == "live" else None

    def is_known(self, identity: str) -> bool:
        """Whether a token was ever made, by what was read."""
        return identity in self._known

    def is_live(self, identity: str) -> bool:
        """Whether a token holds, by what was read."""
        known = self._known.get(identity)
        return known is not None and known.state(self._now()) == "live"

    def are_there(self) -> bool:
        """Whether any token would be taken now."""
        now = self._now()
        return any(access.state(now) == "live" for access in self.all().values())

    def _take(self, record: Record) -> None:
        body = record.document()
        if record.kind == "token_made":
            access = Access(**{name: body[name] for name in Access._fields})
            access = access._replace(rights=tuple(body["rights"]))
            self._known = {**self._known, access.id: access}
        elif body["id"] in self._known:
            known = self._known[body["id"]]
            self._known = {**self._known, known.id: known._replace(revoked=body["revoked"])}
        self._position = record.position
