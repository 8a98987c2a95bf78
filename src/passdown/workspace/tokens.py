"""Access tokens of a workspace: created, revoked, looked up; the local server's own token file."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from passdown import errors
from passdown.core import access as core_access
from passdown.core.kinds import ACCESS_STREAM
from passdown.core.text import visible
from passdown.core.times import stamp, utc_now
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.core.record import Record
    from passdown.workspace import Workspace

SESSION_DAYS = 30
SESSIONS = 20
"""How long a browser stays signed in, and how many sign in within an hour, for one token."""
_NOBODY = core_access.AccessToken("", "", False, (), core_access.token_digest(""), "")
"""Compared with a token of an unknown id, so that this takes as long as with a known one."""


class NewToken(NamedTuple):
    """A new token: `token` is shown once and kept nowhere."""

    token: str
    access: core_access.AccessToken


class Tokens:
    """The tokens of one open workspace; threads may share it.

    Whether one has expired goes by this machine's time. `all` reads what is new; `holder` goes by
    what was read, so that it costs no look at the store.
    """

    def __init__(self, workspace: Workspace, now: Callable[[], datetime] = utc_now) -> None:
        self._beside = WorkspaceStreams(workspace)
        self._now = now
        self._known: dict[str, core_access.AccessToken] = {}
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
        parent: str = "",
    ) -> NewToken:
        """Make a token for an agent or a person; without `days` or `expires` it never expires. One
        with a `parent` is valid only as long as that token is.
        """
        now = self._now()
        if days:
            expires = stamp(now + timedelta(days=days))
        problems = core_access.access_problems(name, expires, now) + self._shared(name, is_person)
        errors.raise_problems("no token was made", problems)
        allowed = core_access.checked_rights(rights, is_person=is_person)
        identity, token = core_access.new_token(os.urandom(core_access.RANDOM_BYTES))
        access = core_access.AccessToken(
            id=identity,
            name=name,
            is_person=is_person,
            rights=allowed,
            digest=core_access.token_digest(token),
            made=stamp(now),
            expires=expires,
            label=label[:80],
            parent=parent,
        )
        body = {**access.to_dict(), "digest": access.digest}
        self._beside.add(StreamEntry(ACCESS_STREAM, "token_made", by, body, f"made-{identity}"))
        return NewToken(token, access)

    def _shared(self, name: str, is_person: bool) -> list[errors.Problem]:
        """A problem where a person and an agent would bear one name: what either writes would look
        like the other's.
        """
        for known in self.all().values():
            if known.name == name and known.is_person != is_person and self.is_live(known.id):
                whose = "a person's" if known.is_person else "an agent's"
                message = f"{name!r} is {whose} name, by token {known.id}"
                return [errors.Problem("name", "name_taken", message, "a name of its own")]
        return []

    def revoke(self, identity: str, *, by: str) -> core_access.AccessToken:
        """Take a token back; doing it twice is fine. Raises NotFound."""
        known = self.all().get(identity)
        if known is None:
            message = f"there is no token {identity[:40]!r}"
            raise errors.NotFound(message, next_step="List them with: passdown token list")
        if not known.revoked:
            at = stamp(self._now())
            body = {"id": identity, "revoked": at}
            self._beside.add(StreamEntry(ACCESS_STREAM, "token_revoked", by, body))
        return self.all()[identity]

    def all(self) -> dict[str, core_access.AccessToken]:
        """Every token that was ever made, by id, in the order of making."""
        for record in self._beside.records(ACCESS_STREAM, after=self._position):
            self._take(record)
        return dict(self._known)

    def holder(self, token: str) -> core_access.AccessToken | None:
        """Whose token this is; None for one that is unknown, expired or revoked."""
        identity = core_access.token_id(token)
        if not identity:
            return None
        known = self._known.get(identity, _NOBODY)
        if not core_access.token_matches(token, known) or known is _NOBODY:
            return None
        return known if self.is_live(identity) else None

    def proof(self, identity: str, port: int, nonce: str) -> str:
        """That this store holds a token, for one who has it; of an unknown one nobody's."""
        known = self._known.get(identity, _NOBODY)
        return core_access.server_proof(known.digest, port, nonce)

    def is_live(self, identity: str) -> bool:
        """Whether a token holds, and the one that it was made from, by what was read."""
        return self.state(identity) == "live"

    def state(self, identity: str) -> str:
        """Whether a token is live, expired or revoked, or else the one that it was made from."""
        now = self._now()
        for _ in range(len(self._known)):
            known = self._known.get(identity)
            state = known.state(now) if known else "revoked"
            if known is None or state != "live" or not known.parent:
                return state
            identity = known.parent
        return "revoked"

    def session(self, holder: core_access.AccessToken) -> NewToken:
        """A token for a browser of the holder, which ends with the holder's own. Raises NotAllowed
        if that one has ended, RateLimited after many within an hour: each is a record.
        """
        recent = stamp(self._now() - timedelta(hours=1))
        known = self.all().values()
        if not self.is_live(holder.id):
            raise errors.NotAllowed("the token that this link was made with has ended")
        if sum(each.parent == holder.id and each.made > recent for each in known) >= SESSIONS:
            raise errors.RateLimited(
                f"{holder.name} has signed in {SESSIONS} times within an hour",
                next_step="Use a browser that is signed in, or wait.",
            )
        return self.new(
            holder.name,
            holder.rights,
            by=holder.name,
            is_person=holder.is_person,
            days=SESSION_DAYS,
            label="browser",
            parent=holder.id,
        )

    def are_there(self) -> bool:
        """Whether any token would be taken now."""
        return any(map(self.is_live, self.all()))

    def _take(self, record: Record) -> None:
        body = record.document()
        if record.kind == "token_made":
            access = core_access.AccessToken(
                **{name: body[name] for name in core_access.AccessToken._fields if name in body}
            )
            access = access._replace(rights=tuple(body["rights"]))
            self._known = {**self._known, access.id: access}
        elif body["id"] in self._known:
            known = self._known[body["id"]]
            self._known = {**self._known, known.id: known._replace(revoked=body["revoked"])}
        self._position = record.position


