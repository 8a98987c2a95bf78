"""Parse a PostgreSQL URL: the database, and which of its workspaces is meant."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from passdown.errors import InvalidInput, Problem
from passdown.store import database_url, url_without_password

DEFAULT = "passdown"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_EXPECTED = "1 to 40 of a-z, 0-9 and _, a letter first"


class Location(NamedTuple):
    """Where a workspace is kept: what libpq connects to, and the schema that holds the tables."""

    url: str
    conninfo: str
    workspace: str

    @property
    def schema(self) -> str:
        """The schema: its own for each workspace, and never one that others use."""
        return DEFAULT if self.workspace == DEFAULT else f"{DEFAULT}_{self.workspace}"

    @property
    def shown(self) -> str:
        """The address without its password."""
        return url_without_password(self.url)

    def key(self, *parts: str) -> int:
        """The number of the lock that stands for something in this workspace."""
        text = "\0".join((self.schema, *parts)).encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def parse_location(url: str) -> Location:
    """The location that an address names: `postgresql://HOST/DATABASE?workspace=NAME`."""
    try:
        options = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError as error:
        raise _refused("invalid_url", "can't be read", "postgresql://HOST/DATABASE") from error
    names = [value for name, value in options if name == "workspace"] or [DEFAULT]
    if len(names) > 1 or not _NAME.fullmatch(names[0]):
        raise _refused("invalid_workspace", f"{names[-1][:60]!r} is no workspace", _EXPECTED)
    return Location(url, database_url(url), names[0])


def _refused(code: str, message: str, expected: str) -> InvalidInput:
    return InvalidInput("the store can't be opened", [Problem("store", code, message, expected)])
