"""Bundles: work taken to another machine, with where the repository stood, and taken in there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem, unknown_task
from passdown.ledger.bundles import Imported, bundle_bytes, import_bundle, read_bundle
from passdown.ledger.durable_files import write_new
from passdown.model.checkout import difference, read_checkout
from passdown.model.kinds import TASK_STREAM, origins_of, stream_of
from passdown.model.times import stamp
from passdown.recall.git_checkout import checkout_of, head_of, patch_of
from passdown.recall.git_head import has_git
from passdown.workspace.given_files import irregular
from passdown.workspace.safety import check_target

if TYPE_CHECKING:
    from passdown.model.checkout import Checkout
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Opened


def export(opened: Opened, target: str, task: str | None, *, diff: bool) -> int:
    """Write a bundle of one task or of everything to a new file; gives the number of streams."""
    with opened.store.reading() as reader:
        if task is not None and reader.head(stream_of(task)) is None:
            raise unknown_task(task)
    check_target(opened, target, ())
    stood = checkout(opened)
    patch = patch_of(opened.root) if diff else b""
    with opened.store.reading() as reader:
        streams = [stream_of(task)] if task else [head.stream for head in reader.heads(TASK_STREAM)]
        data = bundle_bytes(reader, streams, stood, patch)
    _write_new(target, data, "nothing was exported")
    return len(streams)


def checkout(opened: Opened) -> Checkout | None:
    """Where the project's repository stands; None where it is in none."""
    return checkout_of(opened.root) if has_git(opened.root) else None


def _write_new(target: str, data: bytes, said: str) -> None:
    try:
        write_new(target, data)
    except OSError as error:
        problem = Problem("target", "unwritable", f"{target}: {error.strerror}", "a new file")
        raise InvalidInput(said, [problem]) from error


def import_file(opened: Opened, path: str, fork: str, patch: str = "") -> Imported:
    """Take in a bundle, all of it or nothing; `patch` is a new file for the changes in it."""
    if problems := irregular(path):
        raise InvalidInput("nothing was imported", problems)
    bundle = read_bundle(path)
    if patch:
        if not bundle.patch:
            message = "the bundle has no uncommitted changes"
            problem = Problem("patch", "missing", message, "one that was exported with --diff")
            raise InvalidInput("nothing was imported", [problem])
        check_target(opened, patch, ())
        _write_new(patch, bundle.patch, "nothing was imported")
    try:
        result = import_bundle(opened.store, bundle, at=stamp(opened.clock()), fork=fork)
    except BaseException:
        if patch:
            os.unlink(patch)
        raise
    for task in result.touched:
        opened.handles.restore(opened.store, task)
    return result._replace(warnings=_strayed(opened, bundle.checkout))


def _strayed(opened: Opened, stood: Checkout | None) -> tuple[Problem, ...]:
    """A warning where work that was brought stood elsewhere than this repository stands."""
    warning = difference(stood, head_of(opened.root)) if stood is not None else None
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
    return _strayed(opened, read_checkout(brought["checkout"]))


__all__ = ["Imported", "checkout", "export", "import_file", "warned_of_origin"]