NAME = "serve.token"
_LABEL = "passdown serve"


def usual_file(workspace: Workspace) -> str:
    """Where the token for a workspace's store is kept unless a file is named; no other store's
    token is kept there. Its folder is made.
    """
    from passdown.workspace.location import make_folder

    place = workspace._context.place  # pyright: ignore[reportPrivateUsage] - part of the workspace's own code
    make_folder(place)
    return os.path.join(place.folder, NAME)


def own_token_file(tokens: Tokens, path: str, name: str) -> str:
    """The path of a file with a token that holds, made where there is none.

    It is a person's, with every right: who can read the file could open the store as well. One
    that an earlier release made with fewer rights is replaced, and revoked, as are those that were
    made for this file before and are in it no longer. Raises UnsafeStore for a file that others may
    read.
    """
    path = os.path.abspath(os.path.expanduser(path))
    known = token_in(path)
    made = tokens.all()
    holder = tokens.holder(known) if known else None
    if holder is not None and (holder.rights == core_access.RIGHTS or not _is_ours(holder)):
        return path
    label = _label_of(path)
    minted = tokens.new(name, core_access.RIGHTS, by=name, is_person=True, label=label)
    _write(path, minted.token)
    for access in made.values():
        is_replaced = access.id == core_access.token_id(known) and _is_ours(access)
        if tokens.is_live(access.id) and (is_replaced or access.label == label):
            tokens.revoke(access.id, by=name)
    return path


def _is_ours(access: core_access.AccessToken) -> bool:
    return access.label.startswith(_LABEL)


def _label_of(path: str) -> str:
    """The label of a token that was made for a file: others are told from it by this machine's
    name and the whole path, which may be longer than a label.
    """
    place = f"{socket.gethostname()}:{path}"
    mark = hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return f"{_LABEL} {mark} {visible(path)[-48:]}"


def token_in(path: str) -> str:
    """The token that a file holds; empty where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise errors.UnsafeStore(
                f"{path} is no file that only its owner can read",
                next_step="Take the rights of others away (mode 600), or name another file.",
            )
        return file.read(256).decode("ascii", "replace").strip()


def _write(path: str, token: str) -> None:
    """Replace the file as a whole, with its rights set before there is anything to read."""
    temporary = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.replace(temporary, path)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: str, error: OSError) -> errors.StoreUnavailable:
    return errors.StoreUnavailable(
        f"{path} can't be used for the token ({error.strerror or error})",
        next_step="Name another file with --token-file.",
    )
