"""Operations whose request doesn't follow from their signature: they use files of this machine.

Each function is called with the remote workspace and the arguments of the operation of its name.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

from passdown.core.views import ArtifactStatus
from passdown.operations import OPERATION
from passdown.remote import call, decoded

if TYPE_CHECKING:
    from passdown.core.types import JsonObject, Progress
    from passdown.history.profiles import Profile, Profiles
    from passdown.knowledge.sync import KnowledgeSync
    from passdown.ledger.bundles import BundleImport
    from passdown.ledger.verification import Verification
    from passdown.remote import RemoteWorkspace
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.switches import Switch


def artifacts(ws: RemoteWorkspace, task: str) -> list[ArtifactStatus]:
    """A task's artifacts, compared with the files beneath the folder of this program."""
    from passdown.history.state import artifact_status
    from passdown.ledger.project_files import Project

    project = Project(os.getcwd(), "")
    found = [each.to_dict() for each in call(ws.connection, OPERATION["artifacts"], (task,))]
    return [ArtifactStatus({**each, "now": artifact_status(each, project)}) for each in found]


def switch(
    ws: RemoteWorkspace, task: str, *, to_agent: str, profiles: str = "", **given: Any
) -> Switch:
    """The context of an agent that takes over, with its profile from here if there is one."""
    from passdown.workspace.switches import profile_sent, with_git_of

    found = _profiles(profiles).get(to_agent)
    sent = profile_sent(found) if found or profiles else {}
    given = {"to_agent": to_agent, **given}
    return with_git_of(os.getcwd(), call(ws.connection, OPERATION["switch"], (task,), given, sent))


def context_prompt(ws: RemoteWorkspace, text: str, *, active: str = "", **given: Any) -> Prompt:
    """A user's prompt, with the profile from here of the agent that it calls."""
    from passdown.context.switches import find_switch
    from passdown.workspace.switches import profile_sent, with_git_of

    here = _profiles()
    called = find_switch(text, here.names(), active)
    profile = here.get(called) if called else None
    sent = profile_sent(profile) if profile else {}
    given = {"active": active, **given}
    found: Prompt = call(ws.connection, OPERATION["context.prompt"], (text,), given, sent)
    if found.switched is None:
        return found
    return found._replace(switched=with_git_of(os.getcwd(), found.switched))


def context_profile(ws: RemoteWorkspace, agent: str) -> Profile | None:
    """An agent's profile here, else on the server, or None where it has none."""
    return _profiles().get(agent) or call(ws.connection, OPERATION["context.profile"], (agent,))


def context_agents(ws: RemoteWorkspace) -> tuple[str, ...]:
    """The agents that have a profile, here or on the server."""
    there = call(ws.connection, OPERATION["context.agents"])
    return tuple(sorted({*_profiles().names(), *there}))


def _profiles(folder: str = "") -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.history.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def knowledge_sync(ws: RemoteWorkspace, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file here with the graph of the server."""
    from passdown.knowledge.sync import SyncFolders, sync_file

    folders = SyncFolders.of_client(os.getcwd(), ws.store_url)
    return sync_file(ws.knowledge, folders, path, agent=agent)


def maintenance_backup(
    ws: RemoteWorkspace, target: str, progress: Progress | None = None
) -> Verification:
    """Copy the store to a new file here while others write, and verify the copy."""
    from passdown.workspace.maintenance import kept_if_whole

    media = OPERATION["maintenance.backup"].media[0][1]
    return kept_if_whole(
        target, lambda path: ws.connection.fetch("/api/backup", media, path, progress)
    )


def maintenance_export(
    ws: RemoteWorkspace, target: str, task: str | None = None, *, diff: bool = False
) -> int:
    """Write a bundle here, with the state of the repository here or else of the server's."""
    from passdown.workspace.maintenance import export_from

    query = {} if task is None else {"task": task}

    def fetch() -> bytes:
        return ws.connection.ask("GET", "/api/bundle", query=query, is_heavy=True).body

    return export_from(fetch, target, os.getcwd(), diff=diff)


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
    from passdown.workspace.maintenance import import_through

    def send(bundle: bytes) -> BundleImport:
        body: JsonObject = {name: value for name, value in given.items() if value}
        body["bundle"] = base64.b64encode(bundle).decode()
        options: JsonObject = {"repeats": True, "is_heavy": True}
        return decoded(ws.connection.ask("POST", "/api/bundle", body=body, **options), BundleImport)

    return import_through(send, path, os.getcwd(), patch=patch, max_unpacked=max_unpacked)
