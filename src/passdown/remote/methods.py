"""Operations whose request doesn't follow from their signature: they use files of this machine.

Each function is called with the remote workspace and the arguments of the operation of its name.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from passdown.core.views import ArtifactStatus
from passdown.errors import InvalidInput
from passdown.operations import OPERATION
from passdown.remote import call, decoded, files_sent, named_counter, project_here
from passdown.remote.connection import path_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.checkout import Checkout
    from passdown.core.intake import HandoffLike
    from passdown.core.results import Check, HandoffCommand
    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject, Progress
    from passdown.history.profiles import Profile, Profiles
    from passdown.knowledge.sync import KnowledgeSync
    from passdown.ledger.bundles import BundleImport
    from passdown.ledger.verification import Verification
    from passdown.remote import RemoteWorkspace
    from passdown.remote.connection import HttpReply
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.switches import Switch


def _post(ws: RemoteWorkspace, path: str, body: JsonObject, **options: Any) -> HttpReply:
    """Send a body without what is None."""
    given = {name: value for name, value in body.items() if value is not None}
    return ws.connection.ask("POST", path, body=given, **options)


def hand_off(
    ws: RemoteWorkspace, handoff: HandoffLike | None = None, *, key: str | None = None, **given: Any
) -> HandoffCommand:
    """Record a handoff, with hashes of the files here that it names."""
    from passdown.core.results import HandoffCommand

    body = {"dry_run": given.pop("dry_run", False)} | _envelope(handoff, **given)
    reply = _post(ws, "/api/handoffs", body, key=key)
    return decoded(reply, HandoffCommand)


def check_handoff(ws: RemoteWorkspace, handoff: HandoffLike | None = None, **given: Any) -> Check:
    """Check a handoff, with hashes of the files here that it names."""
    from passdown.core.results import Check

    return decoded(_post(ws, "/api/handoffs/check", _envelope(handoff, **given)), Check)


def _envelope(
    handoff: HandoffLike | None,
    *,
    rebase: bool = False,
    changed_files: Sequence[str] | None = None,
    **fields: Any,
) -> JsonObject:
    """A handoff in any form, as a body, and what the files that it names are like here."""
    from passdown.core.intake import GivenHandoff, read_handoff
    from passdown.core.results import HandoffCommand
    from passdown.core.schema import as_plain

    named = {name: as_plain(value) for name, value in fields.items() if value is not None}
    sent: object = handoff.data if isinstance(handoff, GivenHandoff) else handoff
    if isinstance(sent, HandoffCommand):
        sent = sent.to_dict()
    if isinstance(sent, bytes):
        sent = sent.decode("utf-8", "surrogateescape")
    body: JsonObject = {"handoff": as_plain(sent or {}), "defaults": named, "rebase": rebase}
    body["changed_files"] = None if changed_files is None else list(changed_files)
    try:
        return body | files_sent(read_handoff(handoff, named).data)
    except InvalidInput:
        return body  # the server refuses it, and says why


def artifacts(ws: RemoteWorkspace, task: str) -> list[ArtifactStatus]:
    """A task's artifacts, compared with the files beneath the folder of this program."""
    from passdown.history.items import artifact_status

    project = project_here()
    found = [each.to_dict() for each in call(ws.connection, OPERATION["artifacts"], task)]
    return [ArtifactStatus({**each, "now": artifact_status(each, project)}) for each in found]


def switch(
    ws: RemoteWorkspace,
    task: str,
    *,
    to_agent: str,
    counter: CounterLike = None,
    profiles: str = "",
    **given: Any,
) -> Switch:
    """The context of an agent that takes over, with its profile from here if there is one."""
    from passdown.workspace.switches import Switch

    body: JsonObject = {"to_agent": to_agent, "counter": named_counter(counter), **given}
    body = {name: value for name, value in body.items() if value is not None}
    found = _profiles(profiles).get(to_agent)
    if found is not None or profiles:
        body["profile"] = _profile_sent(found) if found else None
    reply = ws.connection.ask("POST", f"/api/tasks/{path_part(task)}/switch", body=body)
    return _with_local_git(decoded(reply, Switch))


def _with_local_git(found: Switch) -> Switch:
    """A switch. What it says of git is about the repository here, if there is one."""
    from passdown.history.git import has_git
    from passdown.workspace.switches import git_check, git_warnings

    if not has_git(os.getcwd()):
        return found
    warnings = list(found.warnings)
    theirs, git = git_warnings(found.git), git_check(os.getcwd(), found.files)
    first = (n for n, one in enumerate(warnings) if one.path != "profile")
    place = warnings.index(theirs[0]) if theirs else next(first, len(warnings))
    warnings[place : place + len(theirs)] = git_warnings(git)
    return found._replace(git=git, warnings=tuple(warnings))


