"""Bundles: work taken to another machine, with where the repository stood, and taken in there."""

from __future__ import annotations

import os
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem, unknown_task
from passdown.ledger.bundles import (
    Bundle,
    Imported,
    Importer,
    bundle_bytes,
    bundle_bytes_of,
    import_bundle,
    read_bundle,
)
from passdown.ledger.durable_files import write_new
from passdown.model.arguments import number_problems
from passdown.model.checkout import difference, read_checkout
from passdown.model.kinds import TASK_STREAM, origins_of, stream_of
from passdown.model.names import agent_problems
from passdown.model.times import stamp
from passdown.recall.git_checkout import checkout_of, head_of, patch_of
from passdown.recall.git_head import has_git
from passdown.workspace.given_files import irregular
from passdown.workspace.safety import check_target

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown.model.checkout import Checkout
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Held, Opened


def export(opened: Opened, target: str, task: str | None, *, diff: bool) -> int:
    """Write a bundle of one task or of everything to a new file; gives the number of streams."""
    with opened.store.reading() as reader:
        if task is not None and reader.head(stream_of(task)) is None:
            raise unknown_task(task)
    check_target(opened, target, ())
    stood = checkout(opened)
    patch = patch_of(opened.root) if diff else b""
    data, count = _bundled(opened, task, stood, patch)
    write_bundle(target, data)
    return count


def _bundled(
    opened: Opened, task: str | None, stood: Checkout | None, patch: bytes
) -> tuple[bytes, int]:
    with opened.store.reading() as reader:
        streams = [stream_of(task)] if task else [head.stream for head in reader.heads(TASK_STREAM)]
        return bundle_bytes(reader, streams, stood, patch), len(streams)


def bundle_of(workspace: Held, task: str | None) -> bytes:
    """The bundle of one task or of everything, with where the repository here stands."""
    opened = workspace._opened  # pyright: ignore[reportPrivateUsage] - the door's other half
    with opened.store.reading() as reader:
        if task is not None and reader.head(stream_of(task)) is None:
            raise unknown_task(task)
    return _bundled(opened, task, checkout(opened), b"")[0]


def standing_here(data: bytes, root: str, *, diff: bool) -> tuple[bytes, int]:
    """A bundle that was made elsewhere, with where the repository at `root` stands instead, if it
    is one; and how many streams it has. Raises InvalidInput for one that can't be trusted.
    """
    with read_bundle(BytesIO(data)) as bundle:
        stood = checkout_at(root) or bundle.checkout
        patch = patch_of(root) if diff else b""
        return bundle_bytes_of(bundle.records, stood, patch), len(bundle.heads)


def write_bundle(target: str, data: bytes) -> None:
    """Write a bundle to a new file."""
    _write_new(target, data, "nothing was exported")


def checkout(opened: Opened) -> Checkout | None:
    """Where the project's repository stands; None where it is in none."""
    return checkout_at(opened.root)


def checkout_at(root: str) -> Checkout | None:
    """Where the repository at a folder stands; None where it is in none."""
    return checkout_of(root) if has_git(root) else None


def _write_new(target: str, data: bytes, said: str) -> None:
    try:
        write_new(target, data)
    except OSError as error:
        problem = Problem("target", "unwritable", f"{target}: {error.strerror}", "a new file")
        raise InvalidInput(said, [problem]) from error


def import_file(
    opened: Opened,
    path: str,
    fork: str,
    patch: str = "",
    *,
    agent: str = "",
    max_unpacked: int | None = None,
) -> Imported:
    """Take in a bundle, all of it or nothing; `patch` is a new file for the changes in it."""
    with bundle_at(path, max_unpacked) as bundle:
        if patch:
            check_target(opened, patch, ())
        with patch_written(bundle, patch):
            return _taken_in(opened, bundle, fork, agent)


def bundle_at(path: str, max_unpacked: int | None = None) -> Bundle:
    """The bundle in a file, to be closed in the end; raises InvalidInput for what is none or can't
    be trusted.
    """
    problems = irregular(path)
    if max_unpacked is not None:
        problems += number_problems(max_unpacked, "max_unpacked", 0)
    if problems:
        raise InvalidInput("nothing was imported", problems)
    return read_bundle(path, max_unpacked)


def import_data(workspace: Held, data: bytes, fork: str, *, agent: str) -> Imported:
    """Take in the bytes of a bundle, all of it or nothing."""
    opened = workspace._opened  # pyright: ignore[reportPrivateUsage] - the door's other half
    with read_bundle(BytesIO(data)) as bundle:
        return _taken_in(opened, bundle, fork, agent)


def _taken_in(opened: Opened, bundle: Bundle, fork: str, agent: str) -> Imported:
    if problems := agent_problems(agent, "agent") if agent else []:
        raise InvalidInput("nothing was imported", problems)
    now = stamp(opened.clock())
    importer = Importer(now, agent) if agent else Importer(now)
    result = import_bundle(opened.store, bundle, importer, fork=fork)
    for task in result.touched:
        opened.handles.restore(opened.store, task)
    return result._replace(warnings=strayed(opened.root, bundle.checkout))


@contextmanager
def patch_written(bundle: Bundle, patch: str) -> Generator[None]:
    """Write the uncommitted changes of a bundle to the new file `patch`, if one is named; it is
    taken away again where the block fails.
    """
    if not patch:
        yield
        return
    if not bundle.patch:
        message = "the bundle has no uncommitted changes"
        problem = Problem("patch", "missing", message, "one that was exported with --diff")
        raise InvalidInput("nothing was imported", [problem])
    _write_new(patch, bundle.patch, "nothing was imported")
    try:
        yield
    except BaseException:
        os.unlink(patch)
        raise


def imported_document(found: Imported) -> dict[str, Any]:
    """What an import did, as plain JSON."""
    return {
        **found._asdict(),
        "unchanged": list(found.unchanged),
        "touched": list(found.touched),
        "checkout": found.checkout.document() if found.checkout else None,
        "warnings": [warning._asdict() for warning in found.warnings],
    }


def imported_of(document: dict[str, Any]) -> Imported:
    """The import that a document of `imported_document` says."""
    stood = document["checkout"]
    return Imported(
        added=document["added"],
        unchanged=tuple(document["unchanged"]),
        forked=document["forked"],
        touched=tuple(document["touched"]),
        checkout=read_checkout(stood) if stood else None,
        warnings=tuple(Problem(**warning) for warning in document["warnings"]),
    )


def strayed(root: str, stood: Checkout | None) -> tuple[Problem, ...]:
    """A warning where work that was brought stood elsewhere than the repository at `root`."""
    warning = difference(stood, head_of(root)) if stood is not None else None
    return (warning,) if warning else ()


def warned_of_origin(
    opened: Opened, reader: Reader, task: str, version: int
) -> tuple[Problem, ...]:
    """A warning that a task was brought here and stood elsewhere, until it has gone on here."""
    head = reader.head(origins_of(task))
    record = reader.record(head.stream, head.position) if head else None
    brought = record.document() if record is not None and record.is_intact() else {}
    if brought.get("version") != version:
        return ()
    stood = brought.get("checkout")
    return strayed(opened.root, read_checkout(stood) if stood else None)


__all__ = [
    "Imported",
    "bundle_at",
    "bundle_of",
    "checkout",
    "checkout_at",
    "export",
    "import_data",
    "import_file",
    "imported_document",
    "imported_of",
    "patch_written",
    "standing_here",
    "strayed",
    "warned_of_origin",
    "write_bundle",
]
