"""The token of whoever runs a server on this machine, in a file that nobody else can read."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable, UnsafeStore
from passdown.model.access import RIGHTS, id_of
from passdown.model.text import visible

if TYPE_CHECKING:
    from passdown.model.access import Access
    from passdown.workspace import Workspace
    from passdown.workspace.access import Tokens

NAME = "serve.token"
OWN_RIGHTS = RIGHTS
_LABEL = "passdown serve"


def usual_file(workspace: Workspace) -> str:
    """Where the token for a workspace's store is kept unless a file is named; no other store's
    token is kept there. Its folder is made.
    """
    from passdown.workspace.locating import make_folder, own_folder

    place = workspace._opened.place  # pyright: ignore[reportPrivateUsage] - the door's other half
    folder = own_folder(place)
    make_folder(place._replace(folder=folder))
    return os.path.join(folder, NAME)


def own_token_file(tokens: Tokens, path: str, name: str) -> str:
    """The path of a file with a token that holds, made where there is none.

    It is a person's, with every right: who can read the file could open the store as well. One
    that an earlier release made with fewer rights is replaced, and revoked, as are those that were
    made for this file before and are in it no longer. Raises UnsafeStore for a file that others may
    read.
    """
    path = os.path.abspath(os.path.expanduser(path))
    known = _read(path)
    made = tokens.all()
    holder = tokens.holder(known) if known else None
    if holder is not None and (holder.rights == OWN_RIGHTS or not _is_ours(holder)):
        return path
    label = _label_of(path)
    minted = tokens.new(name, OWN_RIGHTS, by=name, is_person=True, label=label)
    _write(path, minted.token)
    for access in made.values():
        is_replaced = access.id == id_of(known) and _is_ours(access)
        if tokens.is_live(access.id) and (is_replaced or access.label == label):
            tokens.revoke(access.id, by=name)
    return path


def _is_ours(access: Access) -> bool:
    return access.label.startswith(_LABEL)


def _label_of(path: str) -> str:
    """The label of a token that was made for a file: others are told from it by this machine's
    name and the whole path, which may be longer than a label.
    """
    place = f"{socket.gethostname()}:{path}"
    mark = hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return f"{_LABEL} {mark} {visible(path)[-48:]}"


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise UnsafeStore(
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


def _unusable(path: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} can't be used for the token ({error.strerror or error})",
        next_step="Name another file with --token-file.",
    )