def context_prompt(
    ws: RemoteWorkspace,
    text: str,
    *,
    task: str,
    active: str = "",
    counter: CounterLike = None,
    **given: Any,
) -> Prompt:
    """A user's prompt, with the profile from here of the agent that it calls."""
    from passdown.context.switches import find_switch
    from passdown.workspace.prompts import Prompt

    here = _profiles()
    called = find_switch(text, here.names(), active)
    profile = here.get(called) if called else None
    body: JsonObject = {"text": text, "active": active, "counter": named_counter(counter), **given}
    body["profile"] = _profile_sent(profile) if profile else None
    found: Prompt = decoded(_post(ws, f"/api/tasks/{path_part(task)}/prompt", body), Prompt)
    return found._replace(switched=_with_local_git(found.switched)) if found.switched else found


def context_profile(ws: RemoteWorkspace, agent: str) -> Profile | None:
    """An agent's profile here, else on the server, or None where it has none."""
    return _profiles().get(agent) or call(ws.connection, OPERATION["context.profile"], agent)


def context_agents(ws: RemoteWorkspace) -> tuple[str, ...]:
    """The agents that have a profile, here or on the server."""
    there = call(ws.connection, OPERATION["context.agents"])
    return tuple(sorted({*_profiles().names(), *there}))


def _profiles(folder: str = "") -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.history.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def _profile_sent(profile: Profile) -> JsonObject:
    problems = [problem.to_dict() for problem in profile.problems]
    sent: JsonObject = {"name": profile.name, "text": profile.text, "problems": problems}
    return {**sent, "path": profile.path[:1_024]}


def files_checkout(ws: RemoteWorkspace) -> Checkout | None:
    """The state of the repository here."""
    from passdown.workspace.maintenance import checkout_at

    return checkout_at(os.getcwd())


def knowledge_sync(ws: RemoteWorkspace, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file here with the graph of the server."""
    import hashlib

    from passdown.knowledge.sync import SyncFolders, sync_file

    # What the file said last time is remembered in the user's cache: a folder `.passdown` here
    # would be taken for a workspace.
    root = os.getcwd()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    whose = f"{ws.store_url}\0{os.path.realpath(root)}".encode()
    name = hashlib.blake2b(whose, digest_size=8).hexdigest()
    memory = os.path.join(cache, "passdown", "knowledge", name)
    folders = SyncFolders(root, os.path.join(root, ".passdown"), memory)
    return sync_file(ws.knowledge, folders, path, agent=agent)


def maintenance_backup(
    ws: RemoteWorkspace, target: str, progress: Progress | None = None
) -> Verification:
    """Copy the store to a new file here while others write, and verify the copy."""
    from passdown.workspace.maintenance import check_new, kept_if_whole

    check_new(target, ("", "-wal", "-shm"))
    media = "application/vnd.sqlite3"
    return kept_if_whole(
        target, lambda path: ws.connection.fetch("/api/backup", media, path, progress)
    )


def maintenance_export(
    ws: RemoteWorkspace, target: str, task: str | None = None, *, diff: bool = False
) -> int:
    """Write a bundle here, with the state of the repository here or else of the server's."""
    from passdown.workspace.maintenance import check_new, with_local_checkout, write_bundle

    check_new(target, ())
    query = {} if task is None else {"task": task}
    reply = ws.connection.ask("GET", "/api/bundle", query=query, is_heavy=True)
    data, count = with_local_checkout(reply.body, os.getcwd(), diff=diff)
    write_bundle(target, data)
    return count


def maintenance_import_bundle(
    ws: RemoteWorkspace,
    path: str,
    *,
    patch: str = "",
    max_unpacked: int | None = None,
    **given: Any,
) -> BundleImport:
    """Import a bundle from here; `patch` is a new file here.

    Who imports it is whom the token names, and how large it may be is up to the server.
    """
    from passdown.ledger.bundles import BundleImport
    from passdown.workspace.maintenance import (
        bundle_at,
        check_new,
        checkout_warnings,
        patch_written,
    )

    with bundle_at(path, max_unpacked) as bundle:
        if patch:
            check_new(patch, ())
        with open(path, "rb") as file:
            packed = base64.b64encode(file.read()).decode()
        body = {"bundle": packed, **{name: value for name, value in given.items() if value}}
        with patch_written(bundle, patch):
            try:
                reply = _post(ws, "/api/bundle", body, repeats=True, is_heavy=True)
            except InvalidInput as error:
                raise _too_large(error) from error
        found: BundleImport = decoded(reply, BundleImport)
        return found._replace(warnings=checkout_warnings(os.getcwd(), bundle.checkout))


def _too_large(error: InvalidInput) -> InvalidInput:
    """What to do about a bundle that is too large for the server; else the error itself."""
    if not any(problem.code == "too_large" for problem in error.problems):
        return error
    step = "Import it where the store is, or let the server take more: passdown serve --max-body."
    return InvalidInput(error.message, error.problems, next_step=step)
