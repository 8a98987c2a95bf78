"""The state of a git checkout as a value, and how two differ."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn, cast

from passdown.core.text import excerpt, first_few
from passdown.errors import InvalidInput, Problem

MAX_FILES_LISTED = 200
"""How many uncommitted files are named; the rest is counted."""

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST = 4_096
_MAX_NAMED = 5
_SHORT = 10


class Checkout(NamedTuple):
    """A branch (empty for none), its commit, and what isn't committed.

    `files` are the first of `uncommitted`; `patch_sha256` is set where the changes came along.
    """

    branch: str
    commit: str
    uncommitted: int = 0
    files: tuple[str, ...] = ()
    patch_sha256: str = ""

    def document(self) -> dict[str, Any]:
        """The checkout as plain JSON."""
        return {**self._asdict(), "files": list(self.files)}


def read_checkout(given: object) -> Checkout:
    """The checkout that a document describes; raises InvalidInput where it describes none."""
    document = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if set(document) != set(Checkout._fields):
        _refuse("isn't one", ", ".join(Checkout._fields))
    files: object = document["files"]
    listed = cast("list[object]", files) if isinstance(files, list) else [None]
    texts: list[object] = [document["branch"], *listed]
    if not all(isinstance(text, str) and 0 <= len(text) <= _LONGEST for text in texts):
        _refuse("has a branch or a file that is no text of a usual length", "names")
    if not _matches(_COMMIT, document["commit"]):
        _refuse("has no commit", "its id in full")
    if document["patch_sha256"] != "" and not _matches(_DIGEST, document["patch_sha256"]):
        _refuse("has a patch without its hash", "64 digits")
    count = document["uncommitted"]
    if type(count) is not int or not len(listed) <= count < 2**31 or len(listed) > MAX_FILES_LISTED:
        _refuse(
            "doesn't count its files", f"at most {MAX_FILES_LISTED} names, and how many there are"
        )
    values: dict[str, Any] = {**document, "files": tuple(listed)}
    return Checkout(**values)


def describe_checkout(checkout: Checkout) -> str:
    """Describe a checkout: branch, commit and uncommitted files."""
    text = _at(checkout)
    if not checkout.uncommitted:
        return text
    named = [*map(_word, checkout.files), *[""] * (checkout.uncommitted - len(checkout.files))]
    return f"{text}, with uncommitted changes to {first_few(named, _MAX_NAMED)}"


def checkout_warning(there: Checkout, here: Checkout | None) -> Problem | None:
    """A warning that imported work was based on another checkout than this one."""
    if here is not None and here.commit == there.commit and not there.uncommitted:
        return None
    now = "there is no commit here" if here is None else f"here it is {_at(here)}"
    message = f"this work was based on {describe_checkout(there)}; {now}"
    fix = "get that commit before you go on, or look at what differs"
    if there.uncommitted:
        how = "import the bundle with --patch FILE for" if there.patch_sha256 else "ask for"
        fix = f"{fix}; {how} the uncommitted changes"
    return Problem("git", "another_checkout", message, "the same commit", fix, "warning")


def _at(checkout: Checkout) -> str:
    where = f"branch {_word(checkout.branch)}" if checkout.branch else "no branch"
    return f"{where} at {checkout.commit[:_SHORT]}"


def _word(text: str) -> str:
    return repr(excerpt(text, 80))


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _refuse(message: str, expected: str) -> NoReturn:
    problem = Problem("checkout", "bad_archive", f"the state of git in it {message}", expected)
    raise InvalidInput("the bundle is refused; nothing was imported", [problem])
